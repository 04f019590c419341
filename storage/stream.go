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

// Stream opens the stream of a key, which may not exist: the stream is empty then. It is valid
// until the transaction begins another command.
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
func (s *Stream) Save(names ...keyevent.Name) error { return s.saveAs(keyevent.Changed, names) }

// SaveGroups is Save when no entry has come or gone.
func (s *Stream) SaveGroups(names ...keyevent.Name) error {
	if !s.old.Exists {
		return s.Save(names...)
	}
	return s.saveAs(keyevent.Unseen, names)
}

// SaveAwaited is SaveGroups for what those are told of who wait for a group's entries.
func (s *Stream) SaveAwaited(names ...keyevent.Name) error {
	return s.saveAs(keyevent.Awaited, names)
}

func (s *Stream) saveAs(change keyevent.Name, names []keyevent.Name) error {
	t := s.db.txn
	t.scratch.element = s.head.Append(t.scratch.element[:0])
	s.next.Value = t.scratch.element
	err := s.db.saveAs(change, s.key, &s.old, &s.next)
	for _, name := range names {
		s.db.Notify(name, s.key)
	}
	return err
}

// Keep writes the stream down after changes that no client sees: they are no event.
func (s *Stream) Keep() error {
	s.next.Value = s.head.Append(nil)
	return s.db.putMetadata(s.key, &s.next)
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
	return s.db.getLong(s.entryKey(layout.KindStreamEntry, id))
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
		h.Mark.Without(at, 1, 0)
		return s.replaceNode(at, n)
	}
	if err := s.deleteNode(at); err != nil {
		return err
	}
	h.Nodes--
	h.Mark.Without(at, 1, 1)
	if at != h.FirstNode && at != h.Mark.At {
		return nil
	}
	behind, err := s.nodeBehind(at)
	if at == h.FirstNode {
		h.FirstNode = behind.at
	} else {
		h.Mark.At = behind.at
	}
	return err
}

// leaveNoNode says that the last one is gone.
func (s *Stream) leaveNoNode() {
	h := &s.head
	h.Nodes, h.FirstNode, h.LastNode, h.Tail, h.Mark = 0, StreamID{}, StreamID{}, layout.StreamNode{}, layout.StreamMark{}
}

func (s *Stream) deleteNode(at StreamID) error {
	return s.db.txn.Delete(s.db.space, s.entryKey(layout.KindStreamNode, at))
}

// dropTail takes the last node away: the one before it is the last one then, and entries may be
// added to it.
func (s *Stream) dropTail() error {
	h := &s.head
	if h.Nodes == 1 {
		s.leaveNoNode()
		return nil
	}
	if h.Mark.At == h.LastNode {
		h.Mark = layout.StreamMark{}
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
		n, err = decodeNode(id, value)
		return false
	})
	return n, found, cmp.Or(err, scanErr)
}

// node returns the node that begins at an id, which has to be there.
func (s *Stream) node(at StreamID) (n placedNode, err error) {
	if at == s.head.LastNode {
		return placedNode{at, s.head.Tail}, nil
	}
	value, found, err := s.db.txn.Get(s.db.space, s.entryKey(layout.KindStreamNode, at))
	if err == nil && !found {
		err = s.miscounted()
	}
	if err == nil {
		n.at = at
		n.StreamNode, err = layout.DecodeStreamNode(value)
	}
	return n, err
}

// placedNode is a node and where it begins.
type placedNode struct {
	at StreamID
	layout.StreamNode
}

func decodeNode(id, value []byte) (n placedNode, err error) {
	if n.at, err = layout.EntryOf(id); err == nil {
		n.StreamNode, err = layout.DecodeStreamNode(value)
	}
	return n, err
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

// tombstonesBehind tells whether entries from an id on were deleted one by one.
func (s *Stream) tombstonesBehind(id StreamID) bool {
	h := &s.head
	return s.next.Count > 0 && h.Deleted != StreamID{} && !h.Deleted.Less(id)
}

// DistanceFromFirst estimates how many entries were ever added up to an id, as Redis 7.4 does; -1
// is unknown.
func (s *Stream) DistanceFromFirst(id StreamID) int64 {
	h := &s.head
	switch {
	case h.Added == 0:
		return 0
	case s.next.Count == 0 && !h.Last.Less(id):
		return entriesRead(h.Added)
	case id != StreamID{} && id.Less(h.Deleted):
		return -1
	case id == h.Last:
		return entriesRead(h.Added)
	case h.Last.Less(id):
		return -1
	case h.Deleted == StreamID{} || h.Deleted.Less(h.First):
		if id.Less(h.First) {
			return entriesRead(h.Added - s.next.Count)
		}
		if id == h.First {
			return entriesRead(h.Added - s.next.Count + 1)
		}
	}
	return -1
}
