package ordered

// Count is how many entries stand from a border on, up to that of the next one; the first has no
// border. It may be Vague.
type Count struct {
	Border  []byte
	Entries int
}

// Counts returns how many entries stand where. Neighbours that have up to so many together are one.
func (t *Tree) Counts(most int) []Count {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.root.counts(nil, nil, most)
}

// counts appends those of a node, which begins at a border.
func (n *node) counts(to []Count, border []byte, most int) []Count {
	for i := range n.borders {
		if i > 0 {
			border = n.borders[i]
		}
		switch {
		case !n.leaf():
			to = n.children[i].counts(to, border, most)
		case n.vague[i] > 0:
			to = appendCount(to, Count{border, Vague}, most)
		default:
			to = appendCount(to, Count{border, n.known[i]}, most)
		}
	}
	return to
}

// appendCount appends a count, or adds it to the last one.
func appendCount(to []Count, c Count, most int) []Count {
	if len(to) > 0 {
		switch last := &to[len(to)-1]; {
		case c.Entries == Vague && last.Entries == Vague:
			return to
		case c.Entries != Vague && last.Entries != Vague && last.Entries+c.Entries <= most:
			last.Entries += c.Entries
			return to
		}
	}
	return append(to, c)
}

// Restore makes a collection's tree of what Counts has returned. There is none yet.
func (s *Trees) Restore(id Identity, values bool, counts []Count) {
	entries := 0
	for _, c := range counts {
		entries += max(c.Entries, 0)
	}
	t := s.Of(id, values, entries)
	for i, c := range counts {
		var upper []byte
		if i+1 < len(counts) {
			upper = counts[i+1].Border
		}
		if c.Entries != Vague {
			t.Learn(c.Border, upper, c.Entries, Block{})
		}
	}
	s.Reclaim()
}

// All returns the trees that there are.
func (s *Trees) All() (all []*Tree) {
	for i := range s.shards {
		here := &s.shards[i]
		here.mu.RLock()
		for _, t := range here.byID {
			all = append(all, t)
		}
		here.mu.RUnlock()
	}
	return all
}
