package tracking

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
)

func TestTable(t *testing.T) {
	table := NewTable[int]()
	table.Remember(1, []byte("a"))
	table.Remember(2, []byte("a"))
	table.Remember(1, []byte("a"))
	table.Remember(1, []byte("b"))
	if keys, items := table.Size(); keys != 2 || items != 3 {
		t.Errorf("%d keys, %d items", keys, items)
	}
	if readers := table.Take([]byte("a")); !slices.Equal(readers, []int{1, 2}) {
		t.Errorf("readers of a: %v", readers)
	}
	if readers := table.Take([]byte("a")); readers != nil {
		t.Errorf("readers of a, when they were told: %v", readers)
	}
	if key, readers, found := table.TakeAny(); key != "b" || !slices.Equal(readers, []int{1}) || !found {
		t.Errorf("any: %q %v", key, readers)
	}
	if _, _, found := table.TakeAny(); found {
		t.Error("something is left")
	}
	table.Remember(1, []byte("c"))
	table.Clear()
	if keys, items := table.Size(); keys != 0 || items != 0 || table.Take([]byte("c")) != nil {
		t.Errorf("after Clear: %d keys, %d items", keys, items)
	}
}

// TestTableFromManySides: every reader that was noted is taken once.
func TestTableFromManySides(t *testing.T) {
	table := NewTable[int]()
	var sides sync.WaitGroup
	taken := make([]int, 4)
	for side := range taken {
		sides.Go(func() {
			for i := range 1000 {
				table.Remember(side, fmt.Append(nil, side, i))
				if i%3 == 0 {
					taken[side] += len(table.Take(fmt.Append(nil, side, i/2)))
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
