package migrate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"kedis/storage/digest"
)

// oldRedis answers XRANGE in place of a server, as a Redis before 6.2 does, from a stream of the
// entries 1-0, 2-0 and so on.
type oldRedis struct{ entries int }

func (oldRedis) DialHook(next redis.DialHook) redis.DialHook { return next }

func (oldRedis) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (o oldRedis) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, command redis.Cmder) error {
		words := command.Args() // XRANGE key from + COUNT n
		from := fmt.Sprint(words[2])
		if strings.HasPrefix(from, "(") {
			return errors.New("ERR Invalid stream ID specified as stream command argument")
		}
		first, behind := 1, 0
		if from != "-" {
			if _, err := fmt.Sscanf(from, "%d-%d", &first, &behind); err != nil {
				return err
			}
		}
		if behind > 0 {
			first++
		}
		var reply []any
		for ms := first; ms <= o.entries && len(reply) < words[5].(int); ms++ {
			reply = append(reply, []any{fmt.Sprintf("%d-0", ms), []any{"field", "value"}})
		}
		command.(*redis.Cmd).SetVal(reply)
		return nil
	}
}

// TestStreamOfOldRedis reads a stream in pages from a Redis that knows no exclusive ids.
func TestStreamOfOldRedis(t *testing.T) {
	const entries = 2*page + 10
	client := redis.NewClient(&redis.Options{})
	defer client.Close()
	client.AddHook(oldRedis{entries})
	got, want := digest.NewValue(digest.Stream), digest.NewValue(digest.Stream)
	if err := streamDigest(t.Context(), client, "stream", &got); err != nil {
		t.Fatal(err)
	}
	for ms := range uint64(entries) {
		want.Entry(ms+1, 0)
		want.EntryField([]byte("field"), []byte("value"))
	}
	if got.Sum() != want.Sum() {
		t.Error("not every entry was read once")
	}
}
