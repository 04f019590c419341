package engine

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"kedis/storage/generation"
	"kedis/storage/layout"
	"kedis/storage/ordered"
)

// ErrCounting is returned when a command reaches Txn.CountAtMost. Its counts are kept; retry to
// continue.
var ErrCounting = errors.New("storage: the elements of a collection are being counted")

// Index is the records of one kind that a spread collection has, in the order of their keys. Keys
// and bounds are what stands behind the collection's id.
//
// Its order is a tree in memory (package ordered), which is that of the index as the transaction
// sees it that holds the key's lock: Put, Delete and Rollback tell the tree, and so do a commit
// that fails and a Reset without one. A transaction that reads from a view has copies of the trees
// that it has used before, under the lock.
type Index struct {
	txn     *Txn
	space   *Namespace
	kind    byte
	id      uint64
	entries int
	key     []byte // of the collection
	first   []byte // no entry stands before it
	beyond  []byte // nor from here on; nil is no bound
	blocks  Bounds // nor here, in a sequence
	values  bool   // are wanted
	known   *ordered.Tree
}

// VisitEntry is called for the entries that a walk comes to; it returns false to stop. They are
// valid until the transaction is reset.
type VisitEntry func(key, value []byte) bool

// NewIndex returns an index; key is the collection's. With values its entries are shown with those
// of their records.
func (t *Txn) NewIndex(ns *Namespace, kind byte, id uint64, entries int, values bool, key []byte) Index {
	return Index{txn: t, space: ns, kind: kind, id: id, entries: entries, values: values, key: key}
}

// BeginAt says that no entry stands before a key. Records before it are passed over.
func (x *Index) BeginAt(first []byte) { x.first = first }

// Within says where a sequence's elements stand: those in blocks are no entries, and records
// elsewhere are passed over.
func (x *Index) Within(e Extent) {
	both := binary.BigEndian.AppendUint64(make([]byte, 0, 16), e.All.Head)
	x.first, x.beyond = both, binary.BigEndian.AppendUint64(both, e.All.Tail)[8:]
	x.blocks = e.Blocks
}

// orderedKinds are the kinds of record of which trees are kept.
var orderedKinds = kindsWith(func(k *layout.Kind) bool { return k.Ordered })

// treeOf returns the tree of the collection that an element belongs to, or nil.
func (s *Store) treeOf(space uint32, key []byte) *ordered.Tree {
	id := layout.ElementID(key)
	if !s.order.trees.Occupied(id) {
		return nil
	}
	return s.order.trees.Find(ordered.Identity{Space: space, Kind: key[0], ID: id})
}

// takeBackOrder takes back what the entries of the journal, but for the first ones, have told
// trees.
func (t *Txn) takeBackOrder(first int) {
	if t.order.settled {
		return
	}
	t.takeBackForgotten(first)
	if !t.journal.hasAny(orderedKinds) {
		return
	}
	for i := len(t.journal.entries) - 1; i >= first; i-- {
		c := &t.journal.entries[i]
		key := t.journal.key(c)
		if !layout.Kinds[key[0]].Ordered {
			continue
		}
		if tree := t.store.treeOf(c.space, key); tree != nil {
			tree.Undo(key[layout.ElementPrefix:], c.entries())
		}
	}
}

// ForgetBefore says that so many entries of an index, which stand before a key, are no longer part
// of it, though their records stay for now.
func (t *Txn) ForgetBefore(ns *Namespace, id uint64, kind byte, key []byte, count uint64) {
	identity := ordered.Identity{Space: ns.Number, Kind: kind, ID: id}
	t.order.forgotten = append(t.order.forgotten, forgotten{identity, len(t.journal.entries)})
	tree := t.store.order.trees.Find(identity)
	switch {
	case tree == nil:
	case count > uint64(t.store.order.sizes.vague):
		t.store.order.trees.Drop(ns.Number, id, kind)
	default:
		tree.ForgetBefore(key)
	}
}

// forgotten notes that a transaction has called ForgetBefore for an index, and how long its journal
// was.
type forgotten struct {
	ordered.Identity
	entries int
}

// takeBackForgotten drops the trees of what was forgotten since: they may have learned meanwhile
// that nothing is there.
func (t *Txn) takeBackForgotten(first int) {
	for n := len(t.order.forgotten) - 1; n >= 0 && t.order.forgotten[n].entries >= first; n-- {
		id := t.order.forgotten[n]
		t.order.forgotten = t.order.forgotten[:n]
		t.store.order.trees.Drop(id.Space, id.ID, id.Kind)
	}
}

// entries is how many entries a change has added to an index.
func (c *change) entries() int {
	switch {
	case c.length < 0:
		return -1
	case c.replaces:
		return 0
	}
	return 1
}

// Order names collections whose order was used.
type Order []ordered.Identity

// Order names the collections whose order commands have used since Reset.
func (t *Txn) Order() Order {
	names := make(Order, len(t.order.used))
	for i, tree := range t.order.used {
		names[i] = tree.ID()
	}
	return names
}

// KeepOrder has the transaction use collections whose order others have used. It holds the locks of
// their keys.
func (t *Txn) KeepOrder(names Order) {
	for _, id := range names {
		at, found := slices.BinarySearchFunc(t.order.used, id, compareTree)
		if tree := t.store.order.trees.Find(id); tree != nil && !found {
			t.order.used = slices.Insert(t.order.used, at, tree)
		}
	}
}

// cloneOrder copies the trees that the transaction has used so far, for reading from a view that
// was made since, under the same lock.
func (t *Txn) cloneOrder() {
	for i, tree := range t.order.used {
		t.order.used[i] = tree.Clone()
	}
}

// Trees is the number of collections whose order is in memory, and the bytes that they take.
func (s *Store) Trees() (trees int, bytes int64) { return s.order.trees.Stats() }

// CountAtMost makes a command that the transaction runs fail with ErrCounting as soon as it has
// gone over so many entries of indexes to count them; 0 is no limit. It holds until Reset.
func (t *Txn) CountAtMost(entries int) { t.order.countAtMost = entries }

// CountsAtMost is what CountAtMost has said. Commands that count otherwise ask for it.
func (t *Txn) CountsAtMost() int { return t.order.countAtMost }

// AskedRanks reports whether a command since Reset has asked an index for counts.
func (t *Txn) AskedRanks() bool { return t.order.asked }

// tree returns the tree of the index, nil when it has none and is to be walked.
func (x *Index) tree() *ordered.Tree {
	if x.known == nil {
		x.known = x.findTree()
	}
	return x.known
}

func (x *Index) findTree() *ordered.Tree {
	t, id := x.txn, ordered.Identity{Space: x.space.Number, Kind: x.kind, ID: x.id}
	at, found := slices.BinarySearchFunc(t.order.used, id, compareTree)
	switch {
	case t.view != nil && found && (t.order.used[at].Values() || !x.values):
		return t.order.used[at]
	case !layout.Kinds[x.kind].Ordered || t.view != nil || t.staging.spill != nil || x.entries < t.store.order.sizes.least || !t.store.order.trees.Enabled():
		return nil
	}
	if found && t.order.used[at].Use() && (t.order.used[at].Values() || !x.values) {
		return t.order.used[at]
	}
	keeps := x.entries <= t.store.order.sizes.valued || !layout.Kinds[x.kind].Names
	tree := t.store.order.trees.Of(id, keeps, x.entries)
	if known, ok := tree.Fits(x.entries); !ok {
		x.recount(fmt.Sprintf("%d are counted", known))
		tree = t.store.order.trees.Of(id, keeps, x.entries)
	}
	if found {
		t.order.used[at] = tree
	} else {
		t.order.used = slices.Insert(t.order.used, at, tree)
	}
	if x.values && !tree.Values() {
		return nil
	}
	return tree
}

func compareTree(tree *ordered.Tree, b ordered.Identity) int {
	a := tree.ID()
	return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Space, b.Space))
}

// recount forgets counts that can't be right.
func (x *Index) recount(reason string) {
	x.txn.store.logger.Error("the order of a collection is wrong, and made anew", "key", string(x.key), "elements", x.entries, "reason", reason)
	x.drop()
}

func (x *Index) drop() {
	x.txn.store.order.trees.Drop(x.space.Number, x.id, x.kind)
	x.known = nil
}

// recordKey is the whole key of an entry; the shortest one with nil.
func (x *Index) recordKey(key []byte) []byte { return layout.AppendElementKey(nil, x.kind, x.id, key) }

// records are the keys of records between two keys of the index, nil being its ends. Pieces of the
// tree reach beyond what is part of it.
func (x *Index) records(lower, upper []byte) (from, to []byte) {
	if bytes.Compare(lower, x.first) < 0 {
		lower = x.first
	}
	if upper == nil || x.beyond != nil && bytes.Compare(upper, x.beyond) > 0 {
		upper = x.beyond
	}
	from = x.recordKey(lower)
	if upper == nil {
		return from, layout.Successor(nil, x.recordKey(nil))
	}
	return from, x.recordKey(upper)
}

// Kept reports whether a tree of the index is kept, so that Scan reads again what it has read
// before from memory.
func (x *Index) Kept() bool { return x.tree() != nil }

// Scan visits the entries of the index from lower on, before upper; nil is an end of the index.
func (x *Index) Scan(lower, upper []byte, reverse bool, visit VisitEntry) error {
	if tree := x.tree(); tree != nil {
		s := scan{Index: *x, tree: tree, lower: lower, upper: upper, reverse: reverse}
		err := s.run(visit)
		x.known = s.known
		return err
	}
	return x.Walk(lower, upper, reverse, visit)
}

// Walk is Scan for what won't be asked for again: it doesn't ask the tree, and teaches it nothing.
func (x *Index) Walk(lower, upper []byte, reverse bool, visit VisitEntry) error {
	if lower != nil && upper != nil && bytes.Compare(lower, upper) >= 0 {
		return nil
	}
	it := x.iterate(lower, upper, reverse)
	for it.Next() && visit(it.Key()[layout.ElementPrefix:], it.Value()) {
	}
	return it.Close()
}

// iterate iterates over the records of the index.
func (x *Index) iterate(lower, upper []byte, reverse bool) *Iterator {
	from, to := x.records(lower, upper)
	keysOnly := !x.values && (x.known == nil || !x.known.Values())
	if layout.Kinds[x.kind].Sequence && x.txn.view == nil {
		return x.iterateSequence(from, to, reverse)
	}
	if it := x.iterateFew(generation.Range{Space: x.space.Number, Lower: from, Upper: to}, reverse, keysOnly); it != nil {
		return it
	}
	return x.txn.Iterate(x.space, from, to, IteratorOptions{Reverse: reverse, KeysOnly: keysOnly})
}
