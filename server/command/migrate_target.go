package command

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"kedis/internal/resp"
	"kedis/internal/secure"
	"kedis/storage/rdb"
)

// destination is where MIGRATE brings keys to.
type destination struct {
	host, port     string
	authentication string // an AUTH, as a request; empty: none
	database       int64
	timeout        time.Duration // the longest that nothing may happen
	encryption     *tls.Config   // nil: there is none
}

// target is a connection to the server that keys are brought to.
type target struct {
	conn     net.Conn
	at       targetAddress
	database int64
	timeout  time.Duration
	buffer   *bufio.Writer
	replies  *resp.Reader
	answered bool        // to what was written since it was taken
	asked    bool        // for its format
	format   rdb.Format  // of the payloads that it takes
	idle     *time.Timer // closes it when it isn't used
}

// targetAddress tells which connections may stand for each other.
type targetAddress struct {
	host, port, authentication string
	encryption                 *tls.Config
}

// authenticate has the connection authenticated, also with an empty password, as in Redis.
func (to *destination) authenticate(words ...[]byte) {
	to.authentication = string(resp.AppendRequest(nil, append([][]byte{[]byte("AUTH")}, words...)...))
}

func (to *destination) address() targetAddress {
	return targetAddress{to.host, to.port, to.authentication, to.encryption}
}

// targetError says that the target can't be reached, or doesn't answer.
type targetError struct {
	reply Error // what the client is told
	again bool  // another connection may do better, and nothing was answered over this one
	cause error
}

func (e *targetError) Error() string { return string(e.reply) + ": " + e.cause.Error() }

func (e *targetError) Unwrap() error { return e.cause }

const (
	errConnecting = Error("IOERR error or timeout connecting to the client")
	errWriting    = Error("IOERR error or timeout writing to target instance")
	errReading    = Error("IOERR error or timeout reading to target instance")
)

// targets keeps connections between two MIGRATEs.
type targets struct {
	mu      sync.Mutex
	unused  map[targetAddress][]*target
	count   int // of all that are unused
	used    map[*target]struct{}
	running sync.WaitGroup // MIGRATEs

	stopped context.Context // is done when the server stops
	cancel  context.CancelFunc
	gone    chan struct{} // closed when it has stopped, and no MIGRATE runs any more
}

func (p *targets) init() {
	p.stopped, p.cancel = context.WithCancel(context.Background())
	p.gone = make(chan struct{})
}

var errStopping = errors.New("command: the server stops")

// begin counts a MIGRATE, until it calls end; false when the server stops.
func (p *targets) begin() (end func(), ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped.Err() != nil {
		return nil, false
	}
	p.running.Add(1)
	return p.running.Done, true
}

// As in Redis.
const (
	targetsKept   = 64
	targetIdle    = 10 * time.Second
	targetBuffer  = 64 << 10
	longestAnswer = 64 << 10
)

// take returns a connection that is authenticated and has selected the database.
func (p *targets) take(to destination) (*target, error) {
	t := p.reuse(to.address())
	if t == nil {
		var err error
		if t, err = dialTarget(p.stopped, to); err != nil {
			return nil, err
		}
	}
	t.timeout = to.timeout
	err := p.use(t)
	if err == nil {
		err = t.prepare(to)
	}
	if err != nil {
		p.drop(t)
		return nil, err
	}
	t.answered = false
	return t, nil
}

// use notes a connection that stop has to close.
func (p *targets) use(t *target) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped.Err() != nil {
		return &targetError{reply: errWriting, cause: errStopping}
	}
	if p.used == nil {
		p.used = map[*target]struct{}{}
	}
	p.used[t] = struct{}{}
	return nil
}

// drop closes a connection that was taken.
func (p *targets) drop(t *target) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.used, t)
	t.close()
}

func (p *targets) reuse(at targetAddress) *target {
	p.mu.Lock()
	defer p.mu.Unlock()
	unused := p.unused[at]
	if len(unused) == 0 {
		return nil
	}
	t := unused[len(unused)-1]
	p.remove(t)
	return t
}

// remove takes a connection off the list; false when it isn't there. The mutex is held.
func (p *targets) remove(t *target) bool {
	unused := p.unused[t.at]
	i := slices.Index(unused, t)
	if i < 0 {
		return false
	}
	t.idle.Stop()
	p.count--
	if p.unused[t.at] = slices.Delete(unused, i, i+1); len(p.unused[t.at]) == 0 {
		delete(p.unused, t.at)
	}
	return true
}

// keep keeps a connection for the next MIGRATE, for a while.
func (p *targets) keep(t *target) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.used, t)
	if p.stopped.Err() != nil || p.count == targetsKept {
		t.close()
		return
	}
	if p.unused == nil {
		p.unused = map[targetAddress][]*target{}
	}
	p.unused[t.at] = append(p.unused[t.at], t)
	p.count++
	t.idle = time.AfterFunc(targetIdle, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.remove(t) {
			t.close()
		}
	})
}

// stop has every MIGRATE end: what the target has answered until now counts.
func (p *targets) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cancel()
	go func() {
		p.running.Wait()
		close(p.gone)
	}()
	for t := range p.used {
		t.close()
	}
	for _, unused := range p.unused {
		for _, t := range slices.Clone(unused) {
			p.remove(t)
			t.close()
		}
	}
}

// ended waits until stop was called and no MIGRATE runs any more, or gives up after a while.
func (p *targets) ended(within time.Duration) bool {
	select {
	case <-p.gone:
		return true
	case <-time.After(within):
		return false
	}
}

// kept is the number of connections that wait for the next MIGRATE.
func (p *targets) kept() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count
}

func dialTarget(ctx context.Context, to destination) (*target, error) {
	// Redis reads the port as C's atoi does, and finds out that it is none when it connects.
	port, _ := strconv.ParseUint(to.port, 10, 16)
	if to.host == "" {
		return nil, &targetError{reply: errConnecting, cause: errors.New("no host")}
	}
	conn, err := to.dial(ctx, net.JoinHostPort(to.host, strconv.FormatUint(port, 10)))
	var unreachable net.Error
	var unknown *net.DNSError
	switch {
	case err == nil:
	case errors.As(err, &unknown), errors.As(err, &unreachable) && unreachable.Timeout():
		return nil, &targetError{reply: errConnecting, cause: err}
	default:
		return nil, &targetError{reply: errWriting, cause: err} // where Redis notices
	}
	t := &target{conn: conn, database: -1, at: to.address()}
	t.buffer = bufio.NewWriterSize(timedWriter{t}, targetBuffer)
	t.replies = resp.NewReader(timedReader{t}, longestAnswer)
	return t, nil
}

// dial connects, within the timeout.
func (to *destination) dial(ctx context.Context, address string) (net.Conn, error) {
	deadline := time.Now().Add(to.timeout)
	dialer := net.Dialer{Deadline: deadline}
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil || to.encryption == nil {
		return conn, err
	}
	if err := conn.SetDeadline(deadline); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	encrypted, err := secure.Connect(ctx, conn, to.encryption)
	if err != nil {
		return nil, err
	}
	return encrypted, conn.SetDeadline(time.Time{})
}

// prepare authenticates and selects. Unlike Redis it waits for the replies: after a SELECT that
// fails, keys would come to another database. As in Redis, a connection that was kept says AUTH
// anew: the target may have another password by now.
func (t *target) prepare(to destination) error {
	if to.authentication != "" {
		if err := t.send([]byte(to.authentication)); err != nil {
			return err
		}
	}
	if t.database == to.database {
		return nil
	}
	if err := t.do([]byte("SELECT"), formatInteger(to.database)); err != nil {
		return err
	}
	t.database = to.database
	return nil
}

// askFormat finds out whether the target has Valkey's form of hashes whose fields expire, or
// Redis's, which one that doesn't tell is taken to have.
func (t *target) askFormat() error {
	if t.asked {
		return nil
	}
	if err := t.write(resp.AppendRequest(nil, []byte("INFO"), []byte("server"))); err != nil {
		return err
	}
	if err := t.flush(); err != nil {
		return err
	}
	reply, err := t.replies.ReadReply()
	if err != nil {
		return t.trouble(errReading, err)
	}
	t.asked = true
	if _, version, is := bytes.Cut(reply.Text, []byte("valkey_version:")); is {
		major, _, _ := bytes.Cut(version, []byte("."))
		if n, err := strconv.Atoi(string(major)); err == nil && n >= 9 {
			t.format = rdb.Valkey
		}
	}
	return nil
}

func (t *target) do(words ...[]byte) error { return t.send(resp.AppendRequest(nil, words...)) }

// send sends a request, and returns what its reply refuses.
func (t *target) send(request []byte) error {
	if err := t.write(request); err != nil {
		return err
	}
	if err := t.flush(); err != nil {
		return err
	}
	refusal, err := t.readReply()
	return cmp.Or(err, refusal)
}

// Write takes a part of a payload.
func (t *target) Write(b []byte) (int, error) {
	n, err := t.buffer.Write(b)
	return n, t.trouble(errWriting, err)
}

func (t *target) write(b []byte) error {
	_, err := t.Write(b)
	return err
}

func (t *target) flush() error { return t.trouble(errWriting, t.buffer.Flush()) }

// readReply reads one reply, and tells whether it is an error.
func (t *target) readReply() (refusal, err error) {
	reply, err := t.replies.ReadReply()
	if err != nil {
		return nil, t.trouble(errReading, err)
	}
	t.answered = true
	var said *resp.ReplyError
	if errors.As(reply.Err(), &said) {
		return Errorf("ERR Target instance replied with error: %s", said.Text), nil
	}
	return nil, nil
}

func (t *target) trouble(reply Error, err error) error {
	if err == nil {
		return nil
	}
	var slow net.Error
	timeout := errors.As(err, &slow) && slow.Timeout()
	return &targetError{reply, !timeout && !t.answered, err}
}

func (t *target) close() { _ = t.conn.Close() } // nothing depends on it any more

// timedReader and timedWriter fail when nothing happens for the target's timeout.
type timedReader struct{ *target }

func (r timedReader) Read(b []byte) (int, error) {
	if err := r.conn.SetReadDeadline(time.Now().Add(r.timeout)); err != nil {
		return 0, err
	}
	return r.conn.Read(b)
}

type timedWriter struct{ *target }

func (w timedWriter) Write(b []byte) (written int, err error) {
	for part := range slices.Chunk(b, targetBuffer) {
		if err := w.conn.SetWriteDeadline(time.Now().Add(w.timeout)); err != nil {
			return written, err
		}
		n, err := w.conn.Write(part)
		written += n
		if err != nil {
			return written, err
		}
	}
	return written, nil
}
