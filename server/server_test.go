package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"kedis/internal/config"
	"kedis/redis-tests/certificates"
	"kedis/redis-tests/resp"
	"kedis/server/command"
	"kedis/server/datadir"
	"kedis/server/execute"
)

// patience is how long something may take that has to happen.
const patience = 30 * time.Second

// running is a server in this process.
type running struct {
	*Server
	t    *testing.T
	data *datadir.Directory
	log  *breakableLog

	ran     chan struct{} // closed when Run has returned
	runErr  error         // what it has returned
	wantErr error         // what it is to return

	clients *tls.Config // of clients; nil: they have no TLS
}

// encrypted has all tests connect with TLS: go test ./server -args -encrypted.
var encrypted = flag.Bool("encrypted", false, "have clients connect with TLS")

// breakableLog is a log that can be told to take no writes.
type breakableLog struct {
	*datadir.Directory
	broken  atomic.Bool
	failing func() // is called when a write is refused
}

var errBroken = errors.New("the test has broken the log")

func (l *breakableLog) Ready() error { return l.Directory.Ready() }

// startServer starts a server with options, such as "maxclients", "2", beside those of other tests.
func startServer(t *testing.T, options ...string) *running {
	t.Helper()
	return startPrepared(t, func(*running) {}, options...)
}

// startPrepared starts one that prepare was called with before.
func startPrepared(t *testing.T, prepare func(*running), options ...string) *running {
	t.Helper()
	t.Parallel()
	c := config.New()
	if err := c.SetFlag("enable-debug-command", "yes"); err != nil {
		t.Fatal(err)
	}
	var clients *tls.Config
	if *encrypted && !slices.Contains(options, "tls-port") {
		authority := certificates.NewAuthority(t)
		options, clients = append(options, encryptedOptions(t, authority)...), authority.Client(authority.Sign("client"))
	}
	options = append(options, "dir", t.TempDir(), "bind", "127.0.0.1", "port", freePort(t), "reactors", "2", "memory-tier", "8mb",
		"rocksdb-block-cache", "8mb")
	for i := 0; i < len(options); i += 2 {
		if err := c.SetFlag(options[i], options[i+1]); err != nil {
			t.Fatal(err)
		}
	}
	logger := hclog.NewNullLogger()
	data, err := datadir.Open(c, logger)
	if err != nil {
		t.Fatal(err)
	}
	r := &running{t: t, data: data, log: &breakableLog{Directory: data}, ran: make(chan struct{})}
	data.Store.Attach(r.log, data.Store.LogDirectory())
	engine := command.NewEngine(data.Store, c, r.log, logger, 2)
	r.Server, r.clients = New(engine, c, logger), clients
	if err := engine.LoadTLS(); err != nil {
		t.Fatal(err)
	}
	prepare(r)
	ready := make(chan struct{})
	go func() {
		r.runErr = r.Run(2, func(context.Context) { close(ready) })
		close(r.ran)
	}()
	select {
	case <-ready:
	case <-r.ran:
		t.Fatal(r.runErr)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := r.Stop(ctx); err != nil {
			t.Error(err)
		}
		if <-r.ran; r.runErr != r.wantErr {
			t.Error(r.runErr)
		}
		engine.Stop()
		if err := data.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// Append is the log's, unless it is broken.
func (l *breakableLog) Append(database, after int, pieces ...[]byte) (int64, error) {
	if l.broken.Load() {
		if l.failing != nil {
			l.failing()
		}
		return 0, errBroken
	}
	return l.Directory.Log().Append(database, after, pieces...)
}

func (l *breakableLog) Sync(position int64) error          { return l.Directory.Log().Sync(position) }
func (l *breakableLog) Position() int64                    { return l.Directory.Log().Position() }
func (l *breakableLog) Database() int                      { return l.Directory.Log().Database() }
func (l *breakableLog) Purge(persisted int64) (int, error) { return l.Directory.Log().Purge(persisted) }
func (l *breakableLog) AwaitsRoom() bool                   { return l.Directory.Log().AwaitsRoom() }

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

func (r *running) address() string {
	port := r.config.Port.Get()
	if r.clients != nil {
		port = r.config.TLSPort.Get()
	}
	return net.JoinHostPort("127.0.0.1", strconv.FormatInt(port, 10))
}

// client is a connection to the server.
type client struct {
	*resp.Connection
	t *testing.T
}

func (r *running) dial() *client {
	r.t.Helper()
	var c *resp.Connection
	var err error
	if r.clients != nil {
		c, err = resp.DialTLS(r.address(), patience, r.clients)
	} else {
		c, err = resp.Dial(r.address(), patience)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { c.Close() })
	return &client{c, r.t}
}

// do returns the reply to a request.
func (c *client) do(words ...string) string {
	c.t.Helper()
	reply, err := c.Do(words...)
	if err != nil {
		c.t.Fatalf("%q: %v", words, err)
	}
	return reply.String()
}

// want expects a reply.
func (c *client) want(reply string, words ...string) {
	c.t.Helper()
	if got := c.do(words...); got != reply {
		c.t.Errorf("%q: %s, want %s", words, got, reply)
	}
}

// wantClosed expects the server to close the connection.
func (c *client) wantClosed() {
	c.t.Helper()
	for {
		_, err := c.Read() // what came before the end
		var timeout net.Error
		switch {
		case err == nil:
		case errors.As(err, &timeout) && timeout.Timeout():
			c.t.Fatal("the connection is still open")
		default:
			return
		}
	}
}

// field returns a field of INFO.
func (c *client) field(name string) string {
	c.t.Helper()
	reply, err := c.Must("info", "everything")
	if err != nil {
		c.t.Fatal(err)
	}
	for line := range strings.Lines(string(reply.Text)) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+":"); ok {
			return value
		}
	}
	c.t.Fatalf("INFO has no field %s", name)
	return ""
}

// eventually waits for something that has to happen.
func eventually(t *testing.T, what string, happened func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !happened(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it never came that %s", what)
		}
	}
}

func TestMaxClients(t *testing.T) {
	r := startServer(t, "maxclients", "2")
	a, b := r.dial(), r.dial()
	a.want("+PONG", "ping")
	b.want("+PONG", "ping")
	c := r.dial()
	if reply, err := c.Read(); err != nil || reply.String() != "-ERR max number of clients reached" {
		t.Errorf("the third client got %s (%v)", reply, err)
	}
	c.wantClosed()
	if got := a.field("rejected_connections"); got != "1" {
		t.Errorf("%s connections were rejected", got)
	}
	a.want("+OK", "config", "set", "maxclients", "3")
	r.dial().want("+PONG", "ping")
}

// TestDescriptorsRunOut pretends that the process has no more descriptors than it uses.
func TestDescriptorsRunOut(t *testing.T) {
	r := startPrepared(t, func(s *running) { s.mostDescriptor = 3 })
	c := r.dial()
	if reply, err := c.Read(); err != nil || reply.String() != "-ERR max number of clients reached" {
		t.Errorf("the client got %s (%v)", reply, err)
	}
	c.wantClosed()
}

func TestTimeout(t *testing.T) {
	r := startServer(t)
	idle, listener, monitor, admin := r.dial(), r.dial(), r.dial(), r.dial()
	idle.want("+PONG", "ping")
	if got := listener.do("subscribe", "news"); !strings.Contains(got, "subscribe") {
		t.Fatal(got)
	}
	monitor.want("+OK", "monitor")
	admin.want("+OK", "config", "set", "timeout", "1")
	idle.wantClosed()
	r.dial().want(":1", "publish", "news", "still there")
	if got, err := listener.Read(); err != nil || !strings.Contains(got.String(), "still there") {
		t.Errorf("the listener got %s (%v)", got, err)
	}
	if _, err := monitor.Read(); err != nil {
		t.Errorf("the monitor: %v", err)
	}
}

// TestWaitingIsNotIdling looks at connections as if time had passed: one that waits for the end of
// its command, and one that has taken some of what was sent, are no idle ones.
func TestWaitingIsNotIdling(t *testing.T) {
	r := startServer(t, "timeout", "1000")
	c := r.dial()
	c.want("+OK", "client", "pause", "1000000", "write")
	c.Queue("set", "key", "value")
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	later := time.Now().Add(time.Hour)
	eventually(t, "the client waits", func() bool { return r.look(func(c *connection) bool { return c.parked() && !c.traffic }) })
	if !r.look(func(c *connection) bool { c.lookAfter(later); return c.seen.Equal(later) && !c.dropped }) {
		t.Error("a client that waits counts as idle")
	}
	r.dial().want("+OK", "client", "unpause")
	if reply, err := c.Read(); err != nil || reply.String() != "+OK" {
		t.Fatalf("SET: %s (%v)", reply, err)
	}
	later = later.Add(time.Hour)
	if !r.look(func(c *connection) bool {
		c.outputBytes.Add(1)
		c.lookAfter(later)
		return c.seen.Equal(later) && !c.dropped
	}) {
		t.Error("a client that reads counts as idle")
	}
}

// look calls a function for all connections, on their reactors, and tells whether it returned true
// for each, and there are any.
func (r *running) look(at func(c *connection) bool) bool {
	looked := make(chan [2]bool, 2)
	r.mu.Lock()
	reactors := len(r.reactors)
	for _, reactor := range r.reactors {
		reactor.post(func() {
			all := true
			for _, c := range reactor.connections {
				all = at(c) && all
			}
			looked <- [2]bool{all, len(reactor.connections) > 0}
		})
	}
	r.mu.Unlock()
	all, some := true, false
	for range reactors {
		result := <-looked
		all, some = all && result[0], some || result[1]
	}
	return all && some
}

// TestIdleClientsAreSlim looks into the reactors: a client that waits holds no buffers.
func TestIdleClientsAreSlim(t *testing.T) {
	r := startServer(t)
	c := r.dial()
	c.want("+OK", "set", "key", strings.Repeat("x", 20000))
	c.do("get", "key")
	eventually(t, "the connection is slim", func() bool { return r.look(func(c *connection) bool { return c.slim }) })
	if got := c.do("strlen", "key"); got != ":20000" {
		t.Errorf("afterwards the reply is %s", got)
	}
}

func TestOutputLimitOfSubscribers(t *testing.T) {
	r := startServer(t, "client-output-buffer-limit", "pubsub 1mb 0 0")
	listener, publisher := r.dial(), r.dial()
	listener.do("subscribe", "news")
	message := strings.Repeat("x", 100_000)
	eventually(t, "the listener is disconnected", func() bool {
		return publisher.do("publish", "news", message) == ":0"
	})
	listener.wantClosed()
	if got := publisher.field("client_output_buffer_limit_disconnections"); got != "1" {
		t.Errorf("%s clients were disconnected", got)
	}
}

// TestOutputLimitOfMonitors has a monitor not read what others do: the limit of normal clients is
// its own.
func TestOutputLimitOfMonitors(t *testing.T) {
	r := startServer(t, "client-output-buffer-limit", "normal 1mb 0 0")
	monitor, worker := r.dial(), r.dial()
	monitor.want("+OK", "monitor")
	message := strings.Repeat("x", 100_000)
	eventually(t, "the monitor is disconnected", func() bool {
		worker.do("echo", message)
		return worker.field("connected_clients") == "1"
	})
	monitor.wantClosed()
}

func TestSoftOutputLimit(t *testing.T) {
	r := startServer(t, "client-output-buffer-limit", "pubsub 0 20000 1")
	listener, publisher := r.dial(), r.dial()
	listener.do("subscribe", "news")
	message := strings.Repeat("x", 8<<20) // more than the sockets take, so that some waits
	for range 4 {
		publisher.do("publish", "news", message)
	}
	eventually(t, "the listener is disconnected", func() bool {
		return publisher.do("pubsub", "numsub", "news") == `["news" :0]`
	})
}

func TestOutputLimitOfReplies(t *testing.T) {
	r := startServer(t, "client-output-buffer-limit", "normal 1mb 0 0")
	c, other := r.dial(), r.dial()
	c.want("+OK", "set", "key", strings.Repeat("x", 100_000))
	for range 500 { // more than the kernel's buffers hold, so that nothing of it depends on how fast somebody reads
		c.Queue("get", "key")
	}
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the client is dropped", func() bool { return other.field("connected_clients") == "1" })
	c.wantClosed()
	other.want("+PONG", "ping")
}

// TestOutputLimitWhileComposing: a request ends when its reply is more than may wait to be sent,
// not when the reply is whole. What isn't sent has no limit.
func TestOutputLimitWhileComposing(t *testing.T) {
	r := startServer(t, "client-output-buffer-limit", "normal 1mb 0 0")
	c, silent := r.dial(), r.dial()
	c.want(":1", "hset", "hash", "field", strings.Repeat("x", 10_000))
	silent.Queue("client", "reply", "off")
	silent.Queue("hrandfield", "hash", "-3000", "withvalues")
	silent.want("+OK", "client", "reply", "on")
	c.Queue("hrandfield", "hash", "-1000000000000", "withvalues")
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	c.wantClosed()
	silent.want("+PONG", "ping")
}

// TestPausedClientsThatAreGone: nothing refers to clients that have gone while a pause held them,
// so what they have sent goes with them.
func TestPausedClientsThatAreGone(t *testing.T) {
	r := startServer(t)
	c := r.dial()
	c.want("+OK", "client", "pause", "600000", "write")
	for range 4 {
		other := r.dialRaw()
		other.send("set key value\r\n")
		eventually(t, "the request waits", func() bool { return r.sharedWaits() == 1 })
		if err := other.Close(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the client is gone", func() bool { return r.sharedWaits() == 0 })
	}
	c.want("+OK", "client", "unpause")
	c.want("+OK", "set", "key", "1")
}

// sharedWaits is how many connections wait for what many can wait for.
func (r *running) sharedWaits() int {
	return r.sum(func(reactor *reactor) (waiting int) {
		for _, list := range reactor.waits.shared {
			waiting += len(list)
		}
		return waiting
	})
}

// sum adds up what a function counts on each reactor.
func (r *running) sum(of func(*reactor) int) (count int) {
	r.mu.Lock()
	reactors := len(r.reactors)
	counts := make(chan int, reactors)
	for _, reactor := range r.reactors {
		reactor.post(func() { counts <- of(reactor) })
	}
	r.mu.Unlock()
	for range reactors {
		count += <-counts
	}
	return count
}

// TestRepliesAreNotCutOff reads a large reply slowly, behind which the server closes the
// connection.
func TestRepliesAreNotCutOff(t *testing.T) {
	r := startServer(t)
	c := r.dial()
	value := strings.Repeat("0123456789", 2<<20)
	c.want("+OK", "set", "key", value)
	raw := r.dialRaw()
	if _, err := raw.Write([]byte("GET key\r\nQUIT\r\n")); err != nil {
		t.Fatal(err)
	}
	c.want("+PONG", "ping")
	time.Sleep(50 * time.Millisecond) // so that the reply waits in buffers
	reply, err := io.ReadAll(raw)
	if want := fmt.Sprintf("$%d\r\n%s\r\n+OK\r\n", len(value), value); err != nil || string(reply) != want {
		t.Errorf("%d of %d bytes came (%v)", len(reply), len(want), err)
	}
}

func TestPause(t *testing.T) {
	r := startServer(t)
	admin, writer, reader := r.dial(), r.dial(), r.dial()
	writer.want("+OK", "set", "key", "before")
	admin.want("+OK", "client", "pause", "100000", "write")
	writer.Queue("set", "key", "after")
	writer.Queue("get", "key")
	if err := writer.Flush(); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		reader.want(`"before"`, "get", "key")
	}
	admin.want("+OK", "client", "unpause")
	for _, want := range []string{"+OK", `"after"`} {
		if got, err := writer.Read(); err != nil || got.String() != want {
			t.Errorf("after the pause: %s (%v), want %s", got, err, want)
		}
	}
	admin.want("+OK", "client", "pause", "50")
	admin.want("+PONG", "ping") // waits for the end, which comes by itself
	reader.want(`"after"`, "get", "key")
}

func TestKill(t *testing.T) {
	r := startServer(t)
	admin, victim := r.dial(), r.dial()
	id := strings.TrimPrefix(victim.do("client", "id"), ":")
	admin.want(":1", "client", "kill", "id", id)
	victim.wantClosed()
	// Nobody finds it any more, though it may be another reactor that closes it.
	for range 50 {
		victim = r.dial()
		id = strings.TrimPrefix(victim.do("client", "id"), ":")
		admin.want(":1", "client", "kill", "id", id)
		admin.want(":0", "client", "kill", "id", id)
		if list := admin.do("client", "list"); strings.Contains(list, "id="+id+" ") {
			t.Fatalf("client %s was killed, and is listed: %s", id, list)
		}
	}
	// One that waits for the end of a pause can be closed too.
	victim, waiter := r.dial(), r.dial()
	id = strings.TrimPrefix(victim.do("client", "id"), ":")
	waiter.want("+PONG", "ping")
	admin.want("+OK", "client", "pause", "100000", "write")
	victim.Queue("set", "a", "1")
	if err := victim.Flush(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the victim waits", func() bool { return strings.Contains(admin.do("client", "list", "id", id), "cmd=set") })
	admin.want(":1", "client", "kill", "id", id)
	victim.wantClosed()
	admin.want("+OK", "client", "unpause")
	admin.want("nil", "get", "a")
}

func TestMonitorSeesEverythingInOrder(t *testing.T) {
	r := startServer(t)
	const monitors, commands = 4, 200
	var watching []*client
	for range monitors {
		m := r.dial()
		m.want("+OK", "monitor") // nothing comes before
		watching = append(watching, m)
	}
	c := r.dial()
	for i := range commands {
		c.Queue("echo", strconv.Itoa(i))
	}
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	for i := range commands {
		for _, m := range watching {
			reply, err := m.Read()
			if want := fmt.Sprintf(`"echo" "%d"`, i); err != nil || !strings.HasSuffix(string(reply.Text), want) {
				t.Fatalf("%s (%v), want … %s", reply, err, want)
			}
		}
	}
}

// TestFailedCommitKeepsOrder sends a pipeline whose commit fails, with commands in it that go on on
// a worker: each is answered, in order, writes with the error.
func TestFailedCommitKeepsOrder(t *testing.T) {
	r := startServer(t)
	c := r.dial()
	c.want("+OK", "set", "key", "old")
	r.log.broken.Store(true)
	for _, request := range [][]string{{"set", "key", "new"}, {"get", "key"}, {"keys", "*"}, {"set", "key", "newer"}, {"client", "pause", "1", "write"},
		{"echo", "end"}} {
		c.Queue(request...)
	}
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	refused := "-MISCONF Errors writing to the log: "
	for i, want := range []string{refused, `"old"`, `["key"]`, refused, "+OK", `"end"`} {
		if got, err := c.Read(); err != nil || !strings.HasPrefix(got.String(), want) {
			t.Errorf("reply %d is %s (%v), want %s…", i, got, err, want)
		}
	}
	r.log.broken.Store(false)
	c.want("+OK", "set", "key", "new")
}

// TestFailedCommitDeniesOnce sends a pipeline whose commit fails, with a request in it that the
// user may not make: that is noted once, though it is executed again.
func TestFailedCommitDeniesOnce(t *testing.T) {
	r := startServer(t)
	other, c := r.dial(), r.dial()
	other.want("+OK", "acl", "setuser", "writer", "on", "nopass", "~*", "+set")
	c.want("+OK", "auth", "writer", "any")
	r.log.broken.Store(true)
	c.Queue("set", "key", "value")
	c.Queue("get", "key")
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"-MISCONF ", "-NOPERM "} {
		if got, err := c.Read(); err != nil || !strings.HasPrefix(got.String(), want) {
			t.Errorf("answered %s (%v) instead of %s", got, err, want)
		}
	}
	r.log.broken.Store(false)
	if got := other.field("acl_access_denied_cmd"); got != "1" {
		t.Errorf("%s denials are counted", got)
	}
}

// TestFailedCommitBeforeAProtocolError sends a pipeline whose commit fails, with a request in it
// that waits when it is executed again, and what is no request behind it: that is answered last.
func TestFailedCommitBeforeAProtocolError(t *testing.T) {
	r := startServer(t)
	r.log.failing = func() { r.engine.Pause.Begin(execute.PauseEverything, time.Now().Add(100*time.Millisecond)) }
	r.log.broken.Store(true)
	c := r.dialRaw()
	c.send("SET key value\r\nECHO end\r\n*1\r\n!\r\n")
	got, err := io.ReadAll(c.lines)
	refusal, rest, _ := strings.Cut(string(got), "\r\n")
	if err != nil || !strings.HasPrefix(refusal, "-MISCONF") || rest != "$3\r\nend\r\n-ERR Protocol error: expected '$', got '!'\r\n" {
		t.Errorf("the replies are %q (%v)", got, err)
	}
}

// TestFailedCommitBeforeTheEnd sends a pipeline whose commit fails, and whose last request closes
// the connection.
func TestFailedCommitBeforeTheEnd(t *testing.T) {
	r := startServer(t)
	r.log.broken.Store(true)
	for name, last := range map[string]struct{ request, reply string }{
		"quit":           {"QUIT\r\n", "+OK\r\n"},
		"protocol error": {"*1\r\n!\r\n", "-ERR Protocol error: expected '$', got '!'\r\n"},
		"half closed":    {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := r.sendLast(r.dialRaw(), "SET key value\r\nECHO end\r\n"+last.request)()
			refusal, rest, _ := strings.Cut(got, "\r\n")
			if !strings.HasPrefix(refusal, "-MISCONF") || rest != "$3\r\nend\r\n"+last.reply {
				t.Errorf("the replies are %q", got)
			}
		})
	}
}

func TestAddressesOfClients(t *testing.T) {
	r := startServer(t, "tcp-backlog", "7")
	c := r.dial()
	line := c.do("client", "info")
	if want := " laddr=" + r.address() + " "; !strings.Contains(line, want) {
		t.Errorf("%s lacks %q", line, want)
	}
	if listening := r.Addresses(); !slices.Contains(listening, r.address()) {
		t.Errorf("listens on %q, and not on %s", listening, r.address())
	}
}

// TestQuitWithoutReply: the connection is closed though nothing is answered, unlike in Redis.
func TestQuitWithoutReply(t *testing.T) {
	r := startServer(t)
	for _, words := range []string{"OFF", "SKIP"} {
		c := r.dial()
		c.Queue("CLIENT", "REPLY", words)
		c.Queue("QUIT")
		if err := c.Flush(); err != nil {
			t.Fatal(err)
		}
		c.wantClosed()
	}
}

// TestNoRequestWithoutReply: what is no request is counted, and not answered where no replies are
// wanted. The connection is closed all the same, unlike in Redis.
func TestNoRequestWithoutReply(t *testing.T) {
	r := startServer(t)
	for i, words := range []string{"OFF", "SKIP"} {
		c := r.dialRaw()
		c.send("CLIENT REPLY " + words + "\r\n*z\r\n")
		if reply, err := io.ReadAll(c); len(reply) > 0 || err != nil {
			t.Errorf("the client got %q (%v)", reply, err)
		}
		if got := r.engine.Statistics.Errors.Sum(); got != int64(i+1) {
			t.Errorf("%d errors are counted, want %d", got, i+1)
		}
	}
}

func TestWebPagesAreRefused(t *testing.T) {
	r := startServer(t)
	raw, err := net.Dial("tcp", r.address())
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	if _, err := raw.Write([]byte("POST / HTTP/1.1\r\nContent-Length: 11\r\n\r\nSET key bad\r\n")); err != nil {
		t.Fatal(err)
	}
	if reply, err := io.ReadAll(raw); len(reply) > 0 {
		t.Errorf("the web page got %q (%v)", reply, err)
	}
	r.dial().want("nil", "get", "key")
}

// TestStaleConnectionsAreNoWarning: gnet warns of events of connections that were closed a moment
// before.
func TestStaleConnectionsAreNoWarning(t *testing.T) {
	var log bytes.Buffer
	l := gnetLogger{hclog.New(&hclog.LoggerOptions{Output: &log, Level: hclog.Debug})}
	for format, level := range map[string]string{
		"received event[fd=%d|ev=%d|flags=%d] of a stale connection from event-loop(%d)": "[DEBUG]",
		"failed to wake up the poller: %d %d %d %d":                                      "[WARN]",
	} {
		log.Reset()
		l.Warnf(format, 1, 2, 3, 4)
		if !strings.Contains(log.String(), level) {
			t.Errorf("it is logged as %s", log.String())
		}
	}
}
