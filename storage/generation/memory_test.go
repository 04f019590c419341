package generation

import (
	"testing"
	"time"
)

// TestMemory takes chunks ahead of which others are made, then some of another size.
func TestMemory(t *testing.T) {
	m, stop := NewMemory(), make(chan struct{})
	ended := make(chan struct{})
	go func() {
		m.Provide(stop)
		close(ended)
	}()
	for _, bytes := range []int{64 << 10, 4096} {
		if taken := m.take(bytes); len(taken) != bytes {
			t.Fatalf("a chunk has %d bytes, want %d", len(taken), bytes)
		}
		for len(m.ready) < spareChunks {
			time.Sleep(time.Millisecond)
		}
	}
	for range 3 * spareChunks {
		taken := m.take(4096)
		if len(taken) != 4096 {
			t.Fatalf("a chunk has %d bytes, want 4096", len(taken))
		}
		for i := range taken {
			if taken[i] != 0 {
				t.Fatal("a chunk isn't empty")
			}
			taken[i] = 1 // nobody gets it again
		}
	}
	close(stop)
	<-ended
}
