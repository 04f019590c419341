// Package binlog keeps the log of every write: a history's effects as one stream of RESP commands,
// in numbered segment files. It is the write-ahead log of the storage, and what replicas, migration
// and point-in-time restore read.
//
// A position is a number of bytes of that stream; the log gives each record one, and finds records
// by it. The package knows where commands begin and end and what SELECT does, and nothing else of
// what they mean. It knows no keys, no connections and no RocksDB: who applies a record, and up to
// where that has come, others tell it.
//
// It imports the standard library, hclog and golang.org/x/sys/unix, and nothing of this module.
// docs/binlog.md tells the whole story for operators; format.go draws the bytes.
package binlog

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
)

// Position is a place in a history's stream: the bytes before it. It equals Redis's replication
// offset.
type Position = int64

// Ancestor is a history that a later one branched off from.
type Ancestor struct {
	ID   string
	Left Position // up to here, included, both are the same stream
}

// History names a stream. Two histories share no id beyond the position where they part.
type History struct {
	ID        string     // 40 characters, hexadecimal where this package made it; Redis's replid
	Ancestors []Ancestor // oldest first; the log keeps the youngest 64
}

// NewID returns a random id for a history: 40 hexadecimal characters.
func NewID() string {
	var id [idBytes / 2]byte
	rand.Read(id[:]) // never fails: crypto/rand ends the process instead
	return hex.EncodeToString(id[:])
}

func (h History) check() error {
	if len(h.ID) != idBytes {
		return fmt.Errorf("binlog: the history id %q has not %d characters", h.ID, idBytes)
	}
	for _, a := range h.Ancestors {
		if len(a.ID) != idBytes || a.Left < 0 {
			return fmt.Errorf("binlog: the ancestor %q left at %d is not valid", a.ID, a.Left)
		}
	}
	return nil
}

// youngest returns the history with no more ancestors than a header holds.
func (h History) youngest() History {
	if surplus := len(h.Ancestors) - maxAncestors; surplus > 0 {
		h.Ancestors = h.Ancestors[surplus:]
	}
	return h
}

// SyncPolicy says when what was appended becomes durable, as Redis's appendfsync does.
type SyncPolicy int

// The policies. Under each, a killed process loses nothing that Append returned for: only a power
// cut can.
const (
	Always      SyncPolicy = 1 // the caller of Append calls Sync before it replies; readers get only what is synced
	EverySecond SyncPolicy = 2 // the log syncs once a second
	Never       SyncPolicy = 3 // the operating system decides
)

// String returns the policy's name in the configuration.
func (p SyncPolicy) String() string {
	switch p {
	case Always:
		return "always"
	case EverySecond:
		return "everysec"
	case Never:
		return "no"
	}
	return fmt.Sprintf("SyncPolicy(%d)", int(p))
}

const (
	defaultSegmentBytes = 64 << 20
	leastSegmentBytes   = headerBytes + 4096
)

// Options are a log's settings. The functions are called often, from any goroutine, so that
// settings change live.
type Options struct {
	Directory      string               // holds this log and nothing else
	SegmentBytes   int64                // of a segment file; 0 is 64 MB
	Sync           func() SyncPolicy    // nil is EverySecond
	RetentionBytes func() int64         // Purge leaves at least so many bytes of log; nil is 0
	RetentionAge   func() time.Duration // Purge leaves records younger than this; nil is 0
	Logger         hclog.Logger         // nil logs nothing
	Room           func() int64         // bytes of the disk that segments leave to what Reclaim does; nil is 0
	// Reclaim brings data to RocksDB's files when the disk is full, so that more of the log may be
	// removed, and returns the position that they have reached, also when it fails. It may take
	// long. nil does nothing.
	Reclaim    func() (persisted Position, err error)
	Now        func() time.Time // the clock of the records; nil is time.Now
	Persisted  Position         // Open: known to be durable from elsewhere; a log that ends below is refused, not cut
	files      files            // nil is the disk
	retryEvery time.Duration    // how long after a failure it is tried again; 0 is a second
	syncEvery  time.Duration    // EverySecond's second; 0 is a second
}

func (o Options) withDefaults() Options {
	if o.SegmentBytes == 0 {
		o.SegmentBytes = defaultSegmentBytes
	}
	o.SegmentBytes = max(o.SegmentBytes, leastSegmentBytes)
	if o.Sync == nil {
		o.Sync = func() SyncPolicy { return EverySecond }
	}
	if o.RetentionBytes == nil {
		o.RetentionBytes = func() int64 { return 0 }
	}
	if o.RetentionAge == nil {
		o.RetentionAge = func() time.Duration { return 0 }
	}
	if o.Room == nil {
		o.Room = func() int64 { return 0 }
	}
	if o.Logger == nil {
		o.Logger = hclog.NewNullLogger()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.files == nil {
		o.files = disk{}
	}
	if o.retryEvery == 0 {
		o.retryEvery = time.Second
	}
	if o.syncEvery == 0 {
		o.syncEvery = time.Second
	}
	return o
}

var (
	// ErrNoLog is Open's answer when the directory is absent or holds no log.
	ErrNoLog = errors.New("binlog: there is no log")
	// ErrClosed is the answer to whatever is asked of a closed log or reader.
	ErrClosed = errors.New("binlog: closed")
	// ErrPurged is NewReader's answer for a position that the log no longer holds.
	ErrPurged = errors.New("binlog: position is purged")
	// ErrBeyondEnd is returned for a position that the log has not reached.
	ErrBeyondEnd = errors.New("binlog: position is ahead of the log")
	// ErrLater says that a range would end at a time before the one at which it begins.
	ErrLater = errors.New("binlog: the position is later than the time")
	// ErrNotBorder is NewReader's answer for a position inside a command.
	ErrNotBorder = errors.New("binlog: position is not between two commands")
	// ErrTooLarge is Append's answer for a payload above MaxPayload.
	ErrTooLarge = errors.New("binlog: record is too large")
	// ErrCorrupt is what every CorruptError wraps.
	ErrCorrupt = errors.New("corrupt log")
)

// CorruptError says where a log is damaged and why it is not simply cut there.
type CorruptError struct {
	Path     string   // of the segment file
	Offset   int64    // in the file
	Position Position // of the stream, where the sound part ends
	Durable  Position // what is known to have been durable, when that lies above Position, otherwise 0
	Reason   string
}

// Error names the file and the offset, and the command that repairs when one is needed.
func (e *CorruptError) Error() string {
	text := fmt.Sprintf("binlog: corrupt log: %s at offset %d (position %d): %s", e.Path, e.Offset, e.Position, e.Reason)
	switch {
	case e.Reason == endsHere:
		text += fmt.Sprintf("; all up to position %d had been durable, so what follows is missing, which no repair brings back", e.Durable)
	case e.Durable > e.Position:
		text += fmt.Sprintf("; all up to position %d had been durable, so this is damage, not the torn end of a crash; "+
			"`kedis binlog verify %s` shows it, `kedis binlog repair` with the same directory cuts the log there", e.Durable, filepath.Dir(e.Path))
	}
	return text
}

// endsHere is the reason why a log of sound records is corrupt all the same.
const endsHere = "the log ends here"

// Unwrap makes errors.Is(err, ErrCorrupt) true.
func (e *CorruptError) Unwrap() error { return ErrCorrupt }

// Log is an open log. Append, Branch and Close are called by one goroutine at a time; all else by
// any, at any time.
//
// Locks, in the order in which they are taken: purging, syncing, mu, waking. Only Append, Branch
// and Close are on the way of a write, and they take mu alone, under which nothing waits for a
// sync.
type Log struct {
	options Options
	lock    *os.File // the directory, locked against other processes

	reached
	refusals

	mu sync.Mutex // of the three that follow
	contents
	spares
	fault

	appending
	syncs
	waiters
	purging sync.Mutex
	damage  atomic.Pointer[CorruptError] // that a reader has met last

	attention chan struct{} // wakes the keeper
	stop      chan struct{}
	running   sync.WaitGroup
}

// reached is how far the log has come.
type reached struct {
	written atomic.Int64 // Position; stored when the bytes are in the file
	durable atomic.Int64 // never above written
}

// refusals say why a write would be refused, to those who don't take the lock.
type refusals struct {
	refusal atomic.Pointer[error]
	awaited atomic.Bool // the next segment isn't there yet, and room is being made for it
	roomy   atomic.Bool // refusal is for want of the next segment only: the current one has room
}

// contents are what the log holds, and for whom.
type contents struct {
	closed   bool
	settled  bool // no id's positions are in doubt: the last stop was clean, or Branch was called since
	segments []*segment
	current  *segment // the last of segments
	database int
	history  History
	pins     map[*pin]struct{}
}

// spares is how the next segment is made.
type spares struct {
	spare      *segment    // nil while it is being made
	spoiled    *segment    // a spare in which a beginning may stand that nothing follows; to be removed
	spareErr   error       // why it could not be made, or only a small one
	spared     *sync.Cond  // spare or spareErr has changed, or the log was closed or is broken
	roomWanted atomic.Bool // GiveRoom was called
	reclaiming bool        // room is being made
	warned     time.Time   // of that; for who makes it
	reclaims   int         // how often it was, since the last segment was made
	persisted  Position    // what Reclaim has returned last
}

// fault is what is wrong with the current segment.
type fault struct {
	broken   error // why it could not be written or synced; nothing is appended until it is repaired
	unsynced bool  // by a sync: pages may be lost, so all that is not durable must be written again
}

// appending is the memory of Append, which nobody else touches.
type appending struct {
	header [recordBytes]byte
	vector [][]byte
}

// syncs is how what was written comes to the disk.
type syncs struct {
	syncing   sync.Mutex
	tail      atomic.Pointer[segment] // the first segment that may hold something unsynced; stored under syncing
	syncCount atomic.Int64
	syncTook  atomic.Int64 // time.Duration
}

// waiters is who waits for something to be written or synced.
type waiters struct {
	waking   sync.Mutex
	readers  map[*Reader]struct{} // those that wait
	waiting  atomic.Int32         // len(readers), so that Append need not take the lock
	nextSync chan struct{}        // closed by the next sync; nil when nobody asked for it
}

// maxStart is the greatest position at which a log begins. Positions behind it don't overflow,
// whatever is written.
const maxStart Position = 1 << 62

// Create makes a new log in a directory, which may exist but must hold no log. The log begins at a
// position of a history, with a database selected. It is durable when Create returns.
func Create(o Options, h History, at Position, database int) (*Log, error) {
	o = o.withDefaults()
	if err := h.check(); err != nil {
		return nil, err
	}
	if at < 0 || at > maxStart || database < 0 {
		return nil, fmt.Errorf("binlog: a log can't begin at position %d with database %d", at, database)
	}
	if err := os.MkdirAll(o.Directory, 0o750); err != nil {
		return nil, fmt.Errorf("binlog: %w", err)
	}
	lock, err := lockDirectory(o.Directory)
	if err != nil {
		return nil, err
	}
	first, err := createFirst(o, beginning{history: h.youngest(), start: at, durable: at, database: database})
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	l := newLog(o, lock, []*segment{first}, database)
	l.settled = true
	l.written.Store(at)
	l.durable.Store(at)
	l.run()
	return l, nil
}

// createFirst makes the segment of a new log. It gets its name last, so that a directory holds a
// whole log or none.
func createFirst(o Options, g beginning) (*segment, error) {
	numbers, err := listSegments(o.Directory)
	if err != nil {
		return nil, err
	}
	if len(numbers) > 0 {
		return nil, fmt.Errorf("binlog: %s already holds a log", o.Directory)
	}
	if err := removeMark(o); err != nil {
		return nil, err
	}
	g.timeMs = o.Now().UnixMilli()
	s, err := createSegment(o.files, filepath.Join(o.Directory, "new"), 1, o.SegmentBytes)
	if err != nil {
		return nil, err
	}
	path := segmentPath(o.Directory, 1)
	err = s.begin(g)
	if err == nil {
		err = s.file.sync()
	}
	if err == nil {
		err = os.Rename(s.path, path)
	}
	if err != nil {
		return nil, fmt.Errorf("binlog: new log: %w", errors.Join(err, s.discard(o.files)))
	}
	s.path = path
	err = errors.Join(o.files.syncDirectory(o.Directory), o.files.syncDirectory(filepath.Dir(o.Directory)))
	if err != nil {
		return nil, fmt.Errorf("binlog: new log: %w", errors.Join(err, s.discard(o.files)))
	}
	return s, nil
}

// newLog wires a log whose segments are all durable. The last one is open for writing.
func newLog(o Options, lock *os.File, segments []*segment, database int) *Log {
	last := segments[len(segments)-1]
	l := &Log{
		options:   o,
		lock:      lock,
		contents:  contents{segments: segments, current: last, database: database, history: last.history, pins: make(map[*pin]struct{})},
		waiters:   waiters{readers: make(map[*Reader]struct{})},
		attention: make(chan struct{}, 1),
		stop:      make(chan struct{}),
	}
	l.spared = sync.NewCond(&l.mu)
	l.tail.Store(last)
	return l
}

// run starts what goes on in the background.
func (l *Log) run() {
	l.running.Go(l.keep)
	l.running.Go(l.syncRegularly)
	l.alert()
}

// Position returns the end of the log: what Append returned last.
func (l *Log) Position() Position { return l.written.Load() }

// Durable returns the position up to which the log survives a power cut.
func (l *Log) Durable() Position { return l.durable.Load() }

// Synced returns a channel that is closed when Durable has grown.
func (l *Log) Synced() <-chan struct{} {
	l.waking.Lock()
	defer l.waking.Unlock()
	if l.nextSync == nil {
		l.nextSync = make(chan struct{})
	}
	return l.nextSync
}

// tellSynced closes the channel that Synced has returned.
func (l *Log) tellSynced() {
	l.waking.Lock()
	defer l.waking.Unlock()
	if l.nextSync != nil {
		close(l.nextSync)
		l.nextSync = nil
	}
}

// Visible returns the position up to which readers get records: Durable under Always, otherwise
// Position.
func (l *Log) Visible() Position {
	if l.options.Sync() == Always {
		return l.durable.Load()
	}
	return l.written.Load()
}

// Database returns the database that is selected at the end of the log.
func (l *Log) Database() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.database
}

// History returns the history that the end of the log belongs to. Its ancestors must not be
// changed.
func (l *Log) History() History {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.history
}

// First returns the position at which the log begins: nothing before it can be read.
func (l *Log) First() Position {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.segments[0].start
}

// Stats are figures of a log for people.
type Stats struct {
	Segments int
	Bytes    int64 // in use on disk; the last segment and the one made ahead have more reserved
	First    Position
	Pinned   Position // the lowest that a reader or a Hold keeps; the log's end when there is none
	Readers  int      // and Holds
	Syncs    int64
	LastSync time.Duration // how long the last one took
}

// Stats returns the log's figures.
func (l *Log) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	stats := Stats{
		Segments: len(l.segments),
		Bytes:    l.bytesLocked(),
		First:    l.segments[0].start,
		Pinned:   l.written.Load(),
		Readers:  len(l.pins),
		Syncs:    l.syncCount.Load(),
		LastSync: time.Duration(l.syncTook.Load()),
	}
	for p := range l.pins {
		stats.Pinned = min(stats.Pinned, p.at.Load())
	}
	return stats
}

func (l *Log) bytesLocked() int64 {
	var bytes int64
	for _, s := range l.segments {
		bytes += s.end.Load()
	}
	return bytes
}

// Ready returns nil, or why a write would be refused now. It is cheap. It turns to nil by itself
// when the cause is gone.
func (l *Log) Ready() error {
	if refusal := l.refusal.Load(); refusal != nil {
		return *refusal
	}
	return nil
}

// AwaitsRoom reports whether room for the next segment is being made. Writers had better wait a
// little: without that segment they fail.
func (l *Log) AwaitsRoom() bool { return l.awaited.Load() }

// Usable is Ready for what is to be written on a full disk too, since it makes room. It returns nil
// also when the next segment can't be made, as long as the current one may have room; Append fails
// when it hasn't.
func (l *Log) Usable() error {
	if l.roomy.Load() {
		return nil
	}
	return l.Ready()
}

// Close makes the log durable, marks it as cleanly stopped, and ends it. Readers that wait get
// ErrClosed.
func (l *Log) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return ErrClosed
	}
	l.closed = true
	l.publish()
	l.spared.Broadcast()
	l.mu.Unlock()
	close(l.stop)
	l.running.Wait()
	l.wake()

	l.purging.Lock() // who takes the files over must not see any go
	defer l.purging.Unlock()
	l.syncing.Lock()
	defer l.syncing.Unlock()
	err := l.syncLocked()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil && l.broken != nil {
		err = l.broken // the last record may be there in part, which is for the next Open to look at
	}
	if err == nil {
		l.giveBack(l.current) // on a full disk it is what the mark needs
	}
	if err == nil && l.settled {
		err = writeMark(l.options, mark{position: l.written.Load(), id: l.history.ID})
	}
	return errors.Join(err, l.closeFiles())
}

func (l *Log) closeFiles() error {
	var err error
	for s := l.tail.Load(); s != nil; s = s.next.Load() {
		err = errors.Join(err, s.file.Close())
	}
	for _, s := range []*segment{l.spare, l.spoiled} {
		if s != nil {
			err = errors.Join(err, s.discard(l.options.files))
		}
	}
	l.spare, l.spoiled = nil, nil
	if err = errors.Join(err, l.lock.Close()); err != nil {
		return fmt.Errorf("binlog: close: %w", err)
	}
	return nil
}
