// Package rdb reads and writes Redis's serialization of values: the payloads of DUMP and RESTORE,
// and RDB files, which are the same values with keys, expiries and databases around them.
//
// It reads what Redis 1.2 to 8.0 writes (RDB versions 1 to 12) and what Valkey 9 does (version 80),
// and writes version 10, which is Redis 7.0's, with the encodings and the compression that Redis
// 7.0 would choose, so that both write the same bytes wherever Redis's choice is determined by the
// data. Hashes with fields that expire have other forms: see Format.
//
// Small collections come and go as a listpack or an intset, in Redis's own bytes; older packed
// forms (ziplist, zipmap) are converted. Large ones are streams of elements, so no collection has
// to fit into memory, whichever its size. Input is never trusted: lengths are checked against
// what is there before memory is taken, and packed forms are checked to the last byte.
//
// The package knows nothing of how Kedis stores anything. It imports the standard library,
// storage/listpack, storage/intset and internal/number.
//
// Sources: the comments in Redis's rdb.h, and https://rdb.fnordig.de/file_format.html. Integers
// are little-endian unless said otherwise.
package rdb

import (
	"errors"
	"fmt"
	"math"
)

// Version is the RDB version that the package writes: Redis 7.0's.
const Version = 10

// versionOf72 is that of Redis 7.2, which knows when consumers last got something.
const versionOf72 = 11

// NewestVersion is the newest RDB version of Redis's that the package reads: that of 7.4 and 8.0.
const NewestVersion = 12

// ValkeyVersion is Valkey 9's RDB version. Type 22 is another hash there than in Redis. Valkey's
// own versions begin with 80; its files begin with VALKEY then.
const ValkeyVersion = 80

// known reports whether the package reads a version.
func known(version uint64) bool {
	return version >= 1 && version <= NewestVersion || version == ValkeyVersion
}

// How long a string may be that a Decoder or Reader takes, in bytes, unless told otherwise.
const (
	// DefaultMaxString is what Redis makes at most, be it a value or a packed collection, unless
	// its proto-max-bulk-len is raised.
	DefaultMaxString = 1 << 30
	// TrustedMaxString is for what a server wrote, whose proto-max-bulk-len may have been raised.
	// There are no longer strings in a Kedis.
	TrustedMaxString = math.MaxUint32
)

var (
	// ErrCorrupt is wrapped by every error that says that the bytes are not what they should be.
	ErrCorrupt = errors.New("rdb: corrupt")
	// ErrPayloadVersion says that a payload's version isn't known.
	ErrPayloadVersion = errors.New("rdb: the payload's version is too new")
	// ErrPayloadChecksum says that a payload is too short or that its checksum is wrong.
	ErrPayloadChecksum = errors.New("rdb: the payload's checksum is wrong")
	// ErrEmpty says that a collection has no elements. Old versions of Redis could write such a
	// thing into a file; Redis skips it there, and refuses it in a payload.
	ErrEmpty = errors.New("rdb: collection without elements")
)

// UnsupportedError says that a value is of a type that can't be read: a module's, or one that a
// version after NewestVersion brought.
type UnsupportedError struct {
	Type   Type
	Module string // the module type's name, if it is one
	Key    []byte // in a file
}

func (e *UnsupportedError) Error() string {
	if e.Module != "" {
		return fmt.Sprintf("rdb: value of module type %s is not supported", e.Module)
	}
	return fmt.Sprintf("rdb: value type %s is not supported", e.Type)
}

// Kind is what a value is to a user.
type Kind uint8

// The kinds of values.
const (
	String Kind = iota + 1
	List
	Set
	Hash
	SortedSet
	Stream
)

// String returns the name that Redis's TYPE command has for the kind.
func (k Kind) String() string {
	switch k {
	case String:
		return "string"
	case List:
		return "list"
	case Set:
		return "set"
	case Hash:
		return "hash"
	case SortedSet:
		return "zset"
	case Stream:
		return "stream"
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// Type is the byte that says what kind of value follows and how it is encoded.
type Type uint8

const (
	typeString             Type = 0
	typeList               Type = 1
	typeSet                Type = 2
	typeZSet               Type = 3
	typeHash               Type = 4
	typeZSet2              Type = 5 // scores in binary
	typeModulePreGA        Type = 6
	typeModule2            Type = 7
	typeHashZipmap         Type = 9
	typeListZiplist        Type = 10
	typeSetIntset          Type = 11
	typeZSetZiplist        Type = 12
	typeHashZiplist        Type = 13
	typeListQuicklist      Type = 14 // nodes are ziplists
	typeStreamListpacks    Type = 15
	typeHashListpack       Type = 16
	typeZSetListpack       Type = 17
	typeListQuicklist2     Type = 18 // nodes are listpacks or one plain element
	typeStreamListpacks2   Type = 19 // adds first and deleted ids, and counters
	typeSetListpack        Type = 20
	typeStreamListpacks3   Type = 21 // adds the time when a consumer was last active
	typeHashMetadataPreGA  Type = 22 // fields expire; 7.4 release candidates, and something else in Valkey
	typeHashValkey         Type = 22 // fields expire; Valkey from 9.0 on
	typeHashListpackPreGA  Type = 23
	typeHashMetadata       Type = 24 // fields expire
	typeHashListpackExpiry Type = 25
)

var typeNames = [...]string{
	typeString: "string", typeList: "list", typeSet: "set", typeZSet: "zset", typeHash: "hash",
	typeZSet2: "zset-2", typeModulePreGA: "module-pre-ga", typeModule2: "module",
	typeHashZipmap: "hash-zipmap", typeListZiplist: "list-ziplist", typeSetIntset: "set-intset",
	typeZSetZiplist: "zset-ziplist", typeHashZiplist: "hash-ziplist",
	typeListQuicklist: "list-quicklist", typeStreamListpacks: "stream-listpacks",
	typeHashListpack: "hash-listpack", typeZSetListpack: "zset-listpack",
	typeListQuicklist2: "list-quicklist-2", typeStreamListpacks2: "stream-listpacks-2",
	typeSetListpack: "set-listpack", typeStreamListpacks3: "stream-listpacks-3",
	typeHashMetadataPreGA: "hash-metadata-pre-ga", typeHashListpackPreGA: "hash-listpack-ex-pre-ga",
	typeHashMetadata: "hash-metadata", typeHashListpackExpiry: "hash-listpack-ex",
}

// String returns a name for the type, after the one in Redis's sources.
func (t Type) String() string {
	if int(t) < len(typeNames) && typeNames[t] != "" {
		return typeNames[t]
	}
	return fmt.Sprintf("type(%d)", uint8(t))
}

// The bytes that say in a file that something other than a value follows.
const (
	opSlotInfo      = 244
	opFunction2     = 245
	opFunctionPreGA = 246
	opModuleAux     = 247
	opIdle          = 248
	opFreq          = 249
	opAux           = 250
	opResizeDB      = 251
	opExpireMs      = 252
	opExpireSeconds = 253
	opSelectDB      = 254
	opEOF           = 255
)

// A length starts with two bits that tell its form:
//
//	00xxxxxx                    6 bits
//	01xxxxxx xxxxxxxx           14 bits, big-endian
//	10000000 length:4           32 bits, big-endian
//	10000001 length:8           64 bits, big-endian
//	11xxxxxx                    not a length: a string in the encoding xxxxxx
const (
	length14       = 0x40
	length32       = 0x80
	length64       = 0x81
	lengthEncoding = 0xC0

	encodingInt8  = 0
	encodingInt16 = 1
	encodingInt32 = 2
	encodingLZF   = 3
)

// A node of a quicklist-2 says what it holds.
const (
	nodePlain  = 1 // one element
	nodePacked = 2 // a listpack
)

// What a module's value consists of. Each item starts with one of these, as a length.
const (
	moduleEOF    = 0
	moduleSigned = 1
	moduleUint   = 2
	moduleFloat  = 3
	moduleDouble = 4
	moduleString = 5
)
