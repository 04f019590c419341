package layout

import (
	"encoding/binary"
	"fmt"
	"math"
)

// State is what the data in RocksDB is, as of a position of the log. It is written in the same
// batch as the data:
//
//	| position:8 | log directory:8 | next id:8 | next namespace:4 | databases:4 | Database … |
type State struct {
	Position      int64  // of the log's stream: everything before is in RocksDB, nothing after
	LogDirectory  uint64 // the number of the log's directory
	NextID        uint64 // element ids from here on are unused
	NextNamespace uint32
	Databases     []Database // only those with a namespace, by number
}

// Libraries is the number of the database that no client can select: its keys are the names of the
// libraries of functions, its values their sources.
const Libraries = math.MaxUint32

// Database is a database's namespace and its counters:
//
//	| number:4 | namespace:4 | keys:8 | keys that expire:8 |
type Database struct {
	Number    uint32
	Namespace uint32
	Keys      int64
	Expires   int64
}

const (
	stateHeader  = 32
	databaseSize = 24
)

// Append appends the record's value.
func (s *State) Append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(s.Position))
	dst = binary.BigEndian.AppendUint64(dst, s.LogDirectory)
	dst = binary.BigEndian.AppendUint64(dst, s.NextID)
	dst = binary.BigEndian.AppendUint32(dst, s.NextNamespace)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(s.Databases)))
	for _, d := range s.Databases {
		dst = binary.BigEndian.AppendUint32(dst, d.Number)
		dst = binary.BigEndian.AppendUint32(dst, d.Namespace)
		dst = binary.BigEndian.AppendUint64(dst, uint64(d.Keys))
		dst = binary.BigEndian.AppendUint64(dst, uint64(d.Expires))
	}
	return dst
}

// DecodeState reads such a value.
func DecodeState(b []byte) (State, error) {
	if len(b) < stateHeader || uint64(len(b)-stateHeader) != uint64(binary.BigEndian.Uint32(b[28:]))*databaseSize {
		return State{}, fmt.Errorf("%w: state of %d bytes", ErrCorrupt, len(b))
	}
	s := State{
		Position:      int64(binary.BigEndian.Uint64(b)),
		LogDirectory:  binary.BigEndian.Uint64(b[8:]),
		NextID:        binary.BigEndian.Uint64(b[16:]),
		NextNamespace: binary.BigEndian.Uint32(b[24:]),
	}
	for b = b[stateHeader:]; len(b) > 0; b = b[databaseSize:] {
		s.Databases = append(s.Databases, Database{
			Number:    binary.BigEndian.Uint32(b),
			Namespace: binary.BigEndian.Uint32(b[4:]),
			Keys:      int64(binary.BigEndian.Uint64(b[8:])),
			Expires:   int64(binary.BigEndian.Uint64(b[16:])),
		})
	}
	return s, nil
}
