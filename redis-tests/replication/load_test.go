package replication

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"kedis/redis-tests/launch"
	"kedis/redis-tests/seed"
)

// TestAttachedUnderLoad attaches a replica while clients write as fast as the primary takes it, and
// finds it catching up before they end.
func TestAttachedUnderLoad(t *testing.T) {
	primary := launch.ForTest(t, launch.MustUnderTest(t))
	replica := launch.ForTest(t, launch.MustUnderTest(t))
	var ending atomic.Bool
	ended, first := make(chan error, 2), seed.Of(t)
	for i := range uint64(2) {
		c := primary.MustDial(t)
		random := rand.New(rand.NewPCG(first, i))
		go func() {
			var err error
			for err == nil && !ending.Load() {
				const depth = 50
				for range depth {
					c.Queue("SET", fmt.Sprint("key", random.IntN(20000)), strings.Repeat("v", random.IntN(100)))
				}
				err = c.Flush()
				for n := 0; err == nil && n < depth; n++ {
					_, err = c.Read()
				}
			}
			ended <- err
		}()
	}
	time.Sleep(300 * time.Millisecond)
	follow(t, replica, primary.Port)
	level(t, primary, replica)
	ending.Store(true)
	for range 2 {
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	}
	converge(t, primary, replica)
	equal(t, primary, replica)
}

// level waits until a replica has passed a position at which its primary was since the replica is
// attached, and so has begun to take the stream behind the snapshot.
func level(t *testing.T, primary, replica *launch.Server) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if _, connected := position(t, replica); connected {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the replica is not connected")
		}
	}
	want, _ := position(t, primary)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		got, _ := position(t, replica)
		if got >= want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after a minute the replica is at %d, the primary was at %d when it began", got, want)
		}
	}
}
