package execute

import (
	"strings"
	"testing"

	"kedis/internal/resp"
)

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

// TestWatchOnAReplica: of a key that had expired when WATCH came a primary says DEL, or exchanges
// it for another one that has expired. Neither is a change.
func TestWatchOnAReplica(t *testing.T) {
	const has, expired, other = "SET k v", "SET k v PXAT 1000", "SELECT 1;%;SELECT 0"
	for _, c := range []struct {
		before, then string
		dirty        bool
	}{
		{expired, "DEL k", false},
		{expired, "DEL k;SADD k m;DEL k", true},
		{expired, "SADD other m;DEL k", false},
		{expired, "SET k w", true},
		{has, "DEL k", true},
		{expired, "SWAPDB 0 1", false},
		{expired + ";" + strings.ReplaceAll(other, "%", expired), "SWAPDB 0 1", false},
		{expired + ";" + strings.ReplaceAll(other, "%", has), "SWAPDB 0 1", true},
		{has + ";" + strings.ReplaceAll(other, "%", expired), "SWAPDB 0 1", true},
		{strings.ReplaceAll(other, "%", expired), "SWAPDB 0 1;DEL k", false},
		{expired, "FLUSHALL", false},
	} {
		e, _ := newTestEngine(t)
		e.SetReplica(true, false)
		follow := followStream(t, e)
		follow(c.before)
		watcher := newTestClient(t, e)
		watcher.do("WATCH", "k")
		follow(c.then)
		if dirty := watcher.session.Dirty(); dirty != c.dirty {
			t.Errorf("after %q %q is a change: %t", c.before, c.then, dirty)
		}
	}
}

// followStream applies a primary's commands, each in a commit of its own.
func followStream(t *testing.T, e *Engine) func(commands string) {
	f := e.NewFileApplier(0)
	t.Cleanup(f.Close)
	return func(commands string) {
		t.Helper()
		for command := range strings.SplitSeq(commands, ";") {
			args := words(strings.Fields(command)...)
			if err := f.Apply(args, resp.AppendRequest(nil, args...)); err != nil {
				t.Fatal(err)
			}
			if err := f.Commit(); err != nil {
				t.Fatal(err)
			}
		}
	}
}
