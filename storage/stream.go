package storage

import (
	"cmp"
	"errors"
	"hash/fnv"

	"kedis/internal/keyevent"
	"kedis/storage/digest"
	"kedis/storage/engine"
	"kedis/storage/layout"
	"kedis/storage/listpack"
	"kedis/storage/rdb"
	"kedis/storage/walks"
)

// StreamID is the id of a stream's entry.
type StreamID = layout.StreamID

// What streams refuse.
var (
	ErrStreamOrder = errors.New("storage: the id isn't above the last one of the stream")
	ErrStreamSize  = errors.New("storage: the entry is too large")
)

// streamType is the row of streams.
var streamType = DataType{Name: "stream", RDB: rdb.Stream, Digest: digest.Stream, encoding: named("stream"),
	encode:  encodeStream,
	restore: restoreStream,
	digest: func(v *digest.Value, d DB, key []byte, _ *layout.Metadata) error {
		s, err := d.Stream(key)
		if err != nil {
			return err
		}
		return s.Range(StreamID{}, layout.LastStreamID, false, func(id StreamID, fields [][]byte) (bool, error) {
			v.Entry(id.Ms, id.Seq)
			for i := 0; i < len(fields); i += 2 {
				v.EntryField(fields[i], fields[i+1])
			}
			return true, nil
		})
	},
	pieces: Pieces{command: "XPARTS", begin: beginStreamPieces, words: appendElementWord, parse: parsePartWord, visit: visitParts},
}

// Stream is a stream as a transaction sees it. Its methods change it in the transaction; Save
// writes that down.
//
// An entry is a record, and so is each node, a run of entries that Redis keeps together: what
// MAXLEN ~ leaves is a matter of nodes. The last node, which grows, stands in the metadata. Entries
// before the first one are never read. So trimming away many is one small write: the reaper removes
// them.
type Stream struct {
	db     DB
	key    []byte
	old    Key
	next   layout.Metadata
	head   layout.StreamHead
	fields [][]byte // of the entry that is visited
}

// Stream opens the stream of a key, which may not exist: the stream is empty then.
func (d DB) Stream(key []byte) (s Stream, err error) {
	if err = d.LookupTypeInto(key, layout.Stream, &s.old); err != nil {
		return s, err
	}
	s.db, s.key, s.next = d, key, s.old.Metadata
	if !s.old.Exists {
		s.next.Type, s.next.Encoding, s.next.ID = layout.Stream, layout.Spread, d.txn.NewID()
		return s, nil
	}
	return s, s.head.Decode(s.next.Value)
}

// Exists tells whether the key was there when the stream was opened.
func (s *Stream) Exists() bool { return s.old.Exists }

// Len is the number of entries.
func (s *Stream) Len() uint64 { return s.next.Count }

// Head is what else is known of the stream without a look at its entries.
func (s *Stream) Head() *layout.StreamHead { return &s.head }

// Save writes the stream down. It may be empty. names are the events that it is.
func (s *Stream) Save(names ...keyevent.Name) error {
	t := s.db.txn
	t.scratch.element = s.head.Append(t.scratch.element[:0])
	s.next.Value = t.scratch.element
	err := s.db.save(s.key, &s.old, &s.next)
	for _, name := range names {
		s.db.Notify(name, s.key)
	}
	return err
}

func (s *Stream) entryKey(kind byte, id StreamID) []byte {
	t := s.db.txn
	t.scratch.key2 = layout.AppendStreamKey(t.scratch.key2[:0], kind, s.next.ID, id)
	return t.scratch.key2
}

// NextID is the id that an entry gets at a time (Unix ms); ok is false when there is none left.
func (s *Stream) NextID(nowMs int64) (id StreamID, ok bool) {
	if id = (StreamID{Ms: uint64(nowMs)}); s.head.Last.Less(id) {
		return id, true
	}
	return s.head.Last.Next()
}

// Append adds an entry, whose fields and values come in turns.
func (s *Stream) Append(id StreamID, fields [][]byte) error {
	if !s.head.Last.Less(id) {
		return ErrStreamOrder
	}
	bytes := int64(0)
	for _, text := range fields {
		bytes += int64(len(text))
	}
	if bytes > maxNodeBytes {
		return ErrStreamSize
	}
	if err := s.place(id, fields, bytes); err != nil {
		return err
	}
	t := s.db.txn
	record := t.scratch.record[:0]
	for _, text := range fields {
		record = layout.AppendStreamField(record, text)
	}
	t.scratch.record = record
	s.next.Count++
	s.head.Added++
	s.head.Last = id
	if s.next.Count == 1 {
		s.head.First = id
	}
	return t.Put(s.db.space, s.entryKey(layout.KindStreamEntry, id), record)
}

// maxNodeBytes is the size beyond which Redis lets no node grow, whatever the limits are.
const maxNodeBytes = 1 << 30

// place counts an entry in the last node, or begins one with it.
func (s *Stream) place(id StreamID, fields [][]byte, bytes int64) error {
	h, names := &s.head, hashNames(fields)
	if !s.fits(bytes) {
		if err := s.leaveTail(); err != nil {
			return err
		}
		if h.Nodes++; h.Nodes == 1 {
			h.FirstNode = id
		}
		h.LastNode, h.Tail = id, layout.StreamNode{Fields: names, Bytes: uint32(masterSize(fields))}
	}
	n := &h.Tail
	n.Bytes += uint32(entrySize(offset(id, h.LastNode), fields, names == n.Fields))
	n.Bytes += uint32(listpack.OfInt(int64(n.Entries)+1).Size() - listpack.OfInt(int64(n.Entries)).Size())
	n.Entries++
	return nil
}

// fits tells whether Redis would add so many bytes to the last node.
func (s *Stream) fits(bytes int64) bool {
	n, limits := &s.head.Tail, s.db.limits()
	largest, most := limits.StreamBytes(), limits.StreamEntries()
	if largest == 0 || largest > maxNodeBytes {
		largest = maxNodeBytes
	}
	return s.head.Nodes > 0 && int64(n.Bytes)+bytes < largest && (most == 0 || int64(n.Entries)+int64(n.Deleted) < most)
}

// leaveTail gives the last node, if there is one, a record of its own.
func (s *Stream) leaveTail() error {
	if s.head.Nodes == 0 {
		return nil
	}
	return s.putNode(s.head.LastNode, s.head.Tail)
}

func (s *Stream) putNode(at StreamID, n layout.StreamNode) error {
	var value [32]byte
	return s.db.txn.Put(s.db.space, s.entryKey(layout.KindStreamNode, at), n.Append(value[:0]))
}

// hashNames tells entries apart whose fields have other names.
func hashNames(fields [][]byte) uint64 {
	h := fnv.New64a()
	var length [10]byte
	for i := 0; i < len(fields); i += 2 {
		_, _ = h.Write(layout.AppendStreamField(length[:0], nil))
		_, _ = h.Write(fields[i])
	}
	return h.Sum64()
}

// masterSize is the size of a listpack that has only what a node begins with: its counts, and the
// names of its first entry's fields.
func masterSize(fields [][]byte) int {
	const header = 7
	size := header + listpack.OfInt(0).Size()*3 + listpack.OfInt(int64(len(fields)/2)).Size()
	for i := 0; i < len(fields); i += 2 {
		size += listpack.Of(fields[i]).Size()
	}
	return size
}

// offset is how much an id is above the one of its node.
func offset(id, node StreamID) StreamID { return StreamID{Ms: id.Ms - node.Ms, Seq: id.Seq - node.Seq} }

// entrySize is how much a node grows by an entry whose id is so much above the node's, and whose
// fields have the same names as those of the node's first entry, or other ones.
func entrySize(offset StreamID, fields [][]byte, same bool) int {
	elements := 3
	size := listpack.OfInt(0).Size() + listpack.OfInt(int64(offset.Ms)).Size() + listpack.OfInt(int64(offset.Seq)).Size()
	if !same {
		elements++
		size += listpack.OfInt(int64(len(fields) / 2)).Size()
	}
	for i, text := range fields {
		if !same || i%2 == 1 {
			elements++
			size += listpack.Of(text).Size()
		}
	}
	return size + listpack.OfInt(int64(elements)).Size()
}

// VisitEntry is called for entries; it returns false to stop. The fields are valid until the
// transaction is reset, the slice during the call.
type VisitEntry func(id StreamID, fields [][]byte) (more bool, err error)

// Range visits the entries from one id to another, both included, or backwards.
func (s *Stream) Range(from, to StreamID, reverse bool, visit VisitEntry) error {
	if from.Less(s.head.First) {
		from = s.head.First
	}
	if s.head.Last.Less(to) {
		to = s.head.Last
	}
	if s.next.Count == 0 || to.Less(from) {
		return nil
	}
	failed := error(nil)
	err := s.walk(from, to, reverse, func(key, value []byte) bool {
		var more bool
		more, failed = s.visit(key, value, visit)
		return more && failed == nil
	})
	clear(s.fields)
	return cmp.Or(failed, err)
}

func (s *Stream) visit(key, value []byte, visit VisitEntry) (more bool, err error) {
	id, err := layout.EntryOf(key)
	if err == nil {
		s.fields, err = layout.StreamFields(s.fields[:0], value)
	}
	if err == nil {
		err = s.db.txn.SpendBytes(len(value))
	}
	if err != nil {
		return false, err
	}
	return visit(id, s.fields)
}

// walk shows the records of entries from one id to another, both included. What walks that begin at the same id have found is kept.
func (s *Stream) walk(from, to StreamID, reverse bool, visit engine.VisitRecord) error {
	w := walks.Walk{Space: s.db.space.Number, Collection: s.next.ID, Reverse: reverse,
		Lower: layout.AppendStreamKey(nil, layout.KindStreamEntry, s.next.ID, from)}
	if to == s.head.Last { // which will be another one soon
		w.Upper = layout.Behind(layout.KindStreamEntry, s.next.ID)
	} else {
		w.Upper = append(layout.AppendStreamKey(nil, layout.KindStreamEntry, s.next.ID, to), 0)
	}
	return s.db.txn.Repeat(w, visit, func(rest walks.Walk, visit engine.VisitRecord) error {
		it := s.db.txn.Iterate(s.db.space, rest.Lower, rest.Upper, reverse, false)
		for it.Next() && visit(it.Key(), it.Value()) {
		}
		return it.Close()
	})
}

// iterate walks the records of entries or nodes from one id to another, both included.
func (s *Stream) iterate(kind byte, from, to StreamID, reverse, keysOnly bool) *Iterator {
	upper := append(layout.AppendStreamKey(nil, kind, s.next.ID, to), 0)
	return s.db.txn.Iterate(s.db.space, layout.AppendStreamKey(nil, kind, s.next.ID, from), upper, reverse, keysOnly)
}

// Entry returns the fields and values of an entry. They are valid until the transaction is reset,
// the slice until the next entry is read.
func (s *Stream) Entry(id StreamID) (fields [][]byte, found bool, err error) {
	value, found, err := s.entry(id)
	if err == nil && found {
		s.fields, err = layout.StreamFields(s.fields[:0], value)
	}
	return s.fields, found, err
}

func (s *Stream) entry(id StreamID) (value []byte, found bool, err error) {
	if s.next.Count == 0 || id.Less(s.head.First) || s.head.Last.Less(id) {
		return nil, false, nil
	}
	return s.db.txn.Get(s.db.space, s.entryKey(layout.KindStreamEntry, id))
}

// Has tells whether there is an entry.
func (s *Stream) Has(id StreamID) (bool, error) {
	_, found, err := s.entry(id)
	return found, err
}

// LastEntry returns the id of the entry that is last; found is false when there is none.
func (s *Stream) LastEntry() (id StreamID, found bool, err error) {
	if found, err = s.Has(s.head.Last); err != nil || found {
		return s.head.Last, found, err
	}
	err = s.Range(StreamID{}, layout.LastStreamID, true, func(last StreamID, _ [][]byte) (bool, error) {
		id, found = last, true
		return false, nil
	})
	return id, found, err
}

// Delete takes entries out, and returns how many there were.
func (s *Stream) Delete(ids []StreamID) (deleted int, err error) {
	first := s.head.First
	for _, id := range ids {
		found, err := s.Has(id)
		if err != nil {
			return deleted, err
		}
		if !found {
			continue
		}
		if err := s.delete(id); err != nil {
			return deleted, err
		}
		deleted++
	}
	if s.next.Count > 0 {
		if found, err := s.Has(first); err != nil || found {
			return deleted, err
		}
	}
	return deleted, s.findFirst(first)
}

func (s *Stream) delete(id StreamID) error {
	if err := s.db.txn.Delete(s.db.space, s.entryKey(layout.KindStreamEntry, id)); err != nil {
		return err
	}
	s.next.Count--
	if s.head.Deleted.Less(id) {
		s.head.Deleted = id
	}
	return s.leaveNode(id)
}

// findFirst finds the first entry, which isn't before an id.
func (s *Stream) findFirst(from StreamID) error {
	s.head.First = StreamID{}
	if s.next.Count == 0 {
		return nil
	}
	it := s.iterate(layout.KindStreamEntry, from, s.head.Last, false, true)
	if it.Next() {
		id, err := layout.EntryOf(it.Key())
		it.Fail(err)
		s.head.First = id
	} else if it.Err() == nil {
		it.Fail(s.miscounted())
	}
	return it.Close()
}

// leaveNode takes an entry out of its node, and the node with the last one.
func (s *Stream) leaveNode(id StreamID) error {
	h := &s.head
	if !id.Less(h.LastNode) {
		if h.Tail.Entries--; h.Tail.Entries > 0 {
			h.Tail.Deleted++
			return nil
		}
		return s.dropTail()
	}
	at, n, found, err := s.nodeBefore(id)
	if err == nil && (!found || n.Entries == 0) {
		err = s.miscounted()
	}
	if err != nil {
		return err
	}
	if n.Entries--; n.Entries > 0 {
		n.Deleted++
		return s.putNode(at, n)
	}
	h.Nodes--
	if err := s.deleteNode(at); err != nil || at != h.FirstNode {
		return err
	}
	h.FirstNode, err = s.nodeBehind(at)
	return err
}

func (s *Stream) deleteNode(at StreamID) error {
	return s.db.txn.Delete(s.db.space, s.entryKey(layout.KindStreamNode, at))
}

// dropTail takes the last node away: the one before it is the last one then, and entries may be
// added to it.
func (s *Stream) dropTail() error {
	h := &s.head
	if h.Nodes--; h.Nodes == 0 {
		h.FirstNode, h.LastNode, h.Tail = StreamID{}, StreamID{}, layout.StreamNode{}
		return nil
	}
	before, _ := h.LastNode.Previous()
	at, n, found, err := s.nodeBefore(before)
	if err == nil && !found {
		err = s.miscounted()
	}
	if err != nil {
		return err
	}
	h.LastNode, h.Tail = at, n
	return s.deleteNode(at)
}

// nodeBefore finds the last node with a record that begins at an id or before.
func (s *Stream) nodeBefore(id StreamID) (at StreamID, n layout.StreamNode, found bool, err error) {
	it := s.iterate(layout.KindStreamNode, s.head.FirstNode, id, true, false)
	if found = it.Next(); found {
		at, err = layout.EntryOf(it.Key())
		if !it.Fail(err) {
			n, err = layout.DecodeStreamNode(it.Value())
			it.Fail(err)
		}
	}
	return at, n, found, it.Close()
}

// nodeBehind returns where the node behind one begins, which isn't the last.
func (s *Stream) nodeBehind(at StreamID) (StreamID, error) {
	from, _ := at.Next()
	it := s.iterate(layout.KindStreamNode, from, s.head.LastNode, false, true)
	behind := s.head.LastNode
	if it.Next() {
		var err error
		behind, err = layout.EntryOf(it.Key())
		it.Fail(err)
	}
	return behind, it.Close()
}

func (s *Stream) miscounted() error { return wrongCount(&s.next, layout.Stream.Elements()[0], 0) }

// SetLast sets the highest id that was ever given. Errors: ErrStreamOrder when it is below that of
// an entry.
func (s *Stream) SetLast(id StreamID) error {
	if !id.Less(s.head.Last) {
		s.head.Last = id
		return nil
	}
	last, found, err := s.LastEntry()
	if err != nil {
		return err
	}
	if found && id.Less(last) {
		return ErrStreamOrder
	}
	if !found { // entries that were trimmed away may still wait for the reaper, under ids that are given again
		if err := s.renew(); err != nil {
			return err
		}
	}
	s.head.Last = id
	return nil
}

// renew gives the stream's records another id.
func (s *Stream) renew() error {
	t := s.db.txn
	t.scratch.element = s.head.Append(t.scratch.element[:0])
	s.next.Value = t.scratch.element
	id, err := s.db.copyElements(&s.next, s.db)
	s.next.ID = id
	return err
}

// Trim says what of a stream is to be taken off its beginning.
type Trim struct {
	ByID        bool
	MaxLength   uint64   // entries that stay
	MinID       StreamID // with ByID: what is before it goes
	Approximate bool     // only whole nodes go
	Limit       int64    // how many entries may go, in whole nodes; 0: any number

	before StreamID // nothing from it on goes, unless it is zero
}

func (o *Trim) bounded() bool { return o.before != StreamID{} }

// trimming is a Trim on its way.
type trimming struct {
	*Trim
	removed uint64 // entries of the stream's beginning, which are to go
	rest    uint64 // how many of them are in a node that stays
	dropped uint64 // nodes
	node    placedNode
}

// placedNode is a node and where it begins.
type placedNode struct {
	at StreamID
	layout.StreamNode
}

// Up to so many records are deleted one by one. What is more waits for the reaper.
const (
	trimEntries = 64
	trimNodes   = 64
)

// Trim takes entries off the beginning, and returns how many.
func (s *Stream) Trim(o *Trim) (removed uint64, err error) {
	t := trimming{Trim: o}
	if err := s.planTrim(&t); err != nil || t.removed == 0 {
		return 0, err
	}
	if err := s.trimNodes(&t); err != nil {
		return 0, err
	}
	return t.removed, s.trimEntries(&t)
}

// planTrim finds out which nodes go, and how many entries of the one behind them.
func (s *Stream) planTrim(t *trimming) error {
	h := &s.head
	if h.Nodes == 0 || !t.ByID && s.next.Count <= t.MaxLength || t.ByID && !h.First.Less(t.MinID) || t.bounded() && !h.First.Less(t.before) {
		return nil
	}
	nodes := nodeWalk{stream: s}
	defer nodes.close()
	var err error
	if t.node, err = nodes.first(); err != nil {
		return err
	}
	for {
		left, last := s.next.Count-t.removed, t.dropped == h.Nodes-1
		if !t.ByID && left <= t.MaxLength || t.Limit > 0 && t.removed+uint64(t.node.Entries) > uint64(t.Limit) {
			return nil
		}
		if t.Approximate && !t.ByID && left < t.MaxLength+uint64(t.node.Entries) {
			return nil // nearly every time when XADD asks for it
		}
		whole, err := s.goesWhole(t, &nodes, last, left)
		if err != nil {
			return err
		}
		if !whole {
			return s.planRest(t, left)
		}
		t.removed += uint64(t.node.Entries)
		if t.dropped++; last {
			return nil
		}
		if t.node, err = nodes.next(); err != nil {
			return err
		}
	}
}

// nodeWalk goes over the nodes. Most that trim need only the first one.
type nodeWalk struct {
	stream *Stream
	it     *Iterator
	number uint64      // of the node that was returned
	ahead  *placedNode // the one behind it, when it was looked at
}

func (w *nodeWalk) first() (n placedNode, err error) {
	s := w.stream
	if s.head.Nodes == 1 {
		return placedNode{s.head.LastNode, s.head.Tail}, nil
	}
	value, found, err := s.db.txn.Get(s.db.space, s.entryKey(layout.KindStreamNode, s.head.FirstNode))
	if err == nil && !found {
		err = s.miscounted()
	}
	if err == nil {
		n.at = s.head.FirstNode
		n.StreamNode, err = layout.DecodeStreamNode(value)
	}
	return n, err
}

// next goes on to the node behind, which there has to be.
func (w *nodeWalk) next() (placedNode, error) {
	n, err := w.peek()
	w.number, w.ahead = w.number+1, nil
	return n, err
}

// peek returns the node behind.
func (w *nodeWalk) peek() (n placedNode, err error) {
	s := w.stream
	switch {
	case w.ahead != nil:
		return *w.ahead, nil
	case w.number+1 == s.head.Nodes-1:
		return placedNode{s.head.LastNode, s.head.Tail}, nil
	case w.it == nil:
		from, _ := s.head.FirstNode.Next()
		before, _ := s.head.LastNode.Previous()
		w.it = s.iterate(layout.KindStreamNode, from, before, false, false)
	}
	if !w.it.Next() {
		if err := w.it.Err(); err != nil {
			return n, err
		}
		return n, s.miscounted()
	}
	if n.at, err = layout.EntryOf(w.it.Key()); err == nil {
		n.StreamNode, err = layout.DecodeStreamNode(w.it.Value())
	}
	w.ahead = &n
	return n, err
}

func (w *nodeWalk) close() {
	if w.it != nil {
		_ = w.it.Close()
	}
}

// goesWhole tells whether all of a node goes, of a stream that has so many entries from it on.
func (s *Stream) goesWhole(t *trimming, nodes *nodeWalk, last bool, left uint64) (whole bool, err error) {
	if t.ByID {
		whole, err = s.endsBefore(&t.node, nodes, last, t.MinID)
	} else {
		whole = left-min(left, uint64(t.node.Entries)) >= t.MaxLength
	}
	if err == nil && whole && t.bounded() {
		whole, err = s.endsBefore(&t.node, nodes, last, t.before)
	}
	return whole, err
}

// endsBefore tells whether all entries of a node come before an id.
func (s *Stream) endsBefore(n *placedNode, nodes *nodeWalk, last bool, id StreamID) (bool, error) {
	if !last {
		if behind, err := nodes.peek(); err != nil || !id.Less(behind.at) {
			return err == nil, err
		}
	}
	counted, err := s.countBetween(n.at, id, uint64(n.Entries))
	return counted == uint64(n.Entries), err
}

// planRest counts what goes of a node that stays.
func (s *Stream) planRest(t *trimming, left uint64) (err error) {
	switch {
	case t.Approximate:
		return nil
	case t.ByID:
		t.rest, err = s.countBetween(t.node.at, t.MinID, uint64(t.node.Entries))
	default:
		t.rest = left - t.MaxLength
	}
	if err == nil && t.bounded() {
		var free uint64
		free, err = s.countBetween(t.node.at, t.before, uint64(t.node.Entries))
		t.rest = min(t.rest, free)
	}
	t.removed += t.rest
	return err
}

// countBetween counts up to so many entries from one id on, before another.
func (s *Stream) countBetween(from, before StreamID, most uint64) (n uint64, err error) {
	to, ok := before.Previous()
	if from.Less(s.head.First) {
		from = s.head.First
	}
	if !ok || to.Less(from) || most == 0 {
		return 0, nil
	}
	it := s.iterate(layout.KindStreamEntry, from, to, false, true)
	for n < most && it.Next() {
		n++
	}
	return n, it.Close()
}

// trimNodes takes the nodes away.
func (s *Stream) trimNodes(t *trimming) error {
	h := &s.head
	former, nodes := h.FirstNode, h.Nodes
	h.Nodes -= t.dropped
	if h.Nodes == 0 {
		last := h.LastNode
		h.FirstNode, h.LastNode, h.Tail = StreamID{}, StreamID{}, layout.StreamNode{}
		return s.removeBefore(layout.KindStreamNode, layout.StreamNodes, former, last, nodes-1, trimNodes)
	}
	h.FirstNode = t.node.at
	if t.rest > 0 {
		t.node.Entries -= uint32(t.rest)
		t.node.Deleted += uint32(t.rest)
		if t.node.at == h.LastNode {
			h.Tail = t.node.StreamNode
		} else if err := s.putNode(t.node.at, t.node.StreamNode); err != nil {
			return err
		}
	}
	return s.removeBefore(layout.KindStreamNode, layout.StreamNodes, former, t.node.at, t.dropped, trimNodes)
}

// trimEntries takes the entries away, and finds the one that is first then.
func (s *Stream) trimEntries(t *trimming) error {
	h := &s.head
	former := h.First
	s.next.Count -= t.removed
	if s.next.Count == 0 {
		h.First = StreamID{}
		behind, ok := h.Last.Next()
		if !ok {
			if err := s.db.txn.Delete(s.db.space, s.entryKey(layout.KindStreamEntry, h.Last)); err != nil {
				return err
			}
			behind = h.Last
		}
		return s.removeBefore(layout.KindStreamEntry, layout.StreamEntries, former, behind, t.removed, trimEntries)
	}
	from := former
	if former.Less(t.node.at) {
		from = t.node.at
	}
	found := false
	if t.rest == 0 { // it is there, unless it was deleted by itself
		var err error
		if found, err = s.Has(from); err != nil {
			return err
		}
	}
	if found {
		h.First = from
		return s.removeBefore(layout.KindStreamEntry, layout.StreamEntries, former, h.First, t.removed, trimEntries)
	}
	passed := t.removed == t.rest && t.removed <= trimEntries
	if err := s.passEntries(from, t.rest, passed); err != nil || passed {
		return err
	}
	return s.removeBefore(layout.KindStreamEntry, layout.StreamEntries, former, h.First, t.removed, trimEntries)
}

// passEntries makes the entry first that comes behind so many, from an id on. It removes those that it passes, if they are to be.
func (s *Stream) passEntries(from StreamID, count uint64, remove bool) error {
	it := s.iterate(layout.KindStreamEntry, from, s.head.Last, false, true)
	for passed := uint64(0); ; passed++ {
		if !it.Next() {
			if it.Err() == nil {
				it.Fail(s.miscounted())
			}
			break
		}
		if passed == count {
			id, err := layout.EntryOf(it.Key())
			it.Fail(err)
			s.head.First = id
			break
		}
		if remove && it.Fail(s.db.txn.Delete(s.db.space, it.Key())) {
			break
		}
	}
	return it.Close()
}

// removeBefore removes count records from the beginning up to an id: one by one, or by a record
// that has the reaper do it.
func (s *Stream) removeBefore(kind byte, part layout.Type, from, before StreamID, count, most uint64) error {
	d, t := s.db, s.db.txn
	if count == 0 {
		return nil
	}
	if count > most {
		return t.AbandonPart(d.space, s.next.ID, before.Append(nil), part, count)
	}
	if count == 1 { // it stands where they begin
		return t.Delete(d.space, s.entryKey(kind, from))
	}
	it := s.iterate(kind, from, before, false, true)
	for seen := uint64(0); seen < count && it.Next(); seen++ {
		if it.Fail(t.Delete(d.space, it.Key())) {
			break
		}
	}
	return it.Close()
}

// tombstonesBehind tells whether entries from an id on were deleted one by one.
func (s *Stream) tombstonesBehind(id StreamID) bool {
	h := &s.head
	return s.next.Count > 0 && h.Deleted != StreamID{} && !h.Deleted.Less(h.First) && !h.Deleted.Less(id)
}

// DistanceFromFirst estimates how many entries were ever added up to an id; -1 is unknown.
func (s *Stream) DistanceFromFirst(id StreamID) int64 {
	h := &s.head
	switch {
	case h.Added == 0:
		return 0
	case s.next.Count == 0 && !h.Last.Less(id):
		return int64(h.Added)
	case id == h.Last:
		return int64(h.Added)
	case h.Last.Less(id):
		return -1
	case h.Deleted == StreamID{} || h.Deleted.Less(h.First):
		if id.Less(h.First) {
			return int64(h.Added - s.next.Count)
		}
		if id == h.First {
			return int64(h.Added - s.next.Count + 1)
		}
	}
	return -1
}
