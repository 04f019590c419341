package replication

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"kedis/redis-tests/launch"
)

// TestStreamOfManyFields: of a stream that has an entry of very many fields, all alike, Redis
// writes some kilobytes. It is taken, as a payload and as part of a snapshot, and so is ours.
func TestStreamOfManyFields(t *testing.T) {
	redis := launch.ForTest(t, launch.MustOracle(t), "--repl-diskless-sync-delay", "0")
	kedis := launch.ForTest(t, launch.MustUnderTest(t))
	theirs, ours := redis.MustDial(t), kedis.MustDial(t)
	do(t, theirs, slices.Concat([]string{"XADD", "stream", "1-1"}, slices.Repeat([]string{"field", "1"}, 600_000))...)
	payload := do(t, theirs, "DUMP", "stream").Text
	do(t, ours, "RESTORE", "stream", "0", string(payload))
	own := do(t, ours, "DUMP", "stream").Text
	if !bytes.Equal(own, payload) {
		t.Errorf("it is dumped as %d bytes, by Redis as %d", len(own), len(payload))
	}
	do(t, theirs, "RESTORE", "back", "0", string(own))
	follow(t, kedis, redis.Port)
	converge(t, redis, kedis)
	for _, key := range []string{"stream", "back"} {
		if !bytes.Equal(do(t, ours, "DUMP", key).Text, payload) {
			t.Errorf("%s isn't what it was", key)
		}
	}
	once(t, "many fields", redis)
}

// TestStreamOfRepeatedNames: where Redis has been told to put very many entries into a node, a
// payload of 3 KB may become a gigabyte of long names that they share. A client's RESTORE of it is
// refused; the primary's is taken, and the stream in its snapshot.
func TestStreamOfRepeatedNames(t *testing.T) {
	if testing.Short() {
		t.Skip("it writes two streams of 1.2 GB")
	}
	const entries = "3000"
	redis := launch.ForTest(t, launch.MustOracle(t), "--repl-diskless-sync-delay", "0", "--stream-node-max-entries", "0", "--stream-node-max-bytes", "1mb")
	kedis := launch.ForTest(t, launch.MustUnderTest(t))
	theirs, ours := redis.MustDial(t), kedis.MustDial(t)
	const fill = "for i = 1, ARGV[1] do redis.call('XADD', KEYS[1], i .. '-1', ARGV[2], '') end"
	do(t, theirs, "EVAL", fill, "1", "stream", entries, strings.Repeat("n", 400_000))
	payload := string(do(t, theirs, "DUMP", "stream").Text)
	follow(t, kedis, redis.Port)
	converge(t, redis, kedis)
	do(t, theirs, "RESTORE", "copy", "0", payload)
	converge(t, redis, kedis)
	for _, key := range []string{"stream", "copy"} {
		if got := string(do(t, ours, "XLEN", key).Text); got != entries {
			t.Errorf("%s has %s entries", key, got)
		}
	}
	once(t, "repeated names", redis)
}
