package generation

// Large is the memory of a record that is too large to be copied under the commit lock. It holds
// the key; the value is filled in before PutLarge makes the memory a chunk of a generation.
type Large struct {
	data      []byte
	keyLength int
}

// NewLarge makes the memory of a record. Its value is all zeros.
func (m *Memory) NewLarge(key []byte, valueLength int) Large {
	l := Large{m.makeAtOnce(firstOffset + entryHeader + len(key) + valueLength + siblingBytes), len(key)}
	copy(l.Key(), key)
	return l
}

// Key is the record's key.
func (l Large) Key() []byte {
	from := firstOffset + entryHeader
	return l.data[from : from+l.keyLength : from+l.keyLength]
}

// Value is the record's value. It must not be changed after PutLarge.
func (l Large) Value() []byte {
	from, to := firstOffset+entryHeader+l.keyLength, len(l.data)-siblingBytes
	return l.data[from:to:to]
}

// Bytes is the memory that the record takes.
func (l Large) Bytes() int { return len(l.data) }

// PutLarge appends a version of a record without a copy: its memory is the generation's from now
// on.
func (g *Generation) PutLarge(hash uint64, space uint32, l Large) {
	g.adopt(l.data)
	g.append(hash, space, l.Key(), l.Value(), uint32(len(l.Value())), true)
}

// adopt makes memory the current chunk. The one before is complete.
func (g *Generation) adopt(data []byte) *Chunk {
	if g.current != nil && g.sealed != nil {
		g.sealed(g.current)
	}
	chunks := *g.chunks.Load()
	chunk := &Chunk{number: len(chunks), data: data}
	chunk.end.Store(firstOffset)
	// Readers hold the slice up to its old length; appending behind that doesn't disturb them.
	chunks = append(chunks, chunk)
	g.chunks.Store(&chunks)
	g.bytes.Add(int64(len(data)))
	g.current, g.used = chunk, firstOffset
	return chunk
}
