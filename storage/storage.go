// Package storage is what the data types mean.
//
// Each type has a file, and a row in the table of types (DataType) that says what commands on keys
// of any type need to know of it. Records are read and written through package storage/engine,
// whose Store and Txn are part of those here: it decides where a record is, and knows no type.
//
// The package may import what lies below it: other packages of storage, ttl, and internal packages.
// It knows nothing of commands, connections or replies.
package storage

import (
	"errors"

	"kedis/storage/engine"
	"kedis/storage/touches"
)

// Errors that commands turn into replies.
var (
	ErrWrongType = errors.New("storage: operation against a key holding the wrong kind of value")
	ErrDiverged  = errors.New("storage: what the primary has carried out fails here")
)

// The errors of the engine.
var (
	ErrBudget      = engine.ErrBudget
	ErrCounting    = engine.ErrCounting
	ErrCold        = engine.ErrCold
	ErrFormat      = engine.ErrFormat
	ErrInDoubt     = engine.ErrInDoubt
	ErrIncomplete  = engine.ErrIncomplete
	ErrInterrupted = engine.ErrInterrupted
	ErrUnwanted    = engine.ErrUnwanted
)

// What callers know of the engine has its names here too.
type (
	Log             = engine.Log
	Mode            = engine.Mode
	Touches         = engine.Touches
	Savepoint       = engine.Savepoint
	View            = engine.View
	Iterator        = engine.Iterator
	IteratorOptions = engine.IteratorOptions
	Counters        = engine.Counters
	Order           = engine.Order
	Filters         = engine.Filters

	KeyEvent  = engine.KeyEvent
	KeyEvents = engine.KeyEvents
	EventName = engine.EventName

	Prefetch = engine.Prefetch
	ColdWalk = engine.ColdWalk
	Access   = engine.Access
)

// The ways in which requests begin.
const (
	AccessNothing = engine.AccessNothing
	AccessKey     = engine.AccessKey
	AccessElement = engine.AccessElement
	AccessEach    = engine.AccessEach
	AccessFirst   = engine.AccessFirst
	AccessLast    = engine.AccessLast

	PrefetchBatch = engine.PrefetchBatch
)

// The accesses that are noted.
const (
	TouchesNothing = engine.TouchesNothing
	TouchesNew     = engine.TouchesNew
	TouchesAll     = engine.TouchesAll
)

// PersistedIn is engine.PersistedIn.
func PersistedIn(directory string) (position int64, log uint64, err error) {
	return engine.PersistedIn(directory)
}

// Options tell how a store works. Functions are asked each time, so that they can change live.
type Options struct {
	engine.Options
	Limits Limits
}

// Store is an open data directory.
type Store struct {
	*engine.Store
	// Touches are notes of how keys are used, as far as somebody asks for them.
	Touches touches.Notes
	limits  Limits

	departures departures
}

// Open opens a data directory, or makes one: see engine.Open.
func Open(o Options) (*Store, error) {
	s, err := engine.Open(o.Options)
	if err != nil {
		return nil, err
	}
	return &Store{Store: s, limits: o.Limits}, nil
}

// Commit commits a transaction: see engine.Store.Commit.
func (s *Store) Commit(t *Txn) error { return s.Store.Commit(&t.Txn) }
