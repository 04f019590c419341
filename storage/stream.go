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

// Stream opens the stream of a key, which may not exist: the stream is empty then. It is valid until the transaction begins another command.
func (d DB) Stream(key []byte) (s *Stream, err error) {
	s = d.txn.streams.take()
	s.empty()
	s.db, s.key = d, key
	if err = d.LookupTypeInto(key, layout.Stream, &s.old); err != nil {
		return s, err
	}
	s.next = s.old.Metadata
	if !s.old.Exists {
		s.next.Type, s.next.Encoding, s.next.ID = layout.Stream, layout.Spread, d.txn.NewID()
		return s, nil
	}
	return s, s.head.Decode(s.next.Value)
}

// empty makes it one that refers to nothing, and keeps its memory.
func (s *Stream) empty() {
	const most = 64
	fields := s.fields[:0:min(cap(s.fields), most)]
	clear(fields[:cap(fields)])
	*s = Stream{fields: fields}
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
	if err := s.addToNode(id, fields, bytes); err != nil {
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

// addToNode counts an entry in the last node, or begins one with it.
func (s *Stream) addToNode(id StreamID, fields [][]byte, bytes int64) error {
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
	var value [32]byte
	return s.db.txn.Put(s.db.space, s.entryKey(layout.KindStreamNode, s.head.LastNode), s.head.Tail.Append(value[:0]))
}

// replaceNode changes a node that isn't the last one.
func (s *Stream) replaceNode(at StreamID, n layout.StreamNode) error {
	var value [32]byte
	return s.db.txn.Replace(s.db.space, s.entryKey(layout.KindStreamNode, at), n.Append(value[:0]))
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
	lower, upper := from.Append(nil), []byte(nil)
	if to.Less(s.head.Last) {
		behind, _ := to.Next()
		upper = behind.Append(nil)
	}
	failed := error(nil)
	x := s.entries()
	err := x.Scan(lower, upper, reverse, func(key, value []byte) bool {
		var more bool
		more, failed = s.visit(key, value, visit)
		return more && failed == nil
	})
	clear(s.fields)
	return cmp.Or(failed, err)
}

// entries is the order of the entries.
func (s *Stream) entries() engine.Index {
	return s.order(layout.KindStreamEntry, s.next.Count, s.head.First)
}

// nodes is the order of the nodes but for the last one.
func (s *Stream) nodes() engine.Index {
	return s.order(layout.KindStreamNode, s.head.Nodes-1, s.head.FirstNode)
}

// order is that of count records of a kind. Those before the first one wait for the reaper.
func (s *Stream) order(kind byte, count uint64, first StreamID) engine.Index {
	x := s.db.txn.NewIndex(s.db.space, kind, s.next.ID, int(count), true, s.key)
	x.BeginAt(first.Append(nil))
	return x
}

// entryBehind finds the entry behind so many, from an id on. pass is called for each of those.
func (s *Stream) entryBehind(from StreamID, count uint64, pass func(id []byte)) (behind StreamID, err error) {
	x, found := s.entries(), false
	scanErr := x.Scan(from.Append(nil), nil, false, func(id, _ []byte) bool {
		if count == 0 {
			found = true
			behind, err = layout.EntryOf(id)
			return false
		}
		count--
		pass(id)
		return true
	})
	if err = cmp.Or(err, scanErr); err == nil && !found {
		err = s.miscounted()
	}
	return behind, err
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
func (s *Stream) findFirst(from StreamID) (err error) {
	if s.next.Count == 0 {
		s.head.First = StreamID{}
		return nil
	}
	s.head.First, err = s.entryBehind(from, 0, nil)
	return err
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
		return s.replaceNode(at, n)
	}
	err = s.deleteNode(at)
	h.Nodes--
	if err != nil || at != h.FirstNode {
		return err
	}
	behind, err := s.nodeBehind(at)
	h.FirstNode = behind.at
	return err
}

func (s *Stream) deleteNode(at StreamID) error {
	return s.db.txn.Delete(s.db.space, s.entryKey(layout.KindStreamNode, at))
}

// dropTail takes the last node away: the one before it is the last one then, and entries may be
// added to it.
func (s *Stream) dropTail() error {
	h := &s.head
	if h.Nodes == 1 {
		h.Nodes, h.FirstNode, h.LastNode, h.Tail = 0, StreamID{}, StreamID{}, layout.StreamNode{}
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
	h.Nodes--
	h.LastNode, h.Tail = at, n
	return s.deleteNode(at)
}

// nodeBefore finds the last node with a record that begins at an id or before.
func (s *Stream) nodeBefore(id StreamID) (at StreamID, n layout.StreamNode, found bool, err error) {
	behind, ok := id.Next()
	upper := []byte(nil)
	if ok {
		upper = behind.Append(nil)
	}
	node, found, err := s.scanNode(s.head.FirstNode.Append(nil), upper, true)
	return node.at, node.StreamNode, found, err
}

// nodeBehind returns the node behind one, which isn't the last.
func (s *Stream) nodeBehind(at StreamID) (n placedNode, err error) {
	from, _ := at.Next()
	n, found, err := s.scanNode(from.Append(nil), s.head.LastNode.Append(nil), false)
	if err == nil && !found {
		return placedNode{s.head.LastNode, s.head.Tail}, nil
	}
	return n, err
}

// scanNode finds the first node with a record from one key on, before another, or the last.
func (s *Stream) scanNode(lower, upper []byte, last bool) (n placedNode, found bool, err error) {
	x := s.nodes()
	scanErr := x.Scan(lower, upper, last, func(id, value []byte) bool {
		found = true
		if n.at, err = layout.EntryOf(id); err == nil {
			n.StreamNode, err = layout.DecodeStreamNode(value)
		}
		return false
	})
	return n, found, cmp.Or(err, scanErr)
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
	if err == nil {
		err = t.Abandon(s.db.space, &s.next)
	}
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

// Up to so many nodes, and entries of a node that stays, are deleted one by one. Others wait for the reaper.
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
	var err error
	if t.node, err = s.firstNode(); err != nil {
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
		whole, err := s.goesWhole(t, last, left)
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
		if t.node, err = s.nodeBehind(t.node.at); err != nil {
			return err
		}
	}
}

// firstNode returns the first node, which there has to be.
func (s *Stream) firstNode() (n placedNode, err error) {
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

// goesWhole tells whether all of a node goes, of a stream that has so many entries from it on.
func (s *Stream) goesWhole(t *trimming, last bool, left uint64) (whole bool, err error) {
	if t.ByID {
		whole, err = s.endsBefore(&t.node, last, t.MinID)
	} else {
		whole = left-min(left, uint64(t.node.Entries)) >= t.MaxLength
	}
	if err == nil && whole && t.bounded() {
		whole, err = s.endsBefore(&t.node, last, t.before)
	}
	return whole, err
}

// endsBefore tells whether all entries of a node come before an id.
func (s *Stream) endsBefore(n *placedNode, last bool, id StreamID) (bool, error) {
	if !last {
		if behind, err := s.nodeBehind(n.at); err != nil || !id.Less(behind.at) {
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
	if from.Less(s.head.First) {
		from = s.head.First
	}
	if !from.Less(before) || most == 0 {
		return 0, nil
	}
	x := s.entries()
	err = x.Scan(from.Append(nil), before.Append(nil), false, func([]byte, []byte) bool {
		n++
		return n < most
	})
	return n, err
}

// trimNodes takes the nodes away.
func (s *Stream) trimNodes(t *trimming) error {
	h := &s.head
	before, records := t.node.at, t.dropped
	if t.dropped == h.Nodes {
		before, records = h.LastNode, h.Nodes-1
	}
	if err := s.removeNodes(before, records); err != nil {
		return err
	}
	if h.Nodes -= t.dropped; h.Nodes == 0 {
		h.FirstNode, h.LastNode, h.Tail = StreamID{}, StreamID{}, layout.StreamNode{}
		return nil
	}
	h.FirstNode = t.node.at
	if t.rest == 0 {
		return nil
	}
	t.node.Entries -= uint32(t.rest)
	t.node.Deleted += uint32(t.rest)
	if t.node.at == h.LastNode {
		h.Tail = t.node.StreamNode
		return nil
	}
	return s.replaceNode(t.node.at, t.node.StreamNode)
}

// removeNodes removes the records of count nodes, which stand before an id.
func (s *Stream) removeNodes(before StreamID, count uint64) error {
	switch {
	case count == 0:
		return nil
	case count == 1:
		return s.deleteNode(s.head.FirstNode)
	case count > trimNodes:
		return s.db.txn.AbandonPart(s.db.space, s.next.ID, before.Append(nil), layout.StreamNodes, count)
	}
	ids := make([][]byte, 0, trimNodes)
	x := s.nodes()
	err := x.Scan(s.head.FirstNode.Append(nil), before.Append(nil), false, func(id, _ []byte) bool {
		ids = append(ids, id)
		return true
	})
	return cmp.Or(err, s.deleteRecords(layout.KindStreamNode, ids))
}

// deleteRecords deletes records of a kind by what their keys end with.
func (s *Stream) deleteRecords(kind byte, ids [][]byte) error {
	t := s.db.txn
	for _, id := range ids {
		t.scratch.key2 = layout.AppendElementKey(t.scratch.key2[:0], kind, s.next.ID, id)
		if err := t.Delete(s.db.space, t.scratch.key2); err != nil {
			return err
		}
	}
	return nil
}

// trimEntries takes the entries away: those of whole nodes wait for the reaper.
func (s *Stream) trimEntries(t *trimming) error {
	var passed [][]byte // entries of a node that stays
	first, err := s.firstBehind(t, &passed)
	if err != nil {
		return err
	}
	if t.removed == t.rest && t.removed <= trimEntries {
		err = s.deleteRecords(layout.KindStreamEntry, passed)
	} else {
		err = s.leaveEntries(first, t.removed)
	}
	s.next.Count -= t.removed
	s.head.First = first
	return err
}

// firstBehind finds the entry that is the first one after trimming, and those before it of the node that stays, up to some. Without any
// entry left it returns the zero id.
func (s *Stream) firstBehind(t *trimming, passed *[][]byte) (first StreamID, err error) {
	if t.removed == s.next.Count {
		return first, nil
	}
	from := s.head.First
	if from.Less(t.node.at) {
		from = t.node.at
	}
	if t.rest == 0 { // it is there, unless it was deleted by itself
		if found, err := s.Has(from); err != nil || found {
			return from, err
		}
	}
	return s.entryBehind(from, t.rest, func(id []byte) {
		if len(*passed) < trimEntries {
			*passed = append(*passed, id)
		}
	})
}

// mostLeft is how many entries may be left before the first one until the reaper is told of them. A stream that has fewer leaves a part of
// its length.
const mostLeft, leftShare = 4096, 4

// leaveEntries leaves removed entries before an id to the reaper; all when that is zero. The reaper is told when so many have come together.
func (s *Stream) leaveEntries(before StreamID, removed uint64) error {
	t, h := s.db.txn, &s.head
	left := s.next.Count - removed
	step := min(max(left/leftShare, trimEntries), mostLeft)
	if gone := h.Added - left; left > 0 && gone/step == (gone-removed)/step {
		t.ForgetBefore(s.db.space, s.next.ID, layout.KindStreamEntry, before.Append(nil), removed)
		return nil
	}
	if left == 0 {
		var more bool
		if before, more = h.Last.Next(); !more {
			before = h.Last
			if err := t.Delete(s.db.space, s.entryKey(layout.KindStreamEntry, h.Last)); err != nil {
				return err
			}
		}
	}
	return t.AbandonPart(s.db.space, s.next.ID, before.Append(nil), layout.StreamEntries, max(removed, step))
}

// tombstonesBehind tells whether entries from an id on were deleted one by one.
func (s *Stream) tombstonesBehind(id StreamID) bool {
	h := &s.head
	return s.next.Count > 0 && h.Deleted != StreamID{} && !h.Deleted.Less(id)
}

// DistanceFromFirst estimates how many entries were ever added up to an id, as Redis 7.4 does; -1 is unknown.
func (s *Stream) DistanceFromFirst(id StreamID) int64 {
	h := &s.head
	switch {
	case h.Added == 0:
		return 0
	case s.next.Count == 0 && !h.Last.Less(id):
		return int64(h.Added)
	case id != StreamID{} && id.Less(h.Deleted):
		return -1
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
