package execute

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"

	"kedis/internal/psync"
)

// ErrStopped is returned by StreamApplier.Commit after Stop.
var ErrStopped = errors.New("command: the following of a primary was stopped")

// StreamApplier applies a primary's stream beside clients that read: it takes the locks that the
// commands need, and commits what they change together with the bytes that they came as. Like a
// LogApplier it stops at the first effect that is unknown or fails; and, unless it reads from a
// file, at a script.
//
// It follows the reactors' protocol: when it can't lock at once, it commits what it has, and only
// then waits. All methods but Stop are for one goroutine.
type StreamApplier struct {
	batch   *Batch
	session *Session
	request Request // that is being applied

	stream []byte // that came and isn't committed
	whole  int    // of it, what ends behind a command or an EXEC
	from   int    // the database that is selected where stream begins
	after  int    // and where whole ends

	mu      sync.Mutex // held during a commit
	stopped bool
	ctx     context.Context // is done then
	stop    context.CancelFunc
}

// NewStreamApplier makes the applier of a stream that comes over a connection, in which a database
// is selected. There is one at a time. Until Close its connection is one of the clients.
func (e *Engine) NewStreamApplier(conn net.Conn, database int) *StreamApplier {
	f := e.newStreamApplier(primaryPeer{conn}, database)
	f.session.kind.Store(int32(KindPrimary))
	e.Clients.Add(f.session)
	return f
}

// NewFileApplier makes the applier of a stream that is read from a file.
func (e *Engine) NewFileApplier(database int) *StreamApplier {
	return e.newStreamApplier(Nowhere{}, database)
}

func (e *Engine) newStreamApplier(peer Peer, database int) *StreamApplier {
	b := e.newBatch(e.workers.streamApplier.owner, e.workers.streamApplier.door, 0, e.Store.NewTxn())
	b.repeat, b.reader.effects = repeating{applying: true, locking: true}, true
	f := &StreamApplier{batch: b, session: NewSession(peer, true), from: database, after: database}
	f.ctx, f.stop = context.WithCancel(context.Background())
	f.session.SetDatabase(database)
	return f
}

// Apply executes a command that came as the bytes raw. It is not committed before Commit, or before
// the applier has to wait for a lock. The words must stay as they are until Apply returns.
func (f *StreamApplier) Apply(args [][]byte, raw []byte) error {
	f.batch.Tick()
	f.batch.reader.readInto(&f.request, f.session.Database, args)
	if c := f.request.Command; c != nil && c.RunsScript && f.session.Is(KindPrimary) {
		f.discard()
		return fmt.Errorf("command: effect %.200q: %w", args, psync.ErrScript)
	}
	for {
		outcome := f.batch.execute(f.session, &f.request)
		f.session.Reply.Reset()
		f.session.member = 0
		if outcome == Done {
			break
		}
		if err := f.Commit(); err != nil {
			return err
		}
		if err := f.await(); err != nil {
			return err
		}
	}
	if err := f.batch.repeat.failure; err != nil {
		f.discard()
		return fmt.Errorf("command: effect %.200q: %w", args, err)
	}
	f.stream = append(f.stream, raw...)
	if !f.session.Transaction.Active {
		f.whole, f.after = len(f.stream), f.session.Database
	}
	if f.batch.locks.reopen != nil {
		return f.Commit() // the gate is closed: everybody waits
	}
	return nil
}

// await waits for what the command needs; for all databases until no script runs.
func (f *StreamApplier) await() error {
	l := &f.batch.locks
	if !f.batch.plan.Everything {
		return l.await(&f.batch.plan, endless)
	}
	if l.reopen = f.batch.engine.Exclude(f.ctx); l.reopen == nil {
		f.discard()
		return ErrStopped
	}
	return nil
}

// Pending is how many bytes Commit would commit.
func (f *StreamApplier) Pending() int { return f.whole }

// Commit commits the whole commands that came, and gives the locks back. When it fails, nothing of
// them has happened, unless they stand in doubt, and the applier can't be used any more.
func (f *StreamApplier) Commit() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stopped {
		f.discard()
		return ErrStopped
	}
	if f.whole > 0 {
		f.batch.txn.Copy(f.from, f.after, f.stream[:f.whole])
	}
	if err := f.batch.Commit(); err != nil {
		f.stopped = true
		return err
	}
	f.stream = append(f.stream[:0], f.stream[f.whole:]...)
	if cap(f.stream) > largeStream && len(f.stream) == 0 {
		f.stream = nil
	}
	f.from, f.whole = f.after, 0
	return nil
}

// largeStream is how much memory for the stream is kept.
const largeStream = 4 << 20

// Stop ends the applier from another goroutine: nothing is committed after it has returned.
func (f *StreamApplier) Stop() {
	f.stop()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stopped = true
}

// Close gives back what the applier holds; what isn't committed is gone.
func (f *StreamApplier) Close() {
	f.Stop()
	f.discard()
	f.batch.engine.Clients.Remove(f.session)
}

// primaryPeer is the other end of the connection to a primary.
type primaryPeer struct{ conn net.Conn }

func (p primaryPeer) RemoteAddress() string    { return p.conn.RemoteAddr().String() }
func (p primaryPeer) LocalAddress() string     { return p.conn.LocalAddr().String() }
func (p primaryPeer) OverUnixSocket() bool     { return false }
func (p primaryPeer) Lane() int                { return 0 }
func (p primaryPeer) Send([]byte, func() bool) {} // a primary is told nothing but what the link tells it
func (p primaryPeer) Unblock(*Blocked)         {} // its requests never wait for others
func (p primaryPeer) Buffered() (int, int)     { return 0, 0 }

// Close has the link connect again.
func (p primaryPeer) Close() { _ = p.conn.Close() } // whoever reads from it finds out

func (p primaryPeer) FileDescriptor() int {
	number := -1
	if socket, ok := p.conn.(syscall.Conn); ok {
		if raw, err := socket.SyscallConn(); err == nil {
			_ = raw.Control(func(fd uintptr) { number = int(fd) }) // -1 if it is closed
		}
	}
	return number
}

// discard takes back what is not committed, and gives the locks back.
func (f *StreamApplier) discard() {
	f.stream, f.whole = nil, 0
	f.batch.surrender()
}
