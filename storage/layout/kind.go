package layout

// Kind is what a store has to know about a kind of record. The zero Kind is that of a byte that
// begins no record.
type Kind struct {
	// Element: the key goes on with the id of the collection that the record belongs to.
	Element bool
	// Sequence: behind the id stands the index of an element.
	Sequence bool
	// Listed: behind the id stands an index. Which records there are, the collection's metadata
	// tells. Others are not read, and no record says that they are gone.
	Listed bool
	// Grouped: generations link the records of a collection, so that those of a small one are found
	// without a scan.
	Grouped bool
	// Ordered: the order of collections in use is kept in memory. Who puts a record says whether it
	// was there already.
	Ordered bool
	// Names: of a large collection, only what its elements are called is kept, and not their
	// values.
	Names bool
	// Read: records are read one by one, so copies of them are worth their memory. Others are only
	// scanned.
	Read bool
	// ReadAgain: one request after another reads or writes the same record.
	ReadAgain bool
}

// Kinds are the kinds of record by their first byte.
var Kinds = [256]Kind{
	KindMetadata:    {Read: true, ReadAgain: true},
	KindStringPiece: {Element: true, Read: true},
	KindHashField:   {Element: true, Read: true, Grouped: true, Ordered: true, Names: true},
	KindSetMember:   {Element: true, Read: true, Grouped: true, Ordered: true},
	KindListElement: {Element: true, Read: true, Sequence: true, Listed: true, Ordered: true},
	KindListBlock:   {Element: true, Read: true, Listed: true},
	KindZSetMember:  {Element: true, Read: true, Ordered: true},
	KindZSetScore:   {Element: true, Grouped: true, Ordered: true},

	KindStreamEntry:      {Element: true, Ordered: true},
	KindStreamNode:       {Element: true, Ordered: true},
	KindStreamGroup:      {Element: true, Read: true},
	KindStreamName:       {Element: true, Read: true},
	KindStreamConsumer:   {Element: true, Read: true},
	KindStreamPending:    {Element: true, Read: true},
	KindStreamPendingFor: {Element: true},
	KindStreamDelivered:  {Element: true},
	KindFieldExpiry:      {Element: true, Read: true},
	KindFieldDue:         {Element: true},

	KindExpiry:  {},
	KindHashDue: {},
	KindDeleted: {},
}

// Elements is a kind of record that spread collections of a type have.
type Elements struct {
	Kind  byte
	Count func(m *Metadata) uint64 // how many of them a collection has
}

// elements are those of each type. The first kind is the one that an element is looked up by.
var elements = [...][]Elements{
	String: {{KindStringPiece, (*Metadata).Length}},
	Hash:   {{KindHashField, (*Metadata).Length}, {KindFieldExpiry, (*Metadata).expiring}, {KindFieldDue, (*Metadata).expiring}},
	List:   {{KindListElement, (*Metadata).Single}, {KindListBlock, (*Metadata).blocks}},
	Set:    {{KindSetMember, (*Metadata).Length}},
	ZSet:   {{KindZSetMember, (*Metadata).Length}, {KindZSetScore, (*Metadata).Length}},
	Stream: {
		{KindStreamEntry, (*Metadata).Length},
		{KindStreamNode, func(m *Metadata) uint64 { return streamCounts(m).Nodes - min(streamCounts(m).Nodes, 1) }},
		{KindStreamGroup, func(m *Metadata) uint64 { return streamCounts(m).Groups }},
		{KindStreamName, func(m *Metadata) uint64 { return streamCounts(m).Consumers }},
		{KindStreamConsumer, func(m *Metadata) uint64 { return streamCounts(m).Consumers }},
		{KindStreamPending, func(m *Metadata) uint64 { return streamCounts(m).Pending }},
		{KindStreamPendingFor, func(m *Metadata) uint64 { return streamCounts(m).Pending }},
		{KindStreamDelivered, func(m *Metadata) uint64 { return streamCounts(m).Timed }},
	},
	StreamGroup: {
		{Kind: KindStreamName}, {Kind: KindStreamConsumer}, {Kind: KindStreamPending}, {Kind: KindStreamPendingFor}, {Kind: KindStreamDelivered},
	},
	StreamEntries: {{Kind: KindStreamEntry}},
	StreamNodes:   {{Kind: KindStreamNode}},
}

// Records is where the records of a kind that a spread collection has stand. Of a list with blocks,
// single elements stand before and behind these, and what is between is to be passed over.
func (m *Metadata) Records(kind byte) (lower, upper []byte) {
	switch kind {
	case KindListElement:
		return AppendSequenceKey(nil, m.ID, m.Head), AppendSequenceKey(nil, m.ID, m.Tail)
	case KindListBlock:
		return AppendBlockKey(nil, m.ID, m.Blocks.First), AppendBlockKey(nil, m.ID, m.Blocks.Beyond)
	case KindStreamEntry, KindStreamNode:
		return m.streamRecords(kind)
	}
	lower = AppendElementKey(nil, kind, m.ID, nil)
	return lower, Successor(nil, lower)
}

// streamRecords is Records for entries and nodes: what stands before the first one isn't read.
func (m *Metadata) streamRecords(kind byte) (lower, upper []byte) {
	h := streamCounts(m)
	first, last := h.First, h.Last
	if kind == KindStreamNode {
		first, last = h.FirstNode, h.LastNode
	}
	lower = AppendStreamKey(nil, kind, m.ID, first)
	if m.Count == 0 {
		return lower, lower
	}
	return lower, append(AppendStreamKey(nil, kind, m.ID, last), 0)
}

// Elements returns the kinds of record that spread collections of the type have; none for a type
// that has no such collections.
func (t Type) Elements() []Elements {
	if int(t) >= len(elements) {
		return nil
	}
	return elements[t]
}

// Expiring reports whether elements of the type may expire by themselves.
func (t Type) Expiring() bool { return t == Hash }

// Sequence reports whether the elements of the type form a sequence.
func (t Type) Sequence() bool {
	elements := t.Elements()
	return len(elements) > 0 && Kinds[elements[0].Kind].Sequence
}
