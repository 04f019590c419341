package crash

import (
	"math/rand/v2"
	"testing"

	"kedis/redis-tests/launch"
	seeds "kedis/redis-tests/seed"
)

// TestDumpOfColdStrings asks for long strings right after a start, when nothing of them is in
// memory, and compares what comes with what redis-server says.
func TestDumpOfColdStrings(t *testing.T) {
	random := rand.NewChaCha8([32]byte{byte(seeds.Of(t))})
	oracle, server := launch.Pair(t)
	sizes := map[string]int{"some": 300_000, "more": 1_100_000, "most": 3_000_000}
	for key, size := range sizes {
		value := make([]byte, size)
		_, _ = random.Read(value)
		for _, s := range []*launch.Server{oracle, server} {
			if reply, err := s.MustDial(t).Do("SET", key, string(value)); err != nil || !reply.Is("OK") {
				t.Fatalf("SET of %d bytes: %.100s (%v)", size, reply, err)
			}
		}
	}
	if err := server.Shutdown(); err != nil {
		t.Fatal(err)
	}
	again, err := server.Restart()
	if err != nil {
		t.Fatal(err)
	}
	defer launch.End(t, again)
	for key, size := range sizes {
		want, err := oracle.MustDial(t).Do("DUMP", key)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := again.MustDial(t).Do("DUMP", key); err != nil || got.String() != want.String() {
			t.Errorf("DUMP of %d bytes: %.100s (%v)", size, got, err)
		}
	}
}
