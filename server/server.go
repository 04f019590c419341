// Package server serves clients: gnet's reactors, connections and pipelines.
//
// It knows how requests come and replies leave, and nothing of what they mean: package command
// does. It opens the data directory, recovers it, and closes it.
package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/panjf2000/gnet/v2"
	"github.com/panjf2000/gnet/v2/pkg/logging"

	"kedis/internal/config"
	"kedis/internal/resp"
	"kedis/server/command"
)

// Server serves the clients of one engine.
type Server struct {
	gnet.BuiltinEventEngine

	engine *command.Engine
	config *config.Config
	logger hclog.Logger
	limits *resp.Limits

	outboundPause int

	gnet     gnet.Engine
	booted   chan struct{}
	mu       sync.Mutex
	reactors map[gnet.EventLoop]*reactor
	stop     chan struct{}
	ticking  sync.WaitGroup
}

// outboundPause is how much may wait to be sent to a client before its next request is executed.
const outboundPause = 4 << 20

// New makes a server for an engine that was made for as many reactors as the configuration says.
func New(engine *command.Engine, c *config.Config, logger hclog.Logger) *Server {
	s := &Server{engine: engine, config: c, logger: logger, outboundPause: outboundPause,
		booted: make(chan struct{}), reactors: map[gnet.EventLoop]*reactor{}, stop: make(chan struct{})}
	s.limits = &resp.Limits{BulkLength: c.ProtoMaxBulkLen.Get, QueryBuffer: c.QueryBufferLimit.Get}
	return s
}

// Run serves until Stop is called. ready is called as soon as clients are accepted.
func (s *Server) Run(reactors int, ready func()) error {
	addresses, err := s.addresses()
	if err != nil {
		return err
	}
	go func() {
		<-s.booted
		ready()
	}()
	s.ticking.Add(1)
	go s.tick()
	options := []gnet.Option{gnet.WithNumEventLoop(reactors), gnet.WithTCPNoDelay(gnet.TCPNoDelay),
		gnet.WithReuseAddr(true), gnet.WithLoadBalancing(gnet.LeastConnections),
		gnet.WithLogger(gnetLogger{s.logger}), gnet.WithLogLevel(logging.WarnLevel)}
	if seconds := s.config.TCPKeepalive.Get(); seconds > 0 {
		options = append(options, gnet.WithTCPKeepAlive(time.Duration(seconds)*time.Second))
	}
	err = gnet.Rotate(s, addresses, options...)
	close(s.stop)
	s.ticking.Wait()
	return err
}

// Stop ends Run.
func (s *Server) Stop(ctx context.Context) error {
	<-s.booted
	return s.gnet.Stop(ctx)
}

// addresses are where to listen: all that are configured, but those with a minus before them that
// the machine doesn't have.
func (s *Server) addresses() ([]string, error) {
	var addresses []string
	port := strconv.FormatInt(s.config.Port.Get(), 10)
	for _, host := range s.config.Bind.Get() {
		host, optional := strings.CutPrefix(host, "-")
		network := "tcp"
		switch host {
		case "*":
			network, host = "tcp4", "0.0.0.0"
		case "::*":
			network, host = "tcp6", "::"
		}
		address := net.JoinHostPort(host, port)
		if err := probe(network, address); err == nil {
			addresses = append(addresses, network+"://"+address)
		} else if !optional || errors.Is(err, syscall.EADDRINUSE) {
			return nil, err
		}
	}
	return addresses, nil
}

// probe tells a port in use from other troubles before gnet hides which of the addresses it was.
func probe(network, address string) error {
	l, err := net.Listen(network, address)
	if err != nil {
		return fmt.Errorf("server: %w", err)
	}
	if err := l.Close(); err != nil {
		return fmt.Errorf("server: %w", err)
	}
	return nil
}

// OnBoot is called by gnet when the server listens.
func (s *Server) OnBoot(engine gnet.Engine) gnet.Action {
	s.gnet = engine
	close(s.booted)
	return gnet.None
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
	if refusal := s.refuse(conn); refusal != "" {
		return []byte("-" + refusal + "\r\n"), gnet.Close
	}
	c := &connection{conn: conn, reactor: s.reactor(conn.EventLoop()), parser: resp.NewParser(s.limits),
		remote: conn.RemoteAddr().String(), local: conn.LocalAddr().String()}
	c.session = command.NewSession(c, s.config.RequirePass.Get() == "")
	s.engine.Clients.Add(c.session)
	conn.SetContext(c)
	return nil, gnet.None
}

const protectedText = "DENIED Kedis is running in protected mode because protected mode is enabled and no password is set for the default user. " +
	"In this mode connections are only accepted from the loopback interface. " +
	"Set a password (requirepass) or turn protected-mode off to accept others."

// refuse tells why a connection is not taken; "" if it is.
func (s *Server) refuse(conn gnet.Conn) string {
	if int64(s.engine.Clients.Count()) >= s.config.MaxClients.Get() {
		return "ERR max number of clients reached"
	}
	if s.config.ProtectedMode.Get() && s.config.RequirePass.Get() == "" {
		if tcp, ok := conn.RemoteAddr().(*net.TCPAddr); ok && !tcp.IP.IsLoopback() {
			return protectedText
		}
	}
	return ""
}

// OnClose is called by gnet on the connection's event loop.
func (s *Server) OnClose(conn gnet.Conn, _ error) gnet.Action {
	c, ok := conn.Context().(*connection)
	if !ok {
		return gnet.None
	}
	c.closed = true
	delete(c.reactor.paused, c)
	if !c.working {
		s.forget(c)
	}
	return gnet.None
}

// forget ends a session whose connection is closed.
func (s *Server) forget(c *connection) { s.engine.Disconnect(c.session) }

// OnTraffic is called by gnet when something was read. All of it is taken: what gnet keeps it would
// copy again at each event.
func (s *Server) OnTraffic(conn gnet.Conn) gnet.Action {
	c := conn.Context().(*connection)
	bytes, err := conn.Next(-1)
	if err == nil {
		err = c.parser.Feed(bytes)
	}
	if err != nil {
		s.logger.Warn("closing a connection", "client", c.remote, "error", err)
		return gnet.Close
	}
	if !c.parked {
		c.reactor.process(c)
	}
	return gnet.None
}

// limitOutput closes a connection that doesn't read what is sent to it.
func (s *Server) limitOutput(c *connection) {
	if c.conn.OutboundBuffered() > 32<<20 {
		s.logger.Warn("closing a connection that does not read what it is sent", "client", c.remote)
		c.drop()
	}
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
		s.mu.Lock()
		for _, r := range s.reactors {
			r.post(r.tick)
		}
		s.mu.Unlock()
	}
}

// gnetLogger passes on what gnet has to say.
type gnetLogger struct{ logger hclog.Logger }

func (l gnetLogger) Debugf(format string, args ...any) { l.logger.Debug(fmt.Sprintf(format, args...)) }
func (l gnetLogger) Infof(format string, args ...any)  { l.logger.Debug(fmt.Sprintf(format, args...)) }
func (l gnetLogger) Warnf(format string, args ...any)  { l.logger.Warn(fmt.Sprintf(format, args...)) }
func (l gnetLogger) Errorf(format string, args ...any) { l.logger.Error(fmt.Sprintf(format, args...)) }
func (l gnetLogger) Fatalf(format string, args ...any) { l.logger.Error(fmt.Sprintf(format, args...)) }
