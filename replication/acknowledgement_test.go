package replication

import (
	"math/rand/v2"
	"testing"

	"kedis/internal/psync"
)

// TestSettle checks a random history of waits and acknowledgements: a wait ends as soon as enough
// replicas have its position, and not before.
func TestSettle(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var a acknowledgements
	acked := make([]int64, 3)
	waiting := map[*awaited]int{} // how many replicas each wants
	for range 20_000 {
		switch random.IntN(3) {
		case 0:
			w, wanted := &awaited{position: random.Int64N(2000)}, 1+random.IntN(3)
			w.enough = func(have psync.Acknowledged) bool { return have.Replicas >= wanted }
			w.done = func(have psync.Acknowledged) {
				if has := reached(acked, w.position); has < wanted || have.Replicas != has {
					t.Errorf("who waits for %d replicas at %d is told of %d, and %v have it", wanted, w.position, have.Replicas, acked)
				}
				delete(waiting, w)
			}
			if reached(acked, w.position) < wanted {
				waiting[w] = wanted
				a.add(w)
			}
		case 1:
			for w := range waiting {
				if !a.forget(w) || a.forget(w) {
					t.Fatal("who waits isn't forgotten once")
				}
				delete(waiting, w)
				break
			}
		case 2:
			r := random.IntN(len(acked))
			from := acked[r]
			acked[r] += random.Int64N(30)
			before := len(waiting)
			p := progress{acked: acked}
			a.settle(p, from, acked[r])
			for w, wanted := range waiting {
				if reached(acked, w.position) >= wanted {
					t.Fatalf("of %d, one waits for %d replicas at %d, which %v have", before, wanted, w.position, acked)
				}
			}
			if len(a.waiting) != len(waiting) {
				t.Fatalf("%d wait, %d should", len(a.waiting), len(waiting))
			}
		}
		if acked[0] > 2000 {
			clear(acked)
			clear(waiting)
			a.waiting = nil
		}
	}
}
