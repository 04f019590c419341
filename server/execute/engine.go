package execute

import (
	"bytes"
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"kedis/internal/config"
	"kedis/internal/metrics"
	"kedis/internal/secure"
	"kedis/lock"
	"kedis/server/access"
	"kedis/storage"
	"kedis/ttl"
)

// Engine is what commands work with. There is one for each server; nothing of it is global.
type Engine struct {
	Store  *storage.Store
	Config *config.Config
	Log    Log
	Logger hclog.Logger
	Table  *Table
	// Families is what the families of commands keep for themselves.
	Families Families
	Clients  *Clients
	role     role
	// Synchronous is what replies wait for when replicas have to acknowledge.
	Synchronous synchronous

	surroundings
	admission
	attention
	scheduling
	background
	measurements
}

// surroundings are the server and the process around the engine.
type surroundings struct {
	Server Server
	// Describe is a session's line of CLIENT LIST, while it runs a request of some words.
	Describe func(s *Session, args [][]byte) string
	// Courier sends messages, those to each client in their order. The list is the courier's. It
	// may be nil.
	Courier func(messages []Message)
	Version string
	// Supervisor is systemd, upstart, or empty: who is told how the server is.
	Supervisor string
	Started    time.Time
	stopped    chan struct{}
}

// admission says who may come in, and do what.
type admission struct {
	inUse   inUse
	Users   *access.Users
	Denials *access.Log
	// TLS has the configurations for connections.
	TLS      *secure.Keeper
	limits   limits
	failures failures
	loading  loading
}

// attention is what clients wait for, or want to be told of.
type attention struct {
	Watches   watches
	Blocking  blockedOnKeys
	Pause     pause
	Listeners listeners
	Caching   clientCaching
}

// scheduling is who runs requests, and what keeps them apart.
type scheduling struct {
	Locks   *lock.Table
	Gate    *lock.Gate
	clock   clock
	workers workers
	scripts workers // that run requests with scripts
	// spareTxns are transactions that workers have done with: their memory is used again.
	spareTxns sync.Pool
	long      longWork
	large     largeWork
	loaders   loaders
}

// background is what goes on beside requests.
type background struct {
	Sweeper *ttl.Sweeper
	Fields  *ttl.Sweeper // of hashes
	saves   saves
}

// measurements are for those who look after the server.
type measurements struct {
	Observer Observer
	// Monitored says that somebody has asked for MONITOR. It is the Observer's, too.
	Monitored condition
	// ObserveFrom is how long (ns) a request takes that the Observer wants to be shown. It is the
	// Observer's.
	ObserveFrom   atomic.Int64
	Slowlog       *metrics.Slowlog
	Latency       metrics.LatencyMonitor
	Statistics    Statistics
	expiredBefore atomic.Int64 // keys that had expired when the statistics were reset
}

// Families is what the families of commands keep between two requests. Each knows its own.
type Families interface {
	// Stop has what goes on in the background end. It is called once, and waits for nothing.
	Stop()
	// Ended waits until that has ended, and uses the store no more. It gives up after a while, and
	// may be called again.
	Ended(within time.Duration) bool
	// KeptConnections is the number of connections to other servers that wait for another request.
	KeptConnections() int
	// Scripts is how many scripts are kept, and how many bytes their texts and the idle
	// interpreters take.
	Scripts() (number int, texts, interpreters int64)
	// Functions is how many libraries and functions there are, and how many bytes their sources and
	// their own interpreters take.
	Functions() FunctionStatistics
	// PrepareLibraries loads libraries of functions by their sources. adopt makes them the only
	// ones; it is called while no command runs.
	PrepareLibraries(sources [][]byte) (adopt func(), err error)
}

// FunctionStatistics are how many libraries of functions there are, and what they take.
type FunctionStatistics struct {
	Libraries, Functions  int
	Sources, Interpreters int64 // bytes
}

// Observer is shown requests that have run, and told when a session ends or begins anew.
type Observer interface {
	// Begin shows a request that begins to wait for other clients, before it has run.
	Begin(waiting *Execution)
	// Observe shows one that has run, if it took as long as Engine.ObserveFrom says.
	Observe(ran *Execution)
	Forget(s *Session)
}

// Log is what commands ask of the log.
type Log interface {
	// Ready is nil, or why a write would be refused now.
	Ready() error
	// ReadyForLess is Ready for a write that doesn't make the data larger: a full disk takes some
	// of those.
	ReadyForLess() error
}

// Server is what commands ask of the process around them.
type Server interface {
	// Shutdown ends the server; it returns before the end. An error says why it will not.
	Shutdown() error
}

// NewEngine makes an engine for a number of reactors. An Observer is to be set before anything is
// executed.
func NewEngine(store *storage.Store, c *config.Config, log Log, logger hclog.Logger, reactors int, table *Table, families Families) *Engine {
	e := &Engine{Store: store, Config: c, Log: log, Logger: logger, Table: table, Families: families, Clients: NewClients()}
	e.Started, e.Locks = time.Now(), lock.NewTable()
	e.initConditions()
	e.workers.start(reactors, max(4, 2*runtime.NumCPU()))
	e.scripts.start(reactors+e.workers.count+1, scriptWorkers)
	e.long.init()
	e.Gate = lock.NewGate(reactors + e.workers.count + 1 + e.scripts.count)
	e.loaders.init(store, e.Gate, e.workers.door)
	e.Watches.init()
	e.Caching.init(e)
	e.Blocking.init(e)
	e.Statistics.init(reactors + 1)
	e.Table.measure(reactors + 1)
	e.Slowlog = metrics.NewSlowlog(c.SlowlogMaxLen.Get)
	e.initAccess()
	e.initEncryption()
	e.limits.init(e)
	e.initSynchronous()
	e.initTouches()
	e.saves.Last, e.stopped = e.Started, make(chan struct{})
	e.clock.start()
	return e
}

// Stop ends what goes on in the background, and what waits, and waits for commands that still run,
// and for a checkpoint; those that take too long fail. It is called once, when no more commands
// come and sweepers are told to end, before the store is closed: when it returns false, something
// still uses the store.
func (e *Engine) Stop() (stopped bool) {
	close(e.stopped)
	e.Families.Stop()
	e.loaders.stop()
	if e.idle(stopTimeout) {
		return true
	}
	e.Logger.Warn("commands and checkpoints that still run are ended; nobody was told that they had succeeded", "waited", stopTimeout.String())
	e.Store.Interrupt()
	return e.idle(interruptTimeout)
}

// idle waits until neither a command nor what commands begin, a load or a checkpoint, uses the
// store any more. It gives up after a while with each of them. Those that have yielded their worker
// come before those that have one: they take one again.
func (e *Engine) idle(within time.Duration) bool {
	if !e.loaders.stopped(within) || !e.Families.Ended(within) || !e.workers.stop(within) || !e.scripts.stop(within) {
		return false
	}
	over, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	return e.saves.await(over.Done())
}

const (
	// stopTimeout is how long commands that still run are waited for.
	stopTimeout = 10 * time.Second
	// interruptTimeout is how long they are waited for when nothing that they read or write
	// succeeds any more.
	interruptTimeout = 5 * time.Second
)

// ReloadLibraries loads the libraries of functions that the store has. No command runs meanwhile.
func (e *Engine) ReloadLibraries() error {
	var sources [][]byte
	err := e.Store.LibrariesOf(nil, func(_ string, source []byte) error {
		sources = append(sources, bytes.Clone(source))
		return nil
	})
	if err != nil {
		return err
	}
	adopt, err := e.Families.PrepareLibraries(sources)
	if err != nil {
		return err
	}
	adopt()
	return nil
}

// PrepareLibraries is the families': what replication asks for.
func (e *Engine) PrepareLibraries(sources [][]byte) (adopt func(), err error) {
	return e.Families.PrepareLibraries(sources)
}

// Stopping tells that Stop was called.
func (e *Engine) Stopping() bool {
	select {
	case <-e.stopped:
		return true
	default:
		return false
	}
}

// clock tells the time cheaply: the offset of the monotonic clock to Unix time is taken once a
// second, so that a step of the system's clock is followed.
type clock struct {
	base   time.Time
	skew   atomic.Int64 // ns by which the system's clock is taken to be ahead, for tests
	offset atomic.Int64 // Unix ns at base
	next   atomic.Int64
}

func (c *clock) start() {
	c.base = time.Now()
	c.offset.Store(c.base.UnixNano())
	c.next.Store(int64(time.Second))
}

// now returns the nanoseconds since the clock was started, and Unix time in milliseconds.
func (c *clock) now() (monotonic, unixMs int64) {
	monotonic = int64(time.Since(c.base))
	if next := c.next.Load(); monotonic > next && c.next.CompareAndSwap(next, monotonic+int64(time.Second)) {
		c.follow(monotonic)
	}
	return monotonic, c.unixMs(monotonic)
}

// follow takes over what the system's clock says.
func (c *clock) follow(monotonic int64) {
	c.offset.Store(time.Now().UnixNano() + c.skew.Load() - monotonic)
}

// SkewClock has data expire as if the system's clock were ahead, or behind. It is for tests: DEBUG
// SET-CLOCK.
func (e *Engine) SkewClock(ahead time.Duration) {
	e.clock.skew.Store(int64(ahead))
	e.clock.follow(int64(time.Since(e.clock.base)))
}

// WallClock is the system's clock, skewed.
func (e *Engine) WallClock() time.Time { return time.Now().Add(time.Duration(e.clock.skew.Load())) }

// Now is Unix time in milliseconds.
func (e *Engine) Now() int64 {
	_, now := e.clock.now()
	return now
}

// Stopped is closed when Stop is called.
func (e *Engine) Stopped() <-chan struct{} { return e.stopped }

// unixMs is Unix time in milliseconds at so many nanoseconds since the clock was started.
func (c *clock) unixMs(monotonic int64) int64 {
	return (c.offset.Load() + monotonic) / int64(time.Millisecond)
}

// Disconnect ends a session whose connection is gone.
func (e *Engine) Disconnect(s *Session) {
	e.Clients.Remove(s)
	e.forgetReplicas(s)
	e.Watches.Forget(s)
	e.Observer.Forget(s)
	e.Listeners.Forget(s)
	e.Caching.Disconnect(s)
	e.ReleaseReply(s)
}

// NoteLatency records an event for LATENCY if it took long enough. Names come from a fixed set.
func (e *Engine) NoteLatency(event string, took time.Duration) {
	limit := e.Config.LatencyMonitorThreshold.Get()
	if limit > 0 && took.Milliseconds() >= limit {
		e.Latency.Add(event, time.Now(), took.Truncate(time.Millisecond))
	}
}

// RedisVersion is the version of Redis whose behaviour this is, for clients that ask.
const (
	RedisVersion       = "7.2.0"
	RedisVersionNumber = 0x070200
)
