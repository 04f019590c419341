package server

import "testing"

// TestLoading reads many records, then a few, then none, then many again.
func TestLoading(t *testing.T) {
	processors, changes := 2, 0
	l := loading{ordinary: 2, set: func(n int) { processors, changes = n, changes+1 }}
	loads := int64(0)
	for _, step := range []struct {
		name          string
		looks         int
		loads         int64
		want, changes int
	}{
		{"few", 200, manyLoads - 1, 2, 0},
		{"many", 3, manyLoads, 2 + loadingProcessors, 1},
		{"none for a while", calmLooks - 1, 0, 2 + loadingProcessors, 1},
		{"many", 1, manyLoads, 2 + loadingProcessors, 1},
		{"none for a while", calmLooks - 1, 0, 2 + loadingProcessors, 1},
		{"none for longer", 1, 0, 2, 2},
		{"none at all", 2 * calmLooks, 0, 2, 2},
		{"many", 1, 10 * manyLoads, 2 + loadingProcessors, 3},
	} {
		for range step.looks {
			loads += step.loads
			l.look(loads)
		}
		if processors != step.want || changes != step.changes {
			t.Fatalf("after %q there are %d processors and %d changes, want %d and %d", step.name, processors, changes, step.want, step.changes)
		}
	}
	unset := loading{ordinary: 2}
	unset.look(10 * manyLoads) // leaves them alone
}
