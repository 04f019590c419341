// Package server serves clients: gnet's reactors, connections and pipelines.
//
// It knows how requests come and replies leave, and nothing of what they mean: package command
// does. Nor does it know where the data is: package datadir does.
package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/panjf2000/gnet/v2"
	"github.com/panjf2000/gnet/v2/pkg/logging"

	"kedis/internal/config"
	"kedis/internal/resp"
	"kedis/server/execute"
)

// Server serves the clients of one engine.
type Server struct {
	gnet.BuiltinEventEngine

	engine *execute.Engine
	config *config.Config
	logger hclog.Logger
	limits *resp.Limits

	outboundPause  int
	mostWaiting    int
	mostDescriptor int
	loops          int         // that serve
	exhausted      atomic.Bool // the last connection had too high a descriptor

	undelivered atomic.Int64 // bytes of messages on their way; see mostUndelivered

	addresses []string // that the server listens on, as the kernel tells; set before ready is called

	ending   chan struct{} // closed by the first Stop
	ended    chan struct{} // closed when nothing runs any more
	givenUp  chan struct{} // closed by a Stop that has waited in vain
	endOnce  sync.Once
	giveUp   sync.Once
	mu       sync.Mutex
	reactors map[gnet.EventLoop]*reactor
	loading  loading // tick's
	balance  balance // guarded by mu
	moves    sync.WaitGroup
	stop     chan struct{}
	ticking  sync.WaitGroup
}

// outboundPause is how much may wait to be sent to a client before its next request is executed.
const outboundPause = 4 << 20

// New makes a server for an engine that was made for as many reactors as the configuration says.
func New(engine *execute.Engine, c *config.Config, logger hclog.Logger) *Server {
	s := &Server{engine: engine, config: c, logger: logger, outboundPause: outboundPause, mostWaiting: mostWaiting,
		mostDescriptor: mostDescriptor(), ending: make(chan struct{}), ended: make(chan struct{}), givenUp: make(chan struct{}),
		reactors: map[gnet.EventLoop]*reactor{}, balance: newBalance(c.Reactors.Get() > 0), stop: make(chan struct{})}
	engine.Courier = s.deliver
	engine.Synchronous.Reconsider = s.reconsider
	c.OnChange("maxclients", s.checkMaxClients)
	s.limits = &resp.Limits{BulkLength: c.ProtoMaxBulkLen.Get, QueryBuffer: c.QueryBufferLimit.Get}
	return s
}

// UseProcessors names what changes how many processors Go uses, so that the server can have more of
// them while it waits for the disk. It is called before Run, if at all: the number is the whole
// process's.
func (s *Server) UseProcessors(set func(processors int)) {
	s.loading = loading{set: set, ordinary: runtime.GOMAXPROCS(0)}
}

// checkMaxClients refuses what the limit of open files doesn't allow, in Redis's words.
func (s *Server) checkMaxClients() error {
	if d := shareConfigured(s.config, descriptorLimit(), s.loops); s.config.MaxClients.Get() > int64(d.clients) {
		return config.Refusal(fmt.Sprintf("The operating system is not able to handle the specified number of clients, try with %d", d.clients))
	}
	return nil
}

// ErrStuck is Run's when Stop has waited in vain. What still runs may use the engine.
var ErrStuck = errors.New("server: what was to end with the server still runs; the disk may not answer")

// Run serves until Stop is called. ready is called as soon as clients are accepted, on a goroutine
// of its own; its context ends when no more clients are served. Run returns when ready has, or with
// ErrStuck.
func (s *Server) Run(reactors int, ready func(ctx context.Context)) error {
	addresses, err := addresses(s.config)
	if err != nil {
		return err
	}
	s.loops = reactors
	accepting, err := s.listen(addresses)
	if err != nil {
		return err
	}
	// Go has set TCP_NODELAY already.
	loops, err := gnet.NewClient(s, gnet.WithNumEventLoop(reactors), gnet.WithTCPNoDelay(gnet.TCPDelay), gnet.WithLogger(gnetLogger{s.logger}), gnet.WithLogLevel(logging.WarnLevel))
	if err == nil {
		err = loops.Start()
	}
	if err != nil {
		return errors.Join(fmt.Errorf("server: %w", err), accepting.end())
	}
	for _, listener := range accepting.listeners {
		s.addresses = append(s.addresses, listener.Addr().String())
	}
	return s.serve(accepting, loops, ready)
}

// serve accepts connections until Stop is called.
func (s *Server) serve(accepting *acceptance, loops *gnet.Client, ready func(ctx context.Context)) error {
	ctx, cancel := context.WithCancel(context.Background())
	var readying sync.WaitGroup
	s.ticking.Add(1)
	go s.tick()
	accepting.start(loops)
	readying.Go(func() { ready(ctx) })
	<-s.ending
	var err error
	go func() {
		defer close(s.ended)
		err = accepting.end()
		s.endMoves()
		err = errors.Join(err, loops.Stop())
		cancel()
		readying.Wait()
		close(s.stop)
		s.ticking.Wait()
		for _, r := range s.reactors {
			r.end()
		}
	}()
	select {
	case <-s.ended:
		return err
	case <-s.givenUp:
		return ErrStuck
	}
}

// Stop ends Run. It returns when nothing that Run has begun goes on, or with the context, and then
// Run does, too: a reactor may wait for the disk for ever.
func (s *Server) Stop(ctx context.Context) error {
	s.endOnce.Do(func() { close(s.ending) })
	select {
	case <-s.ended:
		return nil
	case <-ctx.Done():
		s.giveUp.Do(func() { close(s.givenUp) })
		return ctx.Err()
	}
}

// reconsider has all reactors look again at the replies that they hold back.
func (s *Server) reconsider() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.reactors {
		r.post(r.reconsider)
	}
}

// reactor returns the reactor of an event loop.
func (s *Server) reactor(loop gnet.EventLoop) *reactor {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.reactors[loop]
	if r == nil {
		r = newReactor(s, loop, len(s.reactors))
		s.reactors[loop] = r
	}
	return r
}

// OnOpen is called by gnet on the connection's event loop.
func (s *Server) OnOpen(conn gnet.Conn) ([]byte, gnet.Action) {
	ownZone(conn.RemoteAddr())
	ownZone(conn.LocalAddr())
	if a, is := conn.Context().(*alarm); is {
		if err := a.open(s.reactor(conn.EventLoop()), conn.Fd()); err != nil {
			s.logger.Debug("deadlines come late until there is an alarm", "error", err)
			a.failed = true
			return nil, gnet.Close
		}
		return nil, gnet.None
	}
	if c, moved := conn.Context().(*connection); moved {
		c.attach(s.reactor(conn.EventLoop()), conn)
		return nil, gnet.None
	}
	encryption, _ := conn.Context().(*encryption)
	if refusal := s.refuse(conn); refusal != "" {
		text := []byte("-" + refusal + "\r\n")
		if encryption != nil {
			text = encryption.last(text)
		}
		return text, gnet.Close
	}
	s.engine.Statistics.Connections.Add(1)
	c := s.newConnection(s.ends(conn))
	c.encryption = encryption
	conn.SetContext(c)
	c.attach(s.reactor(conn.EventLoop()), conn)
	s.engine.Clients.Add(c.session)
	if encryption != nil {
		c.beginEncrypted()
	}
	return nil, gnet.None
}

const protectedText = "DENIED Kedis is running in protected mode because protected mode is enabled and no password is set for the default user. " +
	"In this mode connections are only accepted from the loopback interface. " +
	"Set a password (requirepass) or turn protected-mode off to accept others."

// refuse tells why a connection is not taken; "" if it is.
func (s *Server) refuse(conn gnet.Conn) string {
	exhausted := conn.Fd() > s.mostDescriptor
	if s.exhausted.Swap(exhausted) != exhausted && exhausted {
		s.logger.Warn("refusing connections, since the limit of open files is nearly reached", "descriptor", conn.Fd())
	}
	if exhausted || int64(s.engine.Clients.Count()) >= s.config.MaxClients.Get() {
		s.engine.Statistics.Rejected.Add(1)
		return "ERR max number of clients reached"
	}
	if s.config.ProtectedMode.Get() && s.engine.Users.Default().NeedsNoPassword() {
		if tcp, ok := conn.RemoteAddr().(*net.TCPAddr); ok && !tcp.IP.IsLoopback() {
			return protectedText
		}
	}
	return ""
}

// OnClose is called by gnet on the connection's event loop.
func (s *Server) OnClose(conn gnet.Conn, cause error) gnet.Action {
	c, ok := conn.Context().(*connection)
	if !ok {
		return gnet.None
	}
	if !c.halfClose(conn, cause) {
		s.closed(c)
	}
	return gnet.None
}

// closed is called when a connection has no socket any more.
func (s *Server) closed(c *connection) {
	c.closed = true
	if c.handedOver.Load() == nil {
		c.session.CloseAfterReply() // a worker that waits for others sees that nobody waits for it
	}
	delete(c.reactor.unsent, c)
	c.reactor.remove(c)
	c.reactor.abandon(c)
	if !c.working && c.handedOver.Load() == nil {
		s.forget(c)
	}
}

// forget ends a session whose connection is closed.
func (s *Server) forget(c *connection) { s.engine.Disconnect(c.session) }

// OnTraffic is called by gnet when something was read. All of it is taken: what gnet keeps it would
// copy again at each event.
func (s *Server) OnTraffic(conn gnet.Conn) gnet.Action {
	bytes, err := conn.Next(-1)
	c, is := conn.Context().(*connection)
	if !is {
		s.reactor(conn.EventLoop()).ring()
		return gnet.None
	}
	c.traffic = true
	c.reactor.arrivals.count(c)
	if err == nil {
		s.engine.Statistics.Reads.Add(c.reactor.number, 1)
		if c.session.Closing() || c.dropped {
			return gnet.None // nothing of it will be executed
		}
		if c.encryption != nil {
			err = c.decrypt(bytes)
		} else {
			err = c.feed(bytes)
		}
	}
	if c.refuseInput(err) {
		return gnet.Close
	}
	c.reactor.arrive(c)
	c.restrain()
	return gnet.None
}

// feed gives the parser what the client has sent.
func (c *connection) feed(bytes []byte) error {
	c.server.engine.Statistics.NetInput.Add(c.reactor.number, int64(len(bytes)))
	return c.parser.Feed(bytes)
}

// refuseInput reports whether what came can't be taken, so that the connection has to be closed.
func (c *connection) refuseInput(err error) bool {
	s := c.server
	if err != nil {
		if errors.Is(err, resp.ErrQueryBuffer) {
			s.engine.Statistics.QueryBufferExceeded.Add(1)
		}
		s.logger.Warn("closing a connection", "client", c.remote, "error", err)
	}
	return err != nil
}

const tickInterval = 100 * time.Millisecond

// tick has each reactor look after what no event tells it of.
func (s *Server) tick() {
	defer s.ticking.Done()
	ticker := time.NewTicker(tickInterval)
	defer ticker.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-ticker.C:
		}
		now := time.Now()
		s.engine.Sample(now)
		s.loading.look(s.engine.Loads())
		s.lookAfter(now)
	}
}

func (s *Server) lookAfter(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.reactors {
		if r.held.Load() > 0 || r.arrivals.before().clients > 0 {
			r.post(func() { r.tick(now) })
		}
	}
	s.rebalance()
}

// gnetLogger passes on what gnet has to say.
type gnetLogger struct{ logger hclog.Logger }

func (l gnetLogger) Debugf(format string, args ...any) { l.logger.Debug(fmt.Sprintf(format, args...)) }
func (l gnetLogger) Infof(format string, args ...any)  { l.logger.Debug(fmt.Sprintf(format, args...)) }
func (l gnetLogger) Errorf(format string, args ...any) { l.logger.Error(fmt.Sprintf(format, args...)) }
func (l gnetLogger) Fatalf(format string, args ...any) { l.logger.Error(fmt.Sprintf(format, args...)) }

// Warnf passes on warnings. That something came of a connection which was closed in the same pass
// isn't one for users.
func (l gnetLogger) Warnf(format string, args ...any) {
	if strings.Contains(format, "of a stale connection") {
		l.Debugf(format, args...)
		return
	}
	l.logger.Warn(fmt.Sprintf(format, args...))
}
