package execute

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"kedis/internal/psync"
	"kedis/internal/resp"
	"kedis/server/access"
	"kedis/storage"
)

// Session is what commands know of a client. It belongs to whoever runs the client's commands; what
// other goroutines may ask stands in atomics or behind a mutex.
type Session struct {
	ID      int64
	Peer    Peer
	Reply   *resp.Writer
	Created time.Time
	Replica psync.Replica // what REPLCONF told

	State
	waiting
	membership
	watched
	profile
	shown
	ending

	listening subscriptions
	cache     cache
	worked    forWorker
}

// waiting is what the session's request waits for, or has waited for.
type waiting struct {
	wait       Wait                    // of the request that was executed last, when it waits
	waited     bool                    // the request has waited for other clients before
	kept       bool                    // it has kept what it does although it waits; see Invocation.Keep
	loads      int                     // how often it has waited for the disk
	waitsUntil time.Duration           // its deadline then; 0: none
	blocked    atomic.Pointer[Blocked] // while it waits for other clients
	paused     atomic.Bool             // it waits for the end of a pause
}

// membership is the session's part in the running batch.
type membership struct {
	member  int   // in the batch's list, plus 1; 0: none
	before  State // of before its first request in the batch
	Written int64 // position behind its last effects in the log

	depends     int64 // position that the composed replies depend on; 0: none
	uncommitted bool  // they depend on the running batch's commit, too
	replicas    int   // that have to have what the session is told; or ConfiguredReplicas

	// Refuse, when set, is what every write is answered with: the commit of what the session had
	// done before failed, and it is done again.
	Refuse error
}

// forWorker is what a reactor found out of a request that a worker goes on with.
type forWorker struct {
	ranked bool          // it counts the elements of a collection
	order  storage.Order // collections whose order it uses
	large  int64         // bytes that it goes over at once
}

// profile is what the client says of itself.
type profile struct {
	mu             sync.Mutex
	name           string
	libraryName    string
	libraryVersion string
}

// shown is what others may know of the session.
type shown struct {
	LastCommand atomic.Pointer[Command]
	LastActive  atomic.Int64 // Unix ms
	NoEvict     atomic.Bool  // CLIENT NO-EVICT
	NoTouch     atomic.Bool  // CLIENT NO-TOUCH
	muted       atomic.Bool  // CLIENT REPLY OFF
	user        atomic.Pointer[access.User]
	database    atomic.Int32
	protocol    atomic.Int32
	kind        atomic.Int32 // bits of SessionKind
	queued      atomic.Int32 // commands since MULTI; -1 outside
	queuedBytes atomic.Int64 // of their words
}

// ending is how the session comes to its end.
type ending struct {
	closing   atomic.Bool // when the replies so far have been sent
	suspended atomic.Bool // no more is executed
	hungUp    atomic.Bool // the client sends no more
	killed    atomic.Bool // by another client, for what its user may not do any longer, or see Abandon
	unwanted  atomic.Bool // nobody waits for what its request reads; see SetUnwanted
}

// State is what commands change of a session. It is put back when a commit fails.
type State struct {
	Database      int
	User          *access.User  // who it is; nil is nobody, who may do everything: see SignIn
	rules         *access.Rules // of the user: see takeRules
	Authenticated bool
	Transaction   Transaction
	Watching      bool // keys
	ReplyMode     ReplyMode
	Protocol      int  // 2 or 3; see SetProtocol
	cachingChosen bool // CLIENT CACHING was given, for the next command
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
	// Lane is the number of the reactor that has the connection.
	Lane() int
	// Send sends bytes outside of the order of requests and replies, unless the session is another
	// by then: wanted is asked last, where the session's replies are sent. The bytes stay as they
	// are: others may be sent the same.
	Send(b []byte, wanted func() bool)
	// Close closes the connection when what was replied so far has been sent.
	Close()
	// Unblock has the request go on whose wait was claimed.
	Unblock(b *Blocked)
	// Buffered is how many bytes wait to be parsed, and to be sent.
	Buffered() (query, output int)
}

// NewSession makes a session; ids are given by Clients.Add.
func NewSession(peer Peer, authenticated bool) *Session {
	s := &Session{Peer: peer, Reply: resp.NewWriter(2), Created: time.Now()}
	s.replicas = ConfiguredReplicas
	s.Authenticated = authenticated
	s.SetProtocol(2)
	s.queued.Store(-1)
	s.LastActive.Store(s.Created.UnixMilli())
	return s
}

// answered forgets what a request has waited for, and what CLIENT CACHING has chosen for it: the
// next one hasn't.
func (s *Session) answered(r *Request) {
	s.waited, s.kept, s.loads = false, false, 0
	if s.cachingChosen {
		s.endChoice(r)
	}
}

// noteActive says when the session's last command began, Unix ms. Storing for others takes longer
// than looking whether it is new.
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

// restore puts back the state of before a batch that failed. Keys that the session has stopped
// watching may have changed since.
func (s *Session) restore(state State) {
	watching := len(s.entries) > 0
	if state.Watching && !watching {
		s.dirty.Store(true)
	}
	state.Watching = watching
	s.user.Store(state.User)
	s.State = state
	s.database.Store(int32(state.Database))
	s.SetProtocol(state.Protocol)
	s.SetReplyMode(state.ReplyMode)
	s.PublishQueue()
}

// SetProtocol chooses the version of the protocol for what is replied from now on.
func (s *Session) SetProtocol(version int) {
	s.Protocol = version
	s.Reply.SetProtocol(version)
	s.protocol.Store(int32(version))
}

// SetReplyMode says which replies are sent from now on.
func (s *Session) SetReplyMode(mode ReplyMode) {
	s.ReplyMode = mode
	s.muted.Store(mode == ReplyOff)
}

// Muted reports whether the session is sent no replies, nor what comes in place of them, such as
// MONITOR's lines.
func (s *Session) Muted() bool { return s.muted.Load() }

// PublishQueue shows others how much is queued.
func (s *Session) PublishQueue() {
	if s.Transaction.Active {
		s.queued.Store(int32(len(s.Transaction.Queue)))
	} else {
		s.queued.Store(-1)
	}
	s.queuedBytes.Store(int64(s.Transaction.bytes))
}

// Closing tells that the connection is to be closed when the replies so far have been sent.
func (s *Session) Closing() bool { return s.closing.Load() }

// CloseAfterReply asks for that.
func (s *Session) CloseAfterReply() { s.closing.Store(true) }

// Killed reports whether the session was ended from outside. Nothing more is done for it.
func (s *Session) Killed() bool { return s.killed.Load() }

// SetUnwanted says whether a request that a worker runs, and that only reads, is to end with an
// error: nobody waits for what it reads.
func (s *Session) SetUnwanted(unwanted bool) { s.unwanted.Store(unwanted) }

// Abandon ends what is done for a session whose connection is closed while a worker has it.
func (s *Session) Abandon() {
	s.killed.Store(true)
	s.SetUnwanted(true)
	s.AbandonWait()
}

// Suspend ends the execution of the session's requests; see Suspended.
func (s *Session) Suspend() { s.suspended.Store(true) }

// Suspended tells that no more of the session's requests are to be executed: it has shut down the
// server, and its connection closes with all others.
func (s *Session) Suspended() bool { return s.suspended.Load() }

// Is tells whether a session is of a kind, or of any of several.
func (s *Session) Is(kind SessionKind) bool { return s.kind.Load()&int32(kind) != 0 }

// Idle gives back memory that a session which waits doesn't need.
func (s *Session) Idle() {
	if s.Reply.Len() == 0 {
		s.Reply.Release()
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

// SetLibraryName notes which library the client uses.
func (s *Session) SetLibraryName(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.libraryName = name
}

// SetLibraryVersion notes which version of it.
func (s *Session) SetLibraryVersion(version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.libraryVersion = version
}

// Status is what other goroutines may know of a session.
type Status struct {
	Name, LibraryName, LibraryVersion string

	Database, Protocol  int
	Queued, QueuedBytes int // since MULTI; Queued is -1 outside
	Watching            int // keys
	Blocked, Dirty      bool
	Deadline            bool // it is blocked, and not for ever
	NoEvict, NoTouch    bool
}

// Status tells how the session is now.
func (s *Session) Status() Status {
	status := Status{Database: int(s.database.Load()), Protocol: int(s.protocol.Load()),
		Queued: int(s.queued.Load()), QueuedBytes: int(s.queuedBytes.Load()), Watching: int(s.watching.Load()),
		Blocked: s.isBlocked(), Deadline: s.hasDeadline(), Dirty: s.dirty.Load(), NoEvict: s.NoEvict.Load(), NoTouch: s.NoTouch.Load()}
	status.Name, status.LibraryName, status.LibraryVersion = s.names()
	return status
}

// Dirty reports whether a watched key has changed.
func (s *Session) Dirty() bool { return s.dirty.Load() }

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

// Become makes the session one of a kind, and of no other.
func (s *Session) Become(kind SessionKind) { s.kind.Store(int32(kind)) }

// Mark sets or clears a session's kind.
func (s *Session) Mark(kind SessionKind, is bool) {
	if is {
		s.kind.Or(int32(kind))
	} else {
		s.kind.And(^int32(kind))
	}
}

// applyReplyMode takes the reply behind a mark back, as CLIENT REPLY asked for.
func (s *Session) applyReplyMode(mark int) {
	switch s.ReplyMode {
	case ReplyOff:
		s.Reply.Rewind(mark)
	case ReplySkipNext:
		s.Reply.Rewind(mark)
		s.ReplyMode = ReplySkip
	case ReplySkip:
		s.Reply.Rewind(mark)
		s.ReplyMode = ReplyOn
	}
}

// SessionBytes is about what a connection takes that waits: the session, its parser and gnet's
// share.
const SessionBytes = 1 << 10
