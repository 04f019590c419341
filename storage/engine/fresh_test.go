package engine

import (
	"fmt"
	"slices"
	"testing"

	"kedis/storage/generation"
	"kedis/storage/layout"
	"kedis/storage/rocks"
)

// TestFreshRanges makes generations of a list that grows at one end or at both, beside keys that
// are there already, and few or many members of a set.
func TestFreshRanges(t *testing.T) {
	s := openStore(t, testOptions(t.TempDir(), 1<<20, 1<<20))
	const space = 7
	family, err := s.family(space)
	if err != nil {
		t.Fatal(err)
	}
	element := func(i int) []byte { return layout.AppendSequenceKey(nil, 1, layout.ListMiddle+uint64(i)) }
	key := func(i int) []byte { return layout.AppendMetadataKey(nil, fmt.Appendf(nil, "%03d", i)) }
	member := func(i int) []byte {
		return layout.AppendElementKey(nil, layout.KindSetMember, 2, fmt.Appendf(nil, "%03d", i))
	}
	var batch rocks.Batch
	for i := range 100 {
		batch.Put(family, element(i), nil)
		batch.Put(family, key(i), nil)
	}
	if err := s.db().Write(&batch); err != nil {
		t.Fatal(err)
	}
	families := map[uint32]*rocks.Family{space: family}
	for _, c := range []struct {
		from, to, keys, members int
		want                    string // the kinds of what is fresh
	}{
		{from: -100, to: 0, keys: 50, members: 100, want: "LS"},
		{from: 100, to: 200, keys: 1, members: 1, want: "L"},
		{from: -1, to: 101, keys: 1, members: 50, want: "S"},
		{from: 100, to: 101, keys: 50, members: 0, want: ""},
	} {
		g := generation.New(generation.NewMemory(), recordHash, recordGroup, 64<<10, 16, nil)
		put := func(key []byte) { g.Put(recordHash(space, key), space, key, nil) }
		for i := c.from; i < c.to; i++ {
			put(element(i))
		}
		for i := range c.keys {
			put(key(2 * i))
		}
		for i := range c.members {
			put(member(i))
		}
		other := []byte("a record of a namespace that is gone")
		g.Put(recordHash(space+1, other), space+1, other, nil)
		g.Merge(nil)
		kinds := ""
		for _, r := range s.freshRanges(&frozen{Generation: g}, families) {
			kinds += string(r.First[0])
			if r.First[0] == layout.KindListElement && !(slices.Equal(r.First, element(c.from)) && slices.Equal(r.Last, element(c.to-1))) {
				t.Errorf("%+v: %x to %x", c, r.First, r.Last)
			}
		}
		if kinds != c.want {
			t.Errorf("%+v: %q is fresh", c, kinds)
		}
	}
	if err := s.db().Drop(family); err != nil {
		t.Fatal(err)
	}
	g := generation.New(generation.NewMemory(), recordHash, recordGroup, 64<<10, 16, nil)
	g.Put(recordHash(space, element(1000)), space, element(1000), nil)
	g.Merge(nil)
	if fresh := s.freshRanges(&frozen{Generation: g}, families); len(fresh) > 0 {
		t.Errorf("what can't be read is taken for fresh: %v", fresh)
	}
}
