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

// TestFewerDatabases: those that are configured no more may be missing when they are empty.
func TestFewerDatabases(t *testing.T) {
	o := testOptions(t.TempDir(), 1<<20, 1<<20)
	open := func(databases int) (*Store, error) {
		o.Databases = databases
		s, err := Open(o)
		if err == nil {
			s.Attach(&testLog{content: make([]byte, s.Position())}, 1)
		}
		return s, err
	}
	s, err := open(4)
	must(t, err)
	write(t, s, 0, "kept")
	write(t, s, 3, "removed")
	write(t, s, s.Libraries(), "library")
	must(t, s.Close())
	if s, err := open(2); err == nil {
		t.Error("a database that has a key may be missing")
		must(t, s.Close())
	}
	s, err = open(4)
	must(t, err)
	remove(t, s, 3, "removed")
	must(t, s.Close())
	for _, databases := range []int{2, 4} {
		s, err := open(databases)
		must(t, err)
		if got := s.db().Families(); len(got) != 3 {
			t.Errorf("with %d databases there are the families %v", databases, got)
		}
		if !exists(t, s, 0, "kept") || !exists(t, s, s.Libraries(), "library") || databases == 4 && exists(t, s, 3, "removed") {
			t.Errorf("with %d databases others have the keys", databases)
		}
		must(t, s.Close())
	}
}

// TestReclaimBesideReopen: the log has data persisted when it needs room, whatever else goes on.
func TestReclaimBesideReopen(t *testing.T) {
	s, _ := reopen(t, testOptions(t.TempDir(), 1<<20, 1<<20), &testLog{})
	reopened := make(chan error, 1)
	go func() {
		var err error
		for i := 0; i < 20 && err == nil; i++ {
			err = s.Reopen()
		}
		reopened <- err
	}()
	for len(reopened) == 0 {
		_, err := s.Reclaim()
		must(t, err)
	}
	must(t, <-reopened)
	must(t, s.Close())
	if _, err := s.Reclaim(); err == nil {
		t.Error("a closed store persists")
	}
}
