package migrate

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"
)

// TestMarksGoForward: when a move goes on where its last lane was, the others stay where they were
// until it has come there, or another interruption would have them do things twice.
func TestMarksGoForward(t *testing.T) {
	target := &Target{lanes: []*lane{{index: 0}, {index: 1}, {index: 2}}, marker: &marker{id: "run", done: map[int]int64{0: 20, 1: 30, 2: 25}, furthest: 30}}
	for at, want := range map[int64]string{
		20: "HSET kedis:port:run 0 20:4",
		25: "HSET kedis:port:run 0 25:4 2 25:4",
		31: "HSET kedis:port:run 0 31:4 1 31:4 2 31:4",
	} {
		words := target.markWords(target.lanes[0], &batch{all: true, position: Position{at, 4}}, 0)
		if got := string(bytes.Join(words, []byte(" "))); got != want {
			t.Errorf("at %d: %s, expected %s", at, got, want)
		}
	}
}

// TestGroupOfSeveralSlotsIsNotParted: a batch that gets full within a group takes the rest of it
// along, for it notes the group's position for each slot that it has something of.
func TestGroupOfSeveralSlotsIsNotParted(t *testing.T) {
	target := &Target{cluster: redis.NewClusterClient(&redis.ClusterOptions{}), marker: &marker{id: "run"}}
	defer target.cluster.Close()
	target.ctx = context.Background()
	target.lanes = []*lane{target.newLane(0)}
	apply := func(at int64, command string, keys ...int) {
		t.Helper()
		if err := target.ApplyAt(Position{Offset: at}, Command{Args: words(command), Keys: keysAt(keys...)}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range transactionCommands - 1 {
		apply(int64(i+1), fmt.Sprintf("INCR %c", "ab"[i%2]), 1)
	}
	apply(1000, "MSET a 1 b 2", 1, 3)
	sent := <-target.lanes[0].queue
	if last := sent.command(sent.entries[len(sent.entries)-1]); sent.position.Offset != 1000 || last != `"MSET" "b" "2"` {
		t.Errorf("the batch that notes position %d ends with %s", sent.position.Offset, last)
	}
}
