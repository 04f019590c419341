package rdb

import "kedis/storage/listpack"

// CopyTo writes a value to e, and reads it to its end: packed forms as they are,
// lists node by node, other collections element by element.
func (v *Value) CopyTo(e *Encoder) error {
	pack := v.Listpack
	switch {
	case v.Kind == String:
		whole, err := v.Whole()
		if err != nil {
			return err
		}
		e.String(whole)
	case v.Intset != nil:
		e.SetIntset(v.Intset)
	case pack != nil && v.Kind == List:
		e.ListListpack(pack)
	case pack != nil && v.Kind == Set:
		e.SetListpack(pack)
	case pack != nil && v.Kind == Hash:
		e.HashListpack(pack)
	case pack != nil && v.Kind == SortedSet:
		e.SortedSetListpack(pack)
	case v.Kind == List && v.Count == 0:
		return v.copyNodes(e)
	case v.Kind == Stream:
		return v.copyStream(e)
	default:
		return v.copyElements(e)
	}
	return v.err
}

// copyElements copies what says how many elements it has.
func (v *Value) copyElements(e *Encoder) error {
	switch v.Kind {
	case List:
		e.BeginPlainList(v.Count)
	case Set:
		e.BeginSet(v.Count)
	case Hash:
		if v.FieldsMayExpire() {
			return v.copyExpiring(e)
		}
		e.BeginHash(v.Count)
	case SortedSet:
		e.BeginSortedSet(v.Count)
	}
	for v.Next() {
		switch v.Kind {
		case Hash:
			e.Field(v.Element.Bytes, v.Element.Value)
		case SortedSet:
			e.ScoredMember(v.Element.Bytes, v.Element.Score)
		default:
			e.Member(v.Element.Bytes)
		}
	}
	if v.err != nil {
		return v.err
	}
	e.End()
	return e.err
}

// copyStream copies a stream, node by node.
func (v *Value) copyStream(e *Encoder) error {
	e.BeginStream(v.stream.nodes)
	v.stream.withoutEntries = e.streamNodeWithoutEntries
	var counts StreamCounts
	for v.Next() {
		counts.Complete(v.Element.Stream)
		e.StreamPart(v.Element.Stream)
	}
	if v.err != nil {
		return v.err
	}
	e.EndStream()
	return e.err
}

// copyExpiring copies a hash with fields that expire. Times are written relative to the earliest
// that there may be.
func (v *Value) copyExpiring(e *Encoder) error {
	e.BeginExpiringHash(int64(max(v.firstExpiry, 1)), v.Count)
	for v.Next() {
		e.ExpiringField(v.Element.Bytes, v.Element.Value, v.Element.ExpireMs)
	}
	if v.err != nil {
		return v.err
	}
	e.End()
	return e.err
}

// copyNodes copies a list of several nodes, the first of which has been read. Nodes that turn out
// to be empty come at its end: Redis passes over them.
func (v *Value) copyNodes(e *Encoder) error {
	nodes := v.left + 1
	e.beginCounted(typeListQuicklist2, nodes)
	for v.isPlain || v.position != listpack.None {
		e.takeOne()
		nodes--
		if v.isPlain {
			e.length(nodePlain)
			e.string(v.plain)
			v.isPlain = false
		} else {
			e.packedNode(v.node)
		}
		if v.err = v.fillNode(); v.err != nil {
			return v.err
		}
	}
	for range nodes {
		e.takeOne()
		e.packedNode(listpack.Empty(0))
	}
	v.done = true
	e.End()
	return e.err
}
