package walks

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

const collection = 7

// over is a walk over keys of one letter.
func over(lower, upper string, reverse bool) *Walk {
	w := &Walk{Space: 1, Collection: collection, Lower: []byte(lower), Reverse: reverse}
	if upper != "" {
		w.Upper = []byte(upper)
	}
	return w
}

// write tells of a record that was written.
func write(c *Copies, space uint32, collection uint64, key string) {
	if c.Changed(collection) {
		c.Forget(space, collection, []byte(key))
	}
}

// walk makes a walk that finds some keys, and stops at the last of them or comes to its end.
func walk(c *Copies, w *Walk, keys string, stops bool) {
	known := c.Find(w)
	version := c.Version(w)
	r := NewRecorder(known)
	if known.Kept() {
		keys = keys[known.Len():]
	}
	for _, key := range keys {
		r.Add([]byte(string(key)), []byte("value of "+string(key)))
	}
	c.Keep(w, version, r, stops)
}

// shown is what a copy has, with a dot where there is more; "none" if there is no copy.
func shown(t *testing.T, c *Copies, w *Walk) string {
	t.Helper()
	known := c.Find(w)
	if !known.Kept() {
		return "none"
	}
	var keys strings.Builder
	known.Visit(func(key, value []byte) bool {
		if string(value) != "value of "+string(key) {
			t.Errorf("%s has the value %q", key, value)
		}
		keys.Write(key)
		return true
	})
	if keys.Len() != known.Len() {
		t.Errorf("%d records, Len is %d", keys.Len(), known.Len())
	}
	if rest, more := known.Rest(); more {
		fmt.Fprintf(&keys, ".%s-%s", strings.TrimSuffix(string(rest.Lower), "\x00"), rest.Upper)
	}
	return keys.String()
}

func limited(bytes int64) *Copies {
	c := new(Copies)
	c.SetLimit(bytes)
	return c
}

func TestRepeatedWalkIsKept(t *testing.T) {
	for _, test := range []struct {
		w     *Walk
		keys  string
		stops bool
		want  string
	}{
		{over("a", "", false), "abc", false, "abc"},
		{over("a", "x", false), "abc", true, "abc.c-x"},
		{over("a", "x", true), "wvu", true, "wvu.a-u"},
		{over("a", "x", true), "wvu", false, "wvu"},
		{over("a", "x", false), "", false, ""},
	} {
		c := limited(1 << 20)
		walk(c, test.w, test.keys, test.stops)
		if got := shown(t, c, test.w); got != "none" {
			t.Errorf("after one walk there is %q", got)
		}
		walk(c, test.w, test.keys, test.stops)
		if got := shown(t, c, test.w); got != test.want {
			t.Errorf("%+v: %q, want %q", test.w, got, test.want)
		}
	}
}

// TestLongerWalk goes on behind a copy, whose records become the beginning of a longer one.
func TestLongerWalk(t *testing.T) {
	c, w := limited(1<<20), over("a", "", false)
	walk(c, w, "ab", true)
	walk(c, w, "ab", true)
	short := c.Find(w)
	walk(c, w, "abcd", true)
	if got := shown(t, c, w); got != "abcd.d-" {
		t.Errorf("there is %q", got)
	}
	if short.Visit(func(key, _ []byte) bool { return string(key) != "b" }); short.Len() != 2 {
		t.Errorf("the shorter copy has changed: %d records", short.Len())
	}
	if other := over("a", "", true); c.Find(other) != nil {
		t.Error("a walk backwards is known")
	}
}

func TestChanged(t *testing.T) {
	for _, test := range []struct {
		w      *Walk
		stops  bool
		inside string
		beside string
	}{
		{over("b", "x", false), true, "bcde", "afxyz"}, // reached e
		{over("b", "x", false), false, "bcdefw", "axz"},
		{over("b", "x", true), true, "ehw", "abdxz"},
		{over("b", "", false), false, "bcdz", "a"},
	} {
		for _, key := range test.inside + test.beside {
			c := limited(1 << 20)
			keys := "bcde"
			if test.w.Reverse {
				keys = "whge"
			}
			walk(c, test.w, keys, test.stops)
			walk(c, test.w, keys, test.stops)
			write(c, 1, collection+bucketCount, string(key))
			write(c, 2, collection, string(key))
			if shown(t, c, test.w) == "none" {
				t.Fatalf("%+v is forgotten because of another collection's %c", test.w, key)
			}
			write(c, 1, collection, string(key))
			if got, want := shown(t, c, test.w) == "none", strings.ContainsRune(test.inside, key); got != want {
				t.Errorf("%+v, stopped %v: %c was written, forgotten is %v", test.w, test.stops, key, got)
			}
		}
	}
}

// TestWrittenMeanwhile keeps nothing of a walk during which a record was written.
func TestWrittenMeanwhile(t *testing.T) {
	c, w := limited(1<<20), over("a", "", false)
	walk(c, w, "a", false)
	version, r := c.Version(w), NewRecorder(c.Find(w))
	r.Add([]byte("a"), []byte("value of a"))
	write(c, 1, collection, "b")
	c.Keep(w, version, r, false)
	if c.Find(w) != nil || c.Bytes() != 0 {
		t.Errorf("a copy is kept, of %d bytes", c.Bytes())
	}
}

func TestLimits(t *testing.T) {
	const limit = 64 << 10
	c := limited(limit)
	value := make([]byte, 1000)
	keep := func(w *Walk, records int) {
		for range 2 {
			version, known := c.Version(w), c.Find(w)
			if known.Kept() {
				return
			}
			r := NewRecorder(known)
			for i := range records {
				r.Add(binary.BigEndian.AppendUint32(nil, uint32(i)), value)
			}
			c.Keep(w, version, r, false)
		}
	}
	for i := range uint64(5000) {
		keep(&Walk{Collection: i, Lower: []byte{0}}, 3)
		if c.Bytes() > limit {
			t.Fatalf("%d bytes of at most %d", c.Bytes(), limit)
		}
	}
	if c.Bytes() < limit/2 {
		t.Errorf("only %d bytes of at most %d", c.Bytes(), limit)
	}
	large := &Walk{Collection: 1 << 40, Lower: []byte{0}}
	if keep(large, 20); c.Find(large) != nil {
		t.Error("a walk is kept that takes a third of the limit")
	}
	c.SetLimit(1 << 30)
	if keep(large, 20); !c.Find(large).Kept() {
		t.Error("a copy isn't kept for which there is room")
	}
	tooLarge := &Walk{Collection: 1 << 41, Lower: []byte{0}}
	if keep(tooLarge, LargestCopy/1000+1); c.Find(tooLarge) != nil {
		t.Error("a copy is kept that is too large")
	}
	c.Clear()
	if c.Bytes() != 0 || c.Find(large) != nil {
		t.Errorf("%d bytes are left", c.Bytes())
	}
	c.SetLimit(0)
	if keep(large, 1); c.Bytes() != 0 {
		t.Error("something is kept where nothing may be")
	}
}

// TestConcurrentWalks has walkers and a writer that wait for nobody: once Changed has returned, nobody finds what was before.
func TestConcurrentWalks(t *testing.T) {
	c := limited(1 << 20)
	var visible, told atomic.Uint64 // what the record has; what the copies were told of
	var done atomic.Bool
	var walkers sync.WaitGroup
	var found atomic.Int64
	for i := range 4 {
		w := over(strings.Repeat("a", 1+i%2), "b", i > 1)
		walkers.Go(func() {
			for !done.Load() {
				least := told.Load()
				version, known := c.Version(w), c.Find(w)
				if known.Kept() {
					known.Visit(func(_, value []byte) bool {
						if got := binary.BigEndian.Uint64(value); got < least {
							t.Errorf("found %d after %d was told", got, least)
						}
						return true
					})
					found.Add(1)
					continue
				}
				r := NewRecorder(known)
				r.Add([]byte("aa"), binary.BigEndian.AppendUint64(nil, visible.Load()))
				c.Keep(w, version, r, false)
			}
		})
	}
	for n := uint64(1); n <= 20000; n++ {
		visible.Store(n)
		write(c, 1, collection, "aa")
		told.Store(n)
		for before := found.Load(); n%100 == 0 && found.Load() == before; {
			continue // so that copies are found, too
		}
	}
	done.Store(true)
	walkers.Wait()
}

// TestOldestWayGoes: a bucket's copies make room for each other.
func TestOldestWayGoes(t *testing.T) {
	c := limited(1 << 20)
	var known []string
	for i := range 3 * ways {
		w := over("a", string(rune('b'+i)), false)
		walk(c, w, "a", false)
		walk(c, w, "a", false)
		if shown(t, c, w) != "a" {
			t.Fatalf("the walk to %s isn't kept", w.Upper)
		}
	}
	for i := range 3 * ways {
		if w := over("a", string(rune('b'+i)), false); c.Find(w).Kept() {
			known = append(known, string(w.Upper))
		}
	}
	if want := []string{"j", "k", "l", "m"}; !slices.Equal(known, want) {
		t.Errorf("the walks to %v are kept, want %v", known, want)
	}
}
