// Package replication keeps servers of one history in step: the primary's side sends snapshots and
// then the log, the replica's side is a state machine that takes them.
//
// It knows positions, histories and Redis's replication protocol. It knows no command: what a
// stream's commands do, a StreamApplier says, and what the server around it does for it, a Host. It
// may import storage, storage/layout, storage/rdb, storage/fieldtimes, binlog and internal
// packages. docs/replication.md tells the whole story.
//
// Sources: Redis's documentation of replication, and what redis-server 7.0 sends and takes.
package replication

import (
	"context"
	"fmt"
	"math"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"kedis/binlog"
	"kedis/internal/config"
	"kedis/internal/resp"
	"kedis/internal/secure"
	"kedis/storage"
)

// Host is the server as replication sees it. Its methods may be called from any goroutine.
type Host interface {
	// Log is the log that the store is attached to.
	Log() *binlog.Log
	// NewLog makes a log for data that a full synchronization brings.
	NewLog(h binlog.History, at int64, database int) (log *binlog.Log, directory uint64, err error)
	// ForkLog makes a log that is the server's up to a position.
	ForkLog(at int64) (log *binlog.Log, directory uint64, err error)
	// AdoptLog makes one of these the server's log, and ends the former; DiscardLog throws it away
	// instead.
	AdoptLog(log *binlog.Log)
	DiscardLog(log *binlog.Log, directory uint64) error
	// NoteParted notes that what the log holds behind a position isn't the primary's: it is kept
	// when other data replace the server's.
	NoteParted(at int64) error
	// ForgetParted forgets that: the log is the primary's as far as it goes, or the server follows
	// nobody any more.
	ForgetParted() error
	// RemoveFormerLogs removes what AdoptLog has ended.
	RemoveFormerLogs() error

	// NewStreamApplier makes what applies a stream that comes over a connection, in which a
	// database is selected.
	NewStreamApplier(conn net.Conn, database int) StreamApplier
	// Exclude waits until no command runs, and keeps all out until admit is called. That may take
	// as long as a script does; admit is nil when ctx is done before.
	Exclude(ctx context.Context) (admit func())
	// SetReplica says whether the server takes no writes, and whether its data may be old.
	SetReplica(replica, stale bool)
	// ChangePrimary ends the waits of clients: a replica is about to follow another server.
	ChangePrimary()
	// HoldWrites has whoever wants to write wait until ReleaseWrites. What has begun goes on.
	HoldWrites()
	ReleaseWrites()
	// RefuseWrites keeps writes out for a reason; nil lets them in again.
	RefuseWrites(reason error)
	// SetGoodReplicas says how many replicas keep up.
	SetGoodReplicas(n int)
	// ChangesData reports whether a command of a stream may change data.
	ChangesData(args [][]byte) bool
	// ForgetWatches makes whoever watches keys see that the data is another.
	ForgetWatches()
	// PrepareLibraries loads libraries of functions by their sources. adopt makes them the only
	// ones; it is called while no command runs.
	PrepareLibraries(sources [][]byte) (adopt func(), err error)
}

// StreamApplier applies a primary's stream and puts its bytes into the log, in one commit. All
// methods but Stop are for one goroutine.
type StreamApplier interface {
	// Apply executes a command that came as the bytes raw; it may commit what came before.
	Apply(args [][]byte, raw []byte) error
	// Pending is how many bytes Commit would commit.
	Pending() int
	Commit() error
	// Stop sees to it that nothing is committed after it has returned.
	Stop()
	// Close gives back what the applier holds.
	Close()
}

// Options are what a Node needs.
type Options struct {
	Store     *storage.Store
	Host      Host
	Config    *config.Config
	TLS       *secure.Keeper // for connections to a primary
	Directory string         // for the role and temporary snapshots
	Version   string
	Logger    hclog.Logger
}

// Node is a server's part in replication. Its methods may be called from any goroutine.
type Node struct {
	Options

	// roles is held while the role changes, while a replica's data or history is exchanged, and
	// while a primary says something in the log of its own accord. Whoever holds it may wait for
	// the disk. It comes before mu.
	roles      sync.Mutex
	former     *link // the last one that was left; its goroutine may not have ended yet
	pinged     time.Time
	unsettled  bool    // the store names another log than its files do: that of a full synchronization, or one that was cut
	configured *string // what the configuration said of the role when the server started

	// mu is never held while somebody waits: reactors take it for INFO, ROLE and PSYNC.
	mu     sync.Mutex
	feeds  map[*feed]struct{}
	fed    atomic.Int32  // how many those are, for who can't wait for mu
	online atomic.Int32  // of them, those that get the stream
	acks   chan struct{} // closed and replaced when a replica has acknowledged something

	// Changed by who holds roles and mu, read by who holds either.
	link       *link     // nil on a primary
	failover   *failover // nil if none is under way
	unbranched bool      // a primary that has to begin a new history before it writes, and could not yet
	stopped    bool

	counters         counters
	acknowledgements acknowledgements
	times            timesKnown
	sentinels        sentinels

	running   sync.WaitGroup
	recovered chan struct{} // closed by Start: no link begins before that
	stop      chan struct{}
}

// New makes the part of a server that is a primary, until TakeRole says otherwise.
func New(o Options) *Node {
	return &Node{Options: o, feeds: map[*feed]struct{}{}, acks: make(chan struct{}),
		acknowledgements: acknowledgements{more: make(chan struct{}, 1)}, recovered: make(chan struct{}), stop: make(chan struct{})}
}

// TakeRole takes up the role that the server had, or else the configured one. It comes before
// clients: while the server is loading they see the role that it is going to have.
func (n *Node) TakeRole() error {
	n.clearUp()
	to, err := n.loadRole()
	if err != nil {
		return err
	}
	n.roles.Lock()
	defer n.roles.Unlock()
	if to != nil {
		n.follow(*to)
	}
	n.Config.OnRewrite("replicaof", n.followFile)
	n.Config.OnChange("min-replicas-max-lag", func() error {
		n.change(n.countGood)
		return nil
	})
	return nil
}

// Start begins with what the role asks for. It comes after TakeRole and recovery, and before
// clients whose commands touch the data. A primary begins a new history, unless it was created by
// this start: after a crash others may have seen more of the former one than the server still has,
// and after a clean stop a copy of the data directory may go on with it, too. When the disk has no
// room for that, reads are served, and writes are refused until it has.
func (n *Node) Start(created bool) {
	n.roles.Lock()
	defer n.roles.Unlock()
	if n.link == nil && !created {
		n.startHistory()
	}
	close(n.recovered)
	n.running.Go(n.tick)
}

// Stop ends all links. It is called once, and after a while it gives up what still goes on, which
// the disk may keep for ever. Nothing is committed by the part any more when it returns true.
func (n *Node) Stop(within time.Duration) (stopped bool) {
	ended := make(chan struct{})
	go func() {
		n.end()
		close(ended)
	}()
	select {
	case <-ended:
		return true
	case <-time.After(within):
		return false
	}
}

// end is Stop without a bound.
func (n *Node) end() {
	n.roles.Lock()
	n.change(func() { n.stopped = true })
	if n.link != nil {
		n.link.end()
	}
	if n.failover != nil {
		n.failover.cancel()
	}
	n.disconnect()
	n.roles.Unlock()
	close(n.stop)
	n.running.Wait()
}

// change changes what mu protects. For the role, roles has to be held.
func (n *Node) change(f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f()
}

// startHistory branches, or leaves that for later. It needs roles to be held.
func (n *Node) startHistory() {
	err := n.branch()
	switch {
	case err != nil && !n.unbranched:
		n.Logger.Error("reads are served, but nothing can be written yet", "error", err)
	case err == nil && n.unbranched:
		n.Logger.Info("writes are accepted")
	}
	n.change(func() { n.unbranched = err != nil })
	n.Host.RefuseWrites(err)
}

// branch begins a new history at the end of the log.
func (n *Node) branch() error {
	if err := n.settle(); err != nil {
		return err
	}
	id := binlog.NewID()
	err := n.Store.BetweenCommits(func() error { return n.Host.Log().Branch(id) })
	if err != nil {
		return fmt.Errorf("replication: beginning a new history: %w", err)
	}
	n.Logger.Info("a new history begins", "id", id, "position", n.Host.Log().Position())
	return nil
}

// Follow makes the server a replica. It returns before there is a connection; changed is false when
// the server follows that primary already.
func (n *Node) Follow(host string, port int) (changed bool, err error) {
	to := target{host, port}
	n.roles.Lock()
	defer n.roles.Unlock()
	if n.failover != nil {
		return false, errFailingOver
	}
	if n.link != nil && n.link.target.is(to) {
		return false, nil
	}
	if err := n.saveRole(&to); err != nil {
		return false, err
	}
	n.follow(to)
	return true, nil
}

// follow needs roles to be held.
func (n *Node) follow(to target) {
	ctx, cancel := context.WithCancel(context.Background())
	l := &link{node: n, target: to, ctx: ctx, cancel: cancel, done: make(chan struct{}), down: time.Now()}
	l.set(Connect)
	another := n.link != nil && !n.link.target.is(to)
	n.leaveFor(l)
	former := n.former
	n.Host.SetReplica(true, true)
	if another {
		n.Host.ChangePrimary()
	}
	n.change(func() { n.unbranched = false }) // it goes on in its primary's
	n.Host.RefuseWrites(nil)
	n.disconnect()
	n.Logger.Info("the server is a replica", "primary", to.String())
	if n.stopped { // the next start follows
		l.end()
		close(l.done)
		return
	}
	n.running.Go(func() { l.run(former) })
}

// leaveFor ends the link, if there is one, and puts another, or none, in its place. It may take its
// time to clear up: whatever comes next, a primary's time in between included, no other link begins
// before that. It needs roles to be held.
func (n *Node) leaveFor(next *link) {
	if n.link != nil {
		n.link.end()
		n.former = n.link
	}
	n.change(func() { n.link = next })
}

// Promote makes the server a primary, of a new history that begins where the former one is left.
// The data that it has adopted from its primary are on the disk then.
func (n *Node) Promote() error {
	n.roles.Lock()
	defer n.roles.Unlock()
	if n.failover != nil {
		return errFailingOver
	}
	if n.link == nil {
		return nil
	}
	return n.promote()
}

// promote needs roles to be held, on a replica.
func (n *Node) promote() error {
	pending := n.unsettled
	if err := n.settle(); err != nil {
		return err
	}
	if pending {
		defer n.removeFormerLogs() // writes needn't wait for that
	}
	n.link.end()
	if err := n.branch(); err != nil {
		n.follow(n.link.target)
		return err
	}
	if err := n.saveRole(nil); err != nil {
		n.follow(n.link.target)
		return err
	}
	n.leaveFor(nil)
	n.disconnect()
	n.Host.SetReplica(false, false)
	n.forgetParted()
	n.Logger.Info("the server is a primary")
	return nil
}

// forgetParted forgets what a full synchronization that broke off has noted: the server goes on
// with data of its own, and isn't parted from anybody.
func (n *Node) forgetParted() {
	if err := n.Host.ForgetParted(); err != nil {
		n.Logger.Warn("what the server writes from now on may be kept needlessly when others' data replace it", "error", err)
	}
}

// What is told to whoever wants to follow the server.
const (
	errUnbranched      = resp.Error("NOMASTERLINK Can't SYNC while the disk has no room for a new history")
	errNotConnected    = resp.Error("NOMASTERLINK Can't SYNC while not connected with my master")
	errPrimarysHistory = resp.Error("ERR a replica's history is its primary's")
	errNotNow          = resp.Error("NOMASTERLINK Can't SYNC while failing over")
)

// Sendable is nil, or why a replica has to come back later.
func (n *Node) Sendable() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.failover != nil:
		return errNotNow
	case n.link != nil && n.link.State() != Connected:
		return errNotConnected
	case n.unbranched:
		return errUnbranched
	}
	return nil
}

// HasReplicas reports whether a replica is fed.
func (n *Node) HasReplicas() bool { return n.fed.Load() > 0 }

// disconnect ends all feeds, so that replicas ask anew. It needs mu not to be held.
func (n *Node) disconnect() {
	for _, f := range n.sorted(false) {
		f.close()
	}
}

const tickEvery = time.Second

// tick looks after what time brings: PINGs, replicas that are silent or too far behind.
func (n *Node) tick() {
	ticker := time.NewTicker(tickEvery)
	defer ticker.Stop()
	for {
		select {
		case <-n.stop:
			return
		case now := <-ticker.C:
			n.inspect(now)
		}
	}
}

func (n *Node) inspect(now time.Time) {
	n.roles.Lock()
	defer n.roles.Unlock()
	feeds := n.sorted(false)
	for _, f := range feeds {
		f.inspect(now)
	}
	n.change(n.countGood)
	if n.unbranched {
		if n.Host.Log().Usable() == nil { // a branch takes little of a full disk
			n.startHistory()
		}
		return
	}
	period := time.Duration(n.Config.ReplPingPeriod.Get()) * time.Second
	if n.link != nil || n.failover != nil || len(feeds) == 0 || now.Sub(n.pinged) < period {
		return
	}
	n.pinged = now
	if err := n.say("*1\r\n$4\r\nPING\r\n"); err != nil {
		n.Logger.Warn("replicas get no PING", "error", err)
	}
}

// say puts bytes into the log that count and do nothing. It needs roles to be held, on a primary.
func (n *Node) say(stream string) error {
	t := n.Store.NewTxn()
	t.Say([]byte(stream))
	return n.Store.Commit(t)
}

// BeginHistory gives what is written from now on another history's id. Replicas ask anew, and go on
// in it.
func (n *Node) BeginHistory() error {
	n.roles.Lock()
	defer n.roles.Unlock()
	switch {
	case n.failover != nil:
		return errFailingOver
	case n.link != nil:
		return errPrimarysHistory
	}
	err := n.branch()
	n.disconnect() // what couldn't be synced stands all the same
	return err
}

// target is where a primary is.
type target struct {
	host string
	port int
}

// reachable reports whether the target can be one: a replica says of itself where it is, and may
// say anything.
func (t target) reachable() bool {
	words := strings.Fields(t.host)
	return len(words) == 1 && words[0] == t.host && t.port > 0 && t.port <= math.MaxUint16
}

// is reports whether a target is named as another one: letters' case doesn't matter in names.
func (t target) is(other target) bool {
	return strings.EqualFold(t.host, other.host) && t.port == other.port
}

func (t target) String() string { return net.JoinHostPort(t.host, fmt.Sprint(t.port)) }
