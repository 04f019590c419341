package engine

import (
	"bytes"

	"kedis/storage/generation"
	"kedis/storage/layout"
)

// recordHash is the hash of a record in the tiers.
//
// An element of a sequence is hashed in two steps: the prefix that all of its elements share, and
// then the index. A range reads a hundred elements in a row: the second step is one multiplication
// for eight of them, whose slots are side by side. It need not resist chosen indexes: those of a
// sequence follow each other.
func recordHash(space uint32, key []byte) uint64 {
	if _, index, ok := layout.DecodeSequenceKey(key); ok {
		return generation.HashInSequence(generation.Hash(space, key[:layout.ElementPrefix]), index)
	}
	return generation.Hash(space, key)
}

// hash is recordHash with two shortcuts: the last key's metadata, which is read and then written,
// or changed by one request after another, and the sequence whose element was last read.
func (t *Txn) hash(ns *Namespace, key []byte) uint64 {
	switch kind := &layout.Kinds[key[0]]; {
	case kind.ReadAgain && len(key) <= longestHashed:
		return t.hashes.key.of(ns.Number, key)
	case kind.Sequence:
		if id, index, ok := layout.DecodeSequenceKey(key); ok {
			last := &t.hashes.sequence
			if last.space != ns.Number || last.id != id || !last.known {
				*last = hashedSequence{ns.Number, id, generation.Hash(ns.Number, key[:layout.ElementPrefix]), true}
			}
			return generation.HashInSequence(last.hash, index)
		}
	}
	return generation.Hash(ns.Number, key)
}

// KeyHash is the hash of a key, by the record of its metadata.
func (t *Txn) KeyHash(ns *Namespace, metadataKey []byte) uint64 { return t.hash(ns, metadataKey) }

// longestHashed is the size (bytes) of the keys that are compared and kept.
const longestHashed = 256

// hashed is a record's hash. The zero value is that of no record.
type hashed struct {
	space uint32
	key   []byte
	hash  uint64
}

func (h *hashed) of(space uint32, key []byte) uint64 {
	if h.space != space || !bytes.Equal(h.key, key) {
		h.space, h.key, h.hash = space, append(h.key[:0], key...), generation.Hash(space, key)
	}
	return h.hash
}

// hashedSequence is the hash that the keys of a sequence's elements begin with.
type hashedSequence struct {
	space    uint32
	id, hash uint64
	known    bool
}

// recordGroup puts the elements of a spread collection into a group, unless they are found
// otherwise. Ids are counted, so nobody can choose colliding ones.
func recordGroup(space uint32, key []byte) (hash uint64, prefix int) {
	if layout.Kinds[key[0]].Grouped {
		return groupHash(space, key[0], layout.ElementID(key)), layout.ElementPrefix
	}
	return 0, 0
}

func groupHash(space uint32, kind byte, id uint64) uint64 {
	return generation.HashWith(uint64(space)<<8|uint64(kind), id)
}
