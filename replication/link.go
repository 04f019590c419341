package replication

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"kedis/binlog"
	"kedis/internal/psync"
	"kedis/internal/resp"
	"kedis/internal/secure"
	"kedis/storage"
)

// link is a replica's connection to its primary, again and again, until it is ended.
type link struct {
	node   *Node
	target target
	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{} // closed when run has returned

	state     atomic.Int32
	heard     atomic.Int64 // Unix ms when the primary was last heard of
	loaded    atomic.Int64 // bytes of a snapshot
	total     atomic.Int64 // of how many; 0 is unknown
	keys      atomic.Int64 // of a snapshot
	totalKeys atomic.Int64 // of how many; 0 is unknown

	ended bool // under the node's roles

	// Changed by who holds the node's roles and mu, read by who holds either.
	applier StreamApplier // while there is a stream
	down    time.Time     // since when there is no stream

	// Of the goroutine that runs the link.
	source   *source
	requests *resp.Reader
	cut      bool // nothing more comes from source
	sending  sync.Mutex
	full     fullResync
	sources  [][]byte // of the libraries of functions in the snapshot

	diverged   bool          // the data are not the primary's: all of it is to be taken anew
	lastFailed time.Time     // when that was last found out, or a script came
	patience   time.Duration // for how long the primary was left alone then

	unanswered bool // PSYNC … FAILOVER was sent, and the answer was lost
}

// fullResync is what a primary said of the snapshot that it sends.
type fullResync struct {
	id       string
	position int64
	commands bool // it comes as commands
}

// State is how far the link has come.
func (l *link) State() State { return State(l.state.Load()) }

// set is the only way to another state.
func (l *link) set(to State) {
	from := l.State()
	if !slices.Contains(next[from], to) {
		panic(fmt.Sprintf("replication: there is no way from %s to %s", from, to))
	}
	l.state.Store(int32(to))
}

var errEnded = errors.New("replication: the link was ended")

// end sees to it that the link changes nothing any more. The node's roles is held.
func (l *link) end() {
	l.ended = true
	l.cancel()
	if l.applier != nil {
		l.applier.Stop()
	}
}

// exclusively runs f while the role can't change, unless the link was ended.
func (l *link) exclusively(f func() error) error {
	l.node.roles.Lock()
	defer l.node.roles.Unlock()
	if l.ended {
		return errEnded
	}
	return f()
}

// How long it takes until a primary is tried again: at first, and at most.
const (
	retrySoon = 50 * time.Millisecond
	retryLate = time.Second
	// And when it isn't the connection that keeps the replica from taking all data.
	retryFull = 30 * time.Second

	// And when its effects fail here.
	retrySeldom = time.Minute
	calmAfter   = 10 * time.Minute
)

// run connects again and again. It begins when the link before it is done, and no write of the time
// before is under way.
func (l *link) run(former *link) {
	defer close(l.done)
	if former != nil {
		<-former.done
	}
	select {
	case <-l.node.recovered:
	case <-l.ctx.Done():
		return
	}
	admit := l.node.Host.Exclude(l.ctx)
	if admit == nil {
		return
	}
	admit()
	for retry := retrySoon; l.ctx.Err() == nil; retry *= 2 {
		before := l.node.Host.Log().Position()
		err := l.attempt()
		if l.ctx.Err() != nil {
			return
		}
		l.node.Logger.Warn("no stream from the primary", "primary", l.target.String(), "state", l.State().String(), "error", err)
		if errors.Is(err, storage.ErrDiverged) {
			l.diverge()
			l.node.Logger.Error("the data here are not the primary's; all of it is taken anew", "primary", l.target.String(), "position", l.node.Host.Log().Position())
		}
		if errors.Is(err, psync.ErrScript) {
			l.losePatience()
		}
		retry = l.pause(err, retry, l.node.Host.Log().Position() != before)
		l.lose()
		select {
		case <-l.ctx.Done():
		case <-time.After(retry):
		}
	}
}

// pause is for how long the primary is left alone when an attempt has failed with an error, and has
// moved the position, or not. Failing attempts in a row are spaced out.
func (l *link) pause(err error, spaced time.Duration, moved bool) time.Duration {
	switch {
	case l.State() == FullSync && !l.cut: // a full disk is so each time, and each costs the primary a snapshot
		return min(spaced, retryFull)
	case l.diverged, errors.Is(err, psync.ErrScript):
		return l.patience
	// An effect that is unknown, is so each time: that is no reason to hurry.
	case l.State() == Connected && moved:
		return retrySoon
	}
	return min(spaced, retryLate)
}

// diverge notes that all data are to be taken.
func (l *link) diverge() {
	l.diverged = true
	l.losePatience()
}

// losePatience has the primary left alone for twice as long as before, up to a minute, until there
// was no reason for ten minutes. When all data have to be taken again and again, what makes the
// effects fail lies elsewhere. So it does when scripts come, and a primary that keeps little of its
// stream sends all data each time.
func (l *link) losePatience() {
	now := time.Now()
	if now.Sub(l.lastFailed) > calmAfter {
		l.patience = retrySoon
	} else {
		l.patience = min(2*l.patience, retrySeldom)
	}
	l.lastFailed = now
}

// lose goes back to the first state.
func (l *link) lose() {
	err := l.exclusively(func() error {
		l.node.change(func() {
			if l.State() == Connected {
				l.down = time.Now()
			}
			l.applier = nil
		})
		l.set(Connect)
		l.node.Host.SetReplica(true, true)
		return nil
	})
	if err != nil {
		l.node.Logger.Debug("a link", "error", err)
	}
}

// attempt goes from state to state until something fails.
func (l *link) attempt() error {
	steps := map[State]func() (State, error){
		Connect: l.connect, Auth: l.authenticate, Replconf: l.introduce, Psync: l.ask,
		FullSync: l.synchronize, Connected: l.takeStream,
	}
	defer l.disconnect()
	if err := l.settle(); err != nil {
		return err
	}
	for {
		to, err := steps[l.State()]()
		if err != nil {
			return err
		}
		l.set(to)
	}
}

func (l *link) disconnect() {
	if l.source == nil {
		return
	}
	l.source.release()
	l.close(l.source.conn)
	l.source = nil
}

func (l *link) close(conn net.Conn) {
	if err := conn.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		l.node.Logger.Debug("closing the connection to the primary", "error", err)
	}
}

func (l *link) timeout() time.Duration {
	return time.Duration(l.node.Config.ReplTimeout.Get()) * time.Second
}

func (l *link) connect() (State, error) {
	dialer := net.Dialer{Timeout: l.timeout()}
	conn, err := dialer.DialContext(l.ctx, "tcp", l.target.String())
	if err != nil {
		return 0, fmt.Errorf("replication: %w", err)
	}
	release := context.AfterFunc(l.ctx, func() { l.close(conn) })
	l.source, err = l.newSource(conn)
	if err != nil {
		release()
		_ = conn.Close() // TLS has closed it already when it failed
		return 0, fmt.Errorf("replication: %w", err)
	}
	l.source.release, l.cut = release, false
	l.requests = resp.NewReader(l.source, longestRequest)
	return Auth, nil
}

// newSource reads from a socket, with TLS if that is configured.
func (l *link) newSource(socket net.Conn) (*source, error) {
	raw, err := socket.(*net.TCPConn).SyscallConn()
	if err != nil {
		return nil, err
	}
	polled := &polledSocket{Conn: socket, link: l, raw: raw}
	if !l.node.Config.TLSReplication.Get() {
		return &source{link: l, conn: polled, socket: polled}, nil
	}
	config, err := l.node.TLS.Client()
	if err != nil {
		return nil, err
	}
	conn, err := secure.Connect(l.ctx, polled, config)
	if err != nil {
		return nil, err
	}
	return &source{link: l, conn: conn, socket: polled}, nil
}

// longestRequest bounds what one command of a stream may take. Memory is taken as it comes.
const longestRequest = 8 << 30

// source reads what comes from the primary.
type source struct {
	link   *link
	conn   net.Conn // the socket, or TLS over it
	socket *polledSocket

	release func() bool // is called when conn is closed before the link ends, which would close it
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.conn.Read(p)
	if n > 0 {
		s.link.heard.Store(time.Now().UnixMilli())
		s.link.node.counters.received.Add(int64(n))
	}
	s.link.cut = s.link.cut || err != nil && err != errIdle
	return n, err
}

// polledSocket is the socket of a source. While poll is set a Read doesn't wait: errIdle says that
// nothing has come.
type polledSocket struct {
	net.Conn
	link *link
	raw  syscall.RawConn
	poll bool
}

// idle is temporary, so that crypto/tls goes on after it.
type idle struct{}

func (idle) Error() string   { return "replication: nothing has come" }
func (idle) Timeout() bool   { return false }
func (idle) Temporary() bool { return true }

var errIdle net.Error = idle{}

func (s *polledSocket) Read(p []byte) (int, error) {
	if s.poll {
		return s.readNow(p)
	}
	if err := s.SetReadDeadline(time.Now().Add(s.link.timeout())); err != nil {
		return 0, err
	}
	return s.Conn.Read(p)
}

// SyscallConn is the socket's.
func (s *polledSocket) SyscallConn() (syscall.RawConn, error) { return s.raw, nil }

func (s *polledSocket) readNow(p []byte) (n int, err error) {
	// While bytes keep coming nothing waits, so the last deadline may be long over.
	if err := s.SetReadDeadline(time.Time{}); err != nil {
		return 0, err
	}
	failed := s.raw.Read(func(fd uintptr) bool {
		for {
			if n, err = syscall.Read(int(fd), p); err != syscall.EINTR {
				return true
			}
		}
	})
	switch {
	case failed != nil:
		return 0, failed
	case err == syscall.EAGAIN:
		return 0, errIdle
	case err != nil:
		return 0, err
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// send sends a request.
func (l *link) send(words ...string) error {
	args := make([][]byte, len(words))
	for i, word := range words {
		args[i] = []byte(word)
	}
	return l.sendRaw(l.source.conn, resp.AppendRequest(nil, args...))
}

func (l *link) sendRaw(conn net.Conn, b []byte) error {
	l.sending.Lock()
	defer l.sending.Unlock()
	if err := conn.SetWriteDeadline(time.Now().Add(l.timeout())); err != nil {
		return err
	}
	_, err := conn.Write(b)
	return err
}

// do sends a request and waits for its reply.
func (l *link) do(words ...string) (resp.Reply, error) {
	if err := l.send(words...); err != nil {
		return resp.Reply{}, err
	}
	return l.requests.ReadReply()
}

// expect is do for a request that has to be answered without an error.
func (l *link) expect(words ...string) error {
	reply, err := l.do(words...)
	if err == nil {
		err = reply.Err()
	}
	if err != nil {
		return fmt.Errorf("replication: %s: %w", words[0], err)
	}
	return nil
}

func (l *link) authenticate() (State, error) {
	password, user := l.node.Config.MasterAuth.Get(), l.node.Config.MasterUser.Get()
	switch {
	case password == "":
		return Replconf, nil
	case user == "":
		return Replconf, l.expect("AUTH", password)
	}
	return Replconf, l.expect("AUTH", user, password)
}

func (l *link) introduce() (State, error) {
	c := l.node.Config
	port := c.ReplicaAnnouncePort.Get()
	if port == 0 && c.TLSReplication.Get() {
		port = c.TLSPort.Get()
	}
	if port == 0 {
		port = c.Port.Get()
	}
	if err := l.tell("listening-port", strconv.FormatInt(port, 10)); err != nil {
		return 0, err
	}
	if address := c.ReplicaAnnounceIP.Get(); address != "" {
		if err := l.tell("ip-address", address); err != nil {
			return 0, err
		}
	}
	// Without the version a Valkey sends RDB files of version 11, which have no fields that expire.
	// It comes last: a Redis takes what stands before an option that it doesn't know.
	return Psync, l.tell("capa", "eof", "capa", "psync2", "capa", "kedis-snapshot", "capa", "kedis-acknowledges", "version", readsValkey)
}

// readsValkey is the version that a replica tells: that of the Valkey whose RDB files it reads.
const readsValkey = "9.0.0"

// tell says something of the replica to the primary, which may be too old to know of it.
func (l *link) tell(words ...string) error {
	err := l.expect(append([]string{"REPLCONF"}, words...)...)
	var refusal *resp.ReplyError
	if errors.As(err, &refusal) && strings.HasPrefix(refusal.Text, "ERR ") {
		l.node.Logger.Info("the primary doesn't know of something that it is told", "primary", l.target.String(), "what", words[0], "answer", refusal.Text)
		return nil
	}
	return err
}

// claim is the history and the position that the server goes on from. A history in which it has
// written nothing yet is none that anybody could know: it goes on in the one before.
//
// A server whose data have turned out to be others than the primary's has nothing to go on from.
func (l *link) claim() (id string, position int64) {
	if l.diverged {
		return "?", -2
	}
	log := l.node.Host.Log()
	history := log.History()
	id, position = history.ID, log.Position()
	for _, a := range slices.Backward(history.Ancestors) {
		if a.Left != position {
			break
		}
		id = a.ID
	}
	return id, position
}

func (l *link) ask() (State, error) {
	from, err := l.startingPoint()
	if err != nil {
		return 0, err
	}
	reply, err := l.requestStream(from.id, from.position)
	if err != nil {
		return 0, fmt.Errorf("replication: PSYNC: %w", err)
	}
	answer, err := psync.ParseAnswer(reply.Text)
	switch {
	case err != nil:
		return 0, fmt.Errorf("replication: %w", err)
	case answer.Full:
		l.full = fullResync{answer.ID, answer.Position, answer.Commands}
		l.totalKeys.Store(answer.Keys)
		if answer.ID == from.id && answer.Position >= from.position {
			from.parted = whole // the primary has come as far in the same history, whatever it has told of it
		}
		return FullSync, l.noteParted(from.parted)
	case answer.ID != "":
		from.id = answer.ID
	}
	return Connected, l.goOn(from.id, from.position)
}

// requestStream asks for what follows a position; in a failover it tells the new primary that it is
// one.
func (l *link) requestStream(id string, position int64) (resp.Reply, error) {
	words := []string{"PSYNC", id, strconv.FormatInt(position+1, 10)}
	failingOver := l.failingOver()
	if failingOver {
		words = append(words, "FAILOVER")
		words[1] = l.node.Host.Log().History().ID // what the replica knows, even if nothing was written in it
	}
	reply, err := l.do(words...)
	if failingOver {
		err = l.handedDown(reply, err)
	}
	if err == nil {
		err = reply.Err()
	}
	return reply, err
}

// noteParted notes what of the server's own is to be kept when the primary's data replace it.
func (l *link) noteParted(at int64) error {
	if at == whole {
		return nil
	}
	return l.exclusively(func() error { return l.node.Host.NoteParted(at) })
}

// goOn makes the history the primary's, behind a position that the server may have passed.
func (l *link) goOn(id string, position int64) error {
	return l.exclusively(func() error {
		if err := l.node.settle(); err != nil {
			return err
		}
		if position < l.node.Host.Log().Position() {
			if err := l.node.cutTo(position); err != nil {
				if errors.Is(err, binlog.ErrNotBorder) || errors.Is(err, binlog.ErrPurged) || errors.Is(err, binlog.ErrCorrupt) {
					l.diverge() // it would be the same each time
				}
				return err
			}
		}
		if err := l.node.Host.ForgetParted(); err != nil { // a snapshot may have broken off
			return err
		}
		log := l.node.Host.Log()
		if log.History().ID == id {
			return nil
		}
		err := l.node.Store.BetweenCommits(func() error { return log.Branch(id) })
		l.node.disconnect() // what couldn't be synced stands all the same
		if err != nil {
			return fmt.Errorf("replication: taking up the primary's history: %w", err)
		}
		return nil
	})
}

const (
	commitBytes = 1 << 20 // of the stream, the most that one commit takes while there is more
	ackEvery    = time.Second
)

// takeStream applies what comes, until something fails.
func (l *link) takeStream() (State, error) {
	n := l.node
	applier := n.Host.NewStreamApplier(l.source.conn, n.Host.Log().Database())
	defer applier.Close()
	err := l.exclusively(func() error {
		n.change(func() { l.applier = applier })
		n.Host.SetReplica(true, false)
		return nil
	})
	if err != nil {
		return 0, err
	}
	n.Logger.Info("the stream goes on", "primary", l.target.String(), "position", n.Host.Log().Position())
	conn, stop := l.source.conn, make(chan struct{})
	defer close(stop)
	go l.acknowledgeRegularly(conn, stop)
	return 0, l.apply(conn, applier)
}

func (l *link) acknowledgeRegularly(conn net.Conn, stop <-chan struct{}) {
	ticker := time.NewTicker(ackEvery)
	defer ticker.Stop()
	for {
		if err := l.acknowledge(conn); err != nil {
			return // whoever reads finds out
		}
		select {
		case <-stop:
			return
		case <-ticker.C:
		}
	}
}

// acknowledge tells the primary what the server has, and what of it is on its disk: with
// appendfsync always, it has nothing else.
func (l *link) acknowledge(conn net.Conn) error {
	log := l.node.Host.Log()
	synced := strconv.AppendInt(nil, log.Durable(), 10) // first, so that it is not ahead
	position := strconv.AppendInt(nil, log.Visible(), 10)
	return l.sendRaw(conn, resp.AppendRequest(nil, []byte("REPLCONF"), []byte("ACK"), position, []byte("FACK"), synced))
}

// apply commits in one step what has come together. When the primary has asked for it, each commit
// is acknowledged for a while.
func (l *link) apply(conn net.Conn, applier StreamApplier) error {
	var asked time.Time
	for {
		l.source.socket.poll = applier.Pending() > 0
		args, _, err := l.requests.ReadRequest()
		switch {
		case err == nil:
			if psync.AsksForAck(args) {
				asked = time.Now()
			}
			if err := applier.Apply(args, l.requests.Raw()); err != nil {
				return err
			}
			if applier.Pending() < commitBytes {
				continue
			}
		case !errors.Is(err, errIdle):
			return errors.Join(err, applier.Commit())
		}
		if err := applier.Commit(); err != nil {
			return err
		}
		if time.Since(asked) < acknowledgesFor {
			if err := l.acknowledge(conn); err != nil {
				return err
			}
		}
	}
}
