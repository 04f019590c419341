// Package digest computes what Redis's DEBUG DIGEST and DEBUG DIGEST-VALUE answer, so that equal
// data on Redis and on Kedis has an equal digest.
//
// A value is given one element at a time: a collection never has to be in memory. Two steps build
// everything, both on 20 bytes that start as zeros:
//
//	xor  sum = sum xor SHA1(data)          for what has no order
//	mix  sum = SHA1(sum xor SHA1(data))    for what has
//
// A value is its kind, mixed, and then its parts: a string or each element of a list is mixed; each
// member of a set is xored; of a hash or a sorted set an element of its own is mixed from field and
// value, or member and score, and xored; of a stream the id and all fields and values are mixed. An
// expiry, whatever its time, ends it as a marker that is xored. The sum of a key starts with its
// name, mixed. In the data set the number of each database that has keys is mixed, followed by the
// sums of its keys, xored.
//
// The package imports only the standard library, and knows nothing of storage or encodings.
package digest

import (
	"cmp"
	"crypto/sha1"
	"encoding/binary"
	"encoding/hex"
	"math"
	"slices"
	"strconv"
)

// Sum is a digest. The zero Sum is that of an empty data set, and of a key that doesn't exist.
type Sum [sha1.Size]byte

// String returns the sum as 40 hexadecimal digits, as Redis shows it.
func (s Sum) String() string { return hex.EncodeToString(s[:]) }

func (s *Sum) xor(data []byte) {
	hash := sha1.Sum(data)
	for i := range s {
		s[i] ^= hash[i]
	}
}

func (s *Sum) mix(data []byte) {
	s.xor(data)
	*s = sha1.Sum(s[:])
}

func (s *Sum) mixNumber(number uint32) {
	var data [4]byte
	binary.BigEndian.PutUint32(data[:], number)
	s.mix(data[:])
}

// Kind is a data type, by the number that Redis digests for it.
type Kind uint32

const (
	String    Kind = 0
	List      Kind = 1
	Set       Kind = 2
	SortedSet Kind = 3
	Hash      Kind = 4
	Stream    Kind = 6
)

// A Value is the digest of one value in the making. The method that adds a part has to be the one
// of the value's kind; lists and streams get their parts in order, the others in any.
type Value struct {
	sum     Sum
	expires bool
}

// NewValue starts the digest of a value without its key, as DEBUG DIGEST-VALUE shows it.
func NewValue(kind Kind) Value {
	var v Value
	v.sum.mixNumber(uint32(kind))
	return v
}

// NewKey starts the digest of a key and its value, which goes into a Dataset.
func NewKey(key []byte, kind Kind) Value {
	var v Value
	v.sum.mix(key)
	v.sum.mixNumber(uint32(kind))
	return v
}

// String adds the content of a string, which parts hands out in parts. It is called once.
func (v *Value) String(parts func(write func(part []byte)) error) error {
	content := sha1.New()
	err := parts(func(part []byte) { content.Write(part) })
	var hash Sum
	content.Sum(hash[:0])
	for i := range v.sum {
		v.sum[i] ^= hash[i]
	}
	v.sum = sha1.Sum(v.sum[:])
	return err
}

// Element adds the next element of a list.
func (v *Value) Element(element []byte) { v.sum.mix(element) }

// Member adds a member of a set.
func (v *Value) Member(member []byte) { v.sum.xor(member) }

// Scored adds a member of a sorted set. The score is digested as C prints it with %.17g.
func (v *Value) Scored(member []byte, score float64) {
	var text [32]byte
	v.pair(member, appendScore(text[:0], score))
}

// Field adds a field of a hash.
func (v *Value) Field(field, value []byte) { v.pair(field, value) }

// ExpiringField adds a field that expires, at whatever time.
func (v *Value) ExpiringField(field, value []byte) {
	var element Sum
	element.mix(field)
	element.mix(value)
	element.xor([]byte("!!hexpire!!"))
	v.sum.xor(element[:])
}

func (v *Value) pair(first, second []byte) {
	var element Sum
	element.mix(first)
	element.mix(second)
	v.sum.xor(element[:])
}

// Entry adds the id of a stream's next entry. Its fields follow by EntryField.
func (v *Value) Entry(milliseconds, sequence uint64) {
	var text [2*20 + 1]byte
	id := strconv.AppendUint(text[:0], milliseconds, 10)
	id = append(id, '.')
	v.sum.mix(strconv.AppendUint(id, sequence, 10))
}

// EntryField adds the next field of the entry that Entry began.
func (v *Value) EntryField(field, value []byte) {
	v.sum.mix(field)
	v.sum.mix(value)
}

// Expires says that the key has an expiry.
func (v *Value) Expires() { v.expires = true }

// Sum returns the digest of what was added so far.
func (v *Value) Sum() Sum {
	sum := v.sum
	if v.expires {
		sum.xor([]byte("!!expire!!"))
	}
	return sum
}

// appendScore appends a score as C's %.17g. Go chooses between the two notations as C does, but
// writes infinity with a plus sign and a capital.
func appendScore(dst []byte, score float64) []byte {
	switch {
	case math.IsInf(score, 1):
		return append(dst, "inf"...)
	case math.IsInf(score, -1):
		return append(dst, "-inf"...)
	}
	return strconv.AppendFloat(dst, score, 'g', 17, 64)
}

// A Dataset is the digest of all databases in the making. Keys may be added in any order. The zero
// Dataset is empty. It holds some 24 bytes for each database that has keys.
type Dataset struct {
	databases []database // ascending by number
}

type database struct {
	number uint32
	keys   Sum // the sums of its keys, xored
}

// Add adds the sum of a key of a database.
func (d *Dataset) Add(number int, key Sum) {
	at, found := slices.BinarySearchFunc(d.databases, uint32(number), func(d database, number uint32) int {
		return cmp.Compare(d.number, number)
	})
	if !found {
		d.databases = slices.Insert(d.databases, at, database{number: uint32(number)})
	}
	d.databases[at].keys.xor(key[:])
}

// Sum returns the digest of what was added so far.
func (d *Dataset) Sum() Sum {
	var sum Sum
	for _, database := range d.databases {
		sum.mixNumber(database.number)
		for i := range sum {
			sum[i] ^= database.keys[i]
		}
	}
	return sum
}
