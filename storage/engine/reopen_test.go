package engine

import "testing"

// TestImportsBeginBesideReopen: a store that is opened anew gives numbers to namespaces, as imports
// that begin meanwhile do.
func TestImportsBeginBesideReopen(t *testing.T) {
	const most = 1000
	s, _ := reopen(t, testOptions(t.TempDir(), 1<<20, 1<<20), &testLog{})
	defer func() { must(t, s.Close()) }()
	reopened := make(chan error, 1)
	go func() { reopened <- s.Reopen() }()
	numbers := map[uint32]bool{}
	for begun := 0; len(reopened) == 0 && begun < most; begun++ {
		i, err := s.NewImport(s.NewTxn())
		must(t, err)
		for _, ns := range i.spaces {
			if numbers[ns.Number] {
				t.Fatalf("the number %d is given twice", ns.Number)
			}
			numbers[ns.Number] = true
		}
	}
	must(t, <-reopened)
	for _, ns := range s.tiers.Load().databases {
		if numbers[ns.Number] {
			t.Errorf("a database has the number %d of an import", ns.Number)
		}
	}
}

// TestTheLogIsExchangedBesideReopen: a store that is opened anew doesn't go back to the former log.
func TestTheLogIsExchangedBesideReopen(t *testing.T) {
	o := testOptions(t.TempDir(), 1<<20, 1<<20)
	s, _ := reopen(t, o, &testLog{})
	write(t, s, 0, "key")
	reopened := make(chan error, 1)
	go func() { reopened <- s.Reopen() }()
	var directory uint64 = 1
	for len(reopened) == 0 {
		directory++
		must(t, s.Rebase(&testLog{}, directory))
	}
	must(t, <-reopened)
	if got := s.LogDirectory(); got != directory {
		t.Errorf("commits go to log %d, and the state will name log %d", directory, got)
	}
	must(t, s.Close())
	if _, got, err := PersistedIn(o.Rocks.Directory); err != nil || got != directory {
		t.Errorf("the state names log %d, not %d: %v", got, directory, err)
	}
}
