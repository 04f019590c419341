package command

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"kedis/internal/resp"
)

// Session is what commands know of a client. It belongs to whoever runs the client's commands; what
// other goroutines may ask stands in atomics or behind the mutex.
type Session struct {
	ID      int64
	Peer    Peer
	Reply   *resp.Writer
	Created time.Time

	State
	// Refuse, when set, is what every write is answered with: the commit of what the session had
	// done before failed, and it is done again.
	Refuse error

	listening subscriptions

	watched []watchedEntry
	dirty   atomic.Bool // a watched key has changed
	ranked  bool        // what goes to a worker counts the members of a sorted set
	large   int64       // bytes that what goes to a worker goes over at once
	place   int         // in the running batch's list, plus 1
	before  State       // of before its first request in the running batch
	written int64       // position behind its last effects in the log

	mu             sync.Mutex
	name           string
	libraryName    string
	libraryVersion string

	replica handshake // what REPLCONF told

	LastCommand atomic.Pointer[Command]
	LastActive  atomic.Int64 // Unix ms
	database    atomic.Int32
	queued      atomic.Int32 // commands since MULTI; -1 outside
	watching    atomic.Int32
	kind        atomic.Int32 // bits of SessionKind
	protocol    atomic.Int32
	queuedBytes atomic.Int64 // of the words of commands since MULTI
	noEvict     atomic.Bool
	noTouch     atomic.Bool
	blocked     atomic.Pointer[chan error] // while it waits in WAIT or WAITAOF; see block
	paused      atomic.Bool                // its request waits for the end of a pause
	closing     atomic.Bool
	suspended   atomic.Bool
	hungUp      atomic.Bool
}

// State is what commands change of a session. It is put back when a commit fails.
type State struct {
	Database      int
	Authenticated bool
	Transaction   transaction
	ReplyMode     ReplyMode
	Protocol      int // 2 or 3; see SetProtocol
}

// transaction is what MULTI began.
type transaction struct {
	active  bool
	aborted bool  // a command could not be queued
	flags   Flags // that any of the queued commands has
	lacked  Flags // that any of them lacks
	bytes   int   // of the words that are queued
	queue   []queuedCommand
}

type queuedCommand struct {
	command *Command
	args    [][]byte
}

// ReplyMode is what CLIENT REPLY set.
type ReplyMode int

// The modes of CLIENT REPLY.
const (
	ReplyOn ReplyMode = iota
	ReplyOff
	ReplySkipNext // set by SKIP: the next command's reply is left out
	ReplySkip     // it is the one
)

// SessionKind tells clients of one kind from those of another, as CLIENT LIST TYPE does.
type SessionKind int32

// The kinds of session.
const (
	KindMonitor SessionKind = 1 << iota
	KindReplica
	KindPrimary
	KindPubSub
)

// Peer is the other end of a session's connection. All methods may be called from any goroutine.
type Peer interface {
	RemoteAddress() string // "127.0.0.1:1234", or "/run/kedis.sock:0"
	LocalAddress() string
	OverUnixSocket() bool
	FileDescriptor() int
	// Send sends bytes outside of the order of requests and replies.
	Send(b []byte)
	// Close closes the connection when what was replied so far has been sent.
	Close()
	// Buffered is how many bytes wait to be parsed, and to be sent.
	Buffered() (query, output int)
}

// NewSession makes a session; ids are given by Clients.Add.
func NewSession(peer Peer, authenticated bool) *Session {
	s := &Session{Peer: peer, Reply: resp.NewWriter(2), Created: time.Now()}
	s.Authenticated = authenticated
	s.SetProtocol(2)
	s.queued.Store(-1)
	s.LastActive.Store(s.Created.UnixMilli())
	return s
}

// noteActive says when the session's last command began, Unix ms. Storing for others takes longer than looking whether it is new.
func (s *Session) noteActive(now int64) {
	if s.LastActive.Load() != now {
		s.LastActive.Store(now)
	}
}

// noteCommand says which command the session asked for last.
func (s *Session) noteCommand(command *Command) {
	if s.LastCommand.Load() != command {
		s.LastCommand.Store(command)
	}
}

// SetDatabase selects a database.
func (s *Session) SetDatabase(database int) {
	s.Database = database
	s.database.Store(int32(database))
}

// restore puts back the state of before a batch that failed.
func (s *Session) restore(state State) {
	s.State = state
	s.database.Store(int32(state.Database))
	s.SetProtocol(state.Protocol)
	s.publishQueue()
}

// SetProtocol chooses the version of the protocol for what is replied from now on.
func (s *Session) SetProtocol(version int) {
	s.Protocol = version
	s.Reply.SetProtocol(version)
	s.protocol.Store(int32(version))
}

func (s *Session) publishQueue() {
	if s.Transaction.active {
		s.queued.Store(int32(len(s.Transaction.queue)))
	} else {
		s.queued.Store(-1)
	}
	s.queuedBytes.Store(int64(s.Transaction.bytes))
}

// Closing tells that the connection is to be closed when the replies so far have been sent.
func (s *Session) Closing() bool { return s.closing.Load() }

// CloseAfterReply asks for that.
func (s *Session) CloseAfterReply() { s.closing.Store(true) }

// Suspended tells that no more of the session's requests are to be executed: it has shut down the
// server, and its connection closes with all others.
func (s *Session) Suspended() bool { return s.suspended.Load() }

// HangUp notes that the client sends no more. It can't be told from one that is gone, so nobody else is waited for on its
// behalf: WAIT is answered as if its time were over.
func (s *Session) HangUp() {
	s.hungUp.Store(true)
	s.unblock(nil)
}

// Is tells whether a session is of a kind, or of any of several.
func (s *Session) Is(kind SessionKind) bool { return s.kind.Load()&int32(kind) != 0 }

// Idle gives back memory that a session which waits doesn't need.
func (s *Session) Idle() {
	if s.Reply.Len() == 0 {
		s.Reply = resp.NewWriter(s.Protocol)
	}
}

// Name is what CLIENT SETNAME set.
func (s *Session) Name() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.name
}

// SetName gives the session a name; "" takes it away.
func (s *Session) SetName(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.name = name
}

func (s *Session) setLibraryName(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.libraryName = name
}

func (s *Session) setLibraryVersion(version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.libraryVersion = version
}

func (s *Session) names() (name, libraryName, libraryVersion string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.name, s.libraryName, s.libraryVersion
}

// Clients are all sessions of a server.
type Clients struct {
	mu   sync.Mutex
	last int64
	byID map[int64]*Session
}

// NewClients makes an empty list.
func NewClients() *Clients { return &Clients{byID: map[int64]*Session{}} }

// Add gives a session its id.
func (c *Clients) Add(s *Session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	s.ID = c.last
	c.byID[s.ID] = s
}

// Remove takes a session off the list.
func (c *Clients) Remove(s *Session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.byID, s.ID)
}

// Count is the number of sessions.
func (c *Clients) Count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.byID)
}

// All returns the sessions, in the order in which they came.
func (c *Clients) All() []*Session {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]*Session, 0, len(c.byID))
	for _, s := range c.byID {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b *Session) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// Get returns a session by its id; nil if there is none.
func (c *Clients) Get(id int64) *Session {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.byID[id]
}
