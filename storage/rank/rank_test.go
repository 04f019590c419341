package rank

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"kedis/redis-tests/seed"
)

// model is an index, and what is counted of it.
type model struct {
	t      *testing.T
	random *rand.Rand
	keys   []string
	counts *Counts
}

func (m *model) key() string { return fmt.Sprintf("%0*d", 1+m.random.IntN(6), m.random.IntN(100000)) }

func (m *model) change() {
	if len(m.keys) > 0 && m.random.IntN(100) < 48 {
		i := m.random.IntN(len(m.keys))
		m.counts.Add([]byte(m.keys[i]), -1)
		m.keys = slices.Delete(m.keys, i, i+1)
		return
	}
	key := m.key()
	if i, found := slices.BinarySearch(m.keys, key); !found {
		m.keys = slices.Insert(m.keys, i, key)
		m.counts.Add([]byte(key), 1)
	}
}

// split cuts the block of some key at some key of it.
func (m *model) split() {
	b := m.counts.Find([]byte(m.key()))
	if b.Count < 2 {
		return
	}
	before := m.random.IntN(b.Count)
	m.counts.Split(b, []byte(m.keys[b.Before+before]), before)
}

func (m *model) check() {
	m.t.Helper()
	if total := m.counts.Total(); total != len(m.keys) {
		m.t.Fatalf("%d entries are counted, want %d", total, len(m.keys))
	}
	m.checkBlock(m.counts.Find([]byte(m.key())))
	if len(m.keys) == 0 {
		return
	}
	rank := m.random.IntN(len(m.keys))
	b := m.counts.At(rank)
	if rank < b.Before || rank >= b.Before+b.Count {
		m.t.Fatalf("At(%d) returned the entries from %d on, %d of them", rank, b.Before, b.Count)
	}
	m.checkBlock(b)
	if found := m.counts.Find([]byte(m.keys[rank])); found.Before != b.Before || !bytes.Equal(found.Lower, b.Lower) {
		m.t.Fatalf("Find returned %+v, At %+v", found, b)
	}
}

func (m *model) checkBlock(b Block) {
	m.t.Helper()
	before, _ := slices.BinarySearch(m.keys, string(b.Lower))
	end := len(m.keys)
	if b.Upper != nil {
		end, _ = slices.BinarySearch(m.keys, string(b.Upper))
	}
	if b.Before != before || b.Count != end-before {
		m.t.Fatalf("block %+v, want %d entries behind %d", b, end-before, before)
	}
}

func (m *model) checkBytes() {
	m.t.Helper()
	bytes := 0
	for p, page := range m.counts.pages {
		count := 0
		for _, b := range page.blocks {
			bytes += blockBytes + len(b.lower)
			count += b.count
		}
		if count != m.counts.counts[p] || len(page.blocks) == 0 {
			m.t.Fatalf("page %d has %d blocks with %d entries, want %d", p, len(page.blocks), count, m.counts.counts[p])
		}
	}
	if bytes != m.counts.Bytes() {
		m.t.Fatalf("%d bytes, want %d", m.counts.Bytes(), bytes)
	}
}

func TestCountsAgainstModel(t *testing.T) {
	seed := seed.Of(t)
	m := &model{t: t, random: rand.New(rand.NewPCG(seed, 1)), counts: New(0, 4)}
	for i := range 60000 {
		m.change()
		if m.random.IntN(3) == 0 {
			m.split()
		}
		m.check()
		if i%1000 == 0 {
			m.checkBytes()
		}
	}
	if len(m.counts.pages) < 2 {
		t.Fatal("the test has no second page")
	}
	clone, keys := m.counts.Clone(), slices.Clone(m.keys)
	m.counts.Coarsen()
	for range 1000 {
		m.check()
		m.change()
	}
	m.checkBytes()
	m.counts, m.keys = clone, keys
	for range 1000 {
		m.check()
	}
	m.checkBytes()
}

// A queue's blocks go when they are empty, whatever page they are in.
func TestQueue(t *testing.T) {
	m := &model{t: t, random: rand.New(rand.NewPCG(1, 1)), counts: New(0, 4)}
	for i := range 20000 {
		key := fmt.Sprintf("%08d", i)
		m.keys = append(m.keys, key)
		m.counts.Add([]byte(key), 1)
		if b := m.counts.Find([]byte(key)); b.Count > 2*m.counts.Target() {
			m.counts.Split(b, []byte(m.keys[b.Before+4]), 4)
		}
		if len(m.keys) > 100 {
			m.counts.Add([]byte(m.keys[0]), -1)
			m.keys = m.keys[1:]
		}
	}
	m.check()
	if n := m.counts.Bytes() / blockBytes; n > 200 {
		t.Errorf("100 entries take %d blocks", n)
	}
}
