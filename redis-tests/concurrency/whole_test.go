package concurrency

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"kedis/redis-tests/launch"
	"kedis/redis-tests/resp"
)

// wholes are hashes and sorted sets whose elements all have the same number, which one command
// after the other raises.
const (
	wholes   = 3
	elements = 20
)

// raised is the number that the writer of a collection was told to have reached.
type raised [wholes]atomic.Int64

// raise gives all elements of a hash and of a sorted set a number, in one command each, and takes
// one of them out and puts it back.
func (r *raised) raise(c *resp.Connection, i, number int) error {
	hash, set := []string{"hset", fmt.Sprint("hash", i)}, []string{"zadd", fmt.Sprint("set", i)}
	for e := range elements {
		name := strings.Repeat("-", 70) + strconv.Itoa(e) // too long to be packed
		hash = append(hash, name, strconv.Itoa(number))
		set = append(set, strconv.Itoa(number), name)
	}
	last := set[len(set)-1]
	if _, err := do(c, hash, set, []string{"zrem", set[1], last}, []string{"zadd", set[1], strconv.Itoa(number), last}); err != nil {
		return err
	}
	r[i].Store(int64(number))
	return nil
}

// check reads a collection as a whole, after a moment at which it had reached a number.
func (r *raised) check(c *resp.Connection, random *rand.Rand) error {
	i := random.IntN(wholes)
	least := r[i].Load()
	request := [][]string{{"hgetall", fmt.Sprint("hash", i)}, {"hvals", fmt.Sprint("hash", i)}, {"zrange", fmt.Sprint("set", i), "0", "-1", "withscores"},
		{"zrevrange", fmt.Sprint("set", i), "0", "9", "withscores"}}[random.IntN(4)]
	replies, err := do(c, request)
	if err != nil {
		return err
	}
	words := replies[0].Strings()
	step := 2
	if request[0] == "hvals" {
		step = 1
	}
	for at := step - 1; at < len(words); at += step {
		number, err := strconv.ParseInt(words[at], 10, 64)
		if err != nil || number < least || words[at] != words[step-1] {
			return fmt.Errorf("%s after %d: %v", request, least, words)
		}
	}
	want := elements * step
	if request[0] == "zrevrange" {
		want = 10 * step
	}
	// One of the sorted set's may be out, but for no more than a moment.
	if out := want - len(words); out != 0 && (request[0] != "zrange" || out != step) {
		return fmt.Errorf("%s: %d words, want %d", request, len(words), want)
	}
	return nil
}

// TestWholes: who reads a collection as a whole sees what one command has left, and nothing older
// than what was there before.
func TestWholes(t *testing.T) {
	for name, options := range map[string][]string{
		"in memory": nil,
		"in files":  {"--memory-tier", "1mb", "--generation-bytes", "64kb"},
		"no copies": {"--clean-cache-share", "0%"},
	} {
		t.Run(name, func(t *testing.T) { wholesOn(t, launch.ForTest(t, launch.MustUnderTest(t), options...)) })
	}
}

func wholesOn(t *testing.T, server *launch.Server) {
	var reached raised
	c := server.MustDial(t)
	for i := range wholes {
		if err := reached.raise(c, i, 1); err != nil {
			t.Fatal(err)
		}
	}
	together(t, server, func(c *resp.Connection, client int, random *rand.Rand) error {
		for round := range 400 * *scale {
			var err error
			if client < wholes {
				err = reached.raise(c, client, round+2)
			} else {
				err = reached.check(c, random)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}
