package tracking

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
)

// nobody stays, and all are told.
func nobody(int) (told, stays bool) { return true, false }

func TestTable(t *testing.T) {
	table := NewTable(func(int) bool { return false })
	table.Remember(1, []byte("a"))
	table.Remember(2, []byte("a"))
	table.Remember(1, []byte("a"))
	table.Remember(1, []byte("b"))
	if keys, items := table.Size(); keys != 2 || items != 3 {
		t.Errorf("%d keys, %d items", keys, items)
	}
	if readers := table.Take([]byte("a"), nobody); !slices.Equal(readers, []int{1, 2}) {
		t.Errorf("readers of a: %v", readers)
	}
	if readers := table.Take([]byte("a"), nobody); readers != nil {
		t.Errorf("readers of a, when they were told: %v", readers)
	}
	table.Remember(1, []byte("d"))
	table.Remember(2, []byte("d"))
	for _, left := range [][]int{{1, 2}, {2}} {
		if readers := table.Take([]byte("d"), func(client int) (told, stays bool) { return true, client == 2 }); !slices.Equal(readers, left) {
			t.Errorf("readers of d, of whom 2 stays: %v", readers)
		}
		if keys, items := table.Size(); keys != 2 || items != 2 {
			t.Errorf("%d keys, %d items while 2 stays", keys, items)
		}
	}
	if readers := table.Take([]byte("d"), func(int) (told, stays bool) { return false, true }); len(readers) != 0 {
		t.Errorf("readers of d, who aren't to be told: %v", readers)
	}
	if readers := table.Take([]byte("d"), nobody); !slices.Equal(readers, []int{2}) {
		t.Errorf("readers of d, who has stayed: %v", readers)
	}
	if key, readers, found := table.TakeAny(); key != "b" || !slices.Equal(readers, []int{1}) || !found {
		t.Errorf("any: %q %v", key, readers)
	}
	if _, _, found := table.TakeAny(); found {
		t.Error("something is left")
	}
	table.Remember(1, []byte("c"))
	table.Clear()
	if keys, items := table.Size(); keys != 0 || items != 0 || table.Take([]byte("c"), nobody) != nil {
		t.Errorf("after Clear: %d keys, %d items", keys, items)
	}
}

// TestTableFromManySides: every reader that was noted is taken once.
func TestTableFromManySides(t *testing.T) {
	table := NewTable(func(int) bool { return false })
	var sides sync.WaitGroup
	taken := make([]int, 4)
	for side := range taken {
		sides.Go(func() {
			for i := range 1000 {
				table.Remember(side, fmt.Append(nil, side, i))
				if i%3 == 0 {
					taken[side] += len(table.Take(fmt.Append(nil, side, i/2), nobody))
				}
			}
		})
	}
	sides.Wait()
	sum := 0
	for _, n := range taken {
		sum += n
	}
	for {
		_, readers, found := table.TakeAny()
		if !found {
			break
		}
		sum += len(readers)
	}
	if keys, items := table.Size(); sum != 4000 || keys != 0 || items != 0 {
		t.Errorf("%d were taken of 4000; %d keys, %d items are left", sum, keys, items)
	}
}

// TestReadersWhoAreGone: clients that come, read a key, and go, don't pile up until it changes.
func TestReadersWhoAreGone(t *testing.T) {
	const stay, come = 100, 100_000
	last := 0
	gone := func(client int) bool { return client >= stay && client < last }
	table := NewTable(gone)
	for client := range come {
		last = client
		table.Remember(client, []byte("hot"))
		table.Remember(client, []byte("hot"))
		table.Remember(client%stay, []byte("hot"))
	}
	if keys, items := table.Size(); keys != 1 || items > 3*stay {
		t.Errorf("%d keys, %d items", keys, items)
	}
	readers := slices.DeleteFunc(table.Take([]byte("hot"), nobody), gone)
	slices.Sort(readers)
	if len(readers) != stay+1 || readers[0] != 0 || readers[stay-1] != stay-1 || readers[stay] != last {
		t.Errorf("readers who are there: %v", readers)
	}
	if keys, items := table.Size(); keys != 0 || items != 0 {
		t.Errorf("when they were told: %d keys, %d items", keys, items)
	}
}

// TestManyReaders: one of many readers of a key is looked up, also when others have left.
func TestManyReaders(t *testing.T) {
	table := NewTable(func(client int) bool { return client%2 == 1 })
	key := []byte("hot")
	for client := range 1000 {
		table.Remember(client, key)
		read := table.shard(key).readers["hot"]
		if len(read.list) > few && len(read.known) != len(read.list) {
			t.Fatalf("%d readers of %d can be looked up", len(read.known), len(read.list))
		}
		if !read.has(client) || client > 0 && !read.has(client&^1) || read.has(-1) {
			t.Fatalf("with %d readers it isn't known which they are", len(read.list))
		}
	}
}

// TestOneReaderCostsTwoAllocations: that of the list, and that of the name.
func TestOneReaderCostsTwoAllocations(t *testing.T) {
	table := NewTable(func(int) bool { return false })
	key := []byte("key")
	table.Remember(1, key)
	if again := testing.AllocsPerRun(100, func() { table.Remember(1, key) }); again != 0 {
		t.Errorf("to read it again: %v allocations", again)
	}
	if anew := testing.AllocsPerRun(100, func() { table.Take(key, nobody); table.Remember(1, key) }); anew > 2 {
		t.Errorf("to read it when it has changed: %v allocations", anew)
	}
}

func TestPrefixes(t *testing.T) {
	var p Prefixes[int]
	p.Add(1, "user:")
	p.Add(2, "user:")
	p.Add(3, "")
	p.Add(4, "other:")
	told := func(keys ...string) string {
		var text []string
		p.Each(keys, func(with []string, clients []int) {
			slices.Sort(clients)
			text = append(text, fmt.Sprint(with, clients))
		})
		return strings.Join(text, " ")
	}
	if got := told("user:1", "x"); got != "[user:1 x] [3] [user:1] [1 2]" {
		t.Errorf("told %s", got)
	}
	p.Remove(1, "user:")
	p.Remove(3, "")
	p.Remove(2, "user:")
	if got := told("user:1", "x"); got != "" || p.Count() != 1 {
		t.Errorf("told %s; %d prefixes", got, p.Count())
	}
}
