package execute

import "testing"

// TestWatchManyKeys: how long everything stands still while databases are emptied or exchanged
// grows with the number of watched keys, and not with its square.
func TestWatchManyKeys(t *testing.T) {
	e, _ := newTestEngine(t)
	watcher, other := newTestClient(t, e), newTestClient(t, e)
	other.do("SET", "name:7", "value")
	watch := func() { watcher.do(withMany([]string{"WATCH"}, nil, "name:0")...) }
	atOnce(t, "WATCH", watch)
	if keys := e.Watches.Count(); keys != manyNames {
		t.Errorf("%d keys are watched", keys)
	}
	atOnce(t, "FLUSHALL", func() { other.do("FLUSHALL") })
	if !watcher.session.Dirty() {
		t.Error("a key is gone, and who watched it isn't told")
	}
	watcher.do("UNWATCH")
	watch()
	atOnce(t, "FLUSHDB", func() { other.do("FLUSHDB") })
	if watcher.session.Dirty() {
		t.Error("there was no key, and who watches some is told of a change")
	}
	atOnce(t, "SWAPDB", func() { other.do("SWAPDB", "0", "1") })
	if watcher.session.Dirty() {
		t.Error("two empty databases were exchanged, and who watches keys is told of a change")
	}
}
