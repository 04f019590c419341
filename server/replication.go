package server

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"syscall"

	"kedis/binlog"
	"kedis/replication"
	"kedis/server/command"
)

// NewReplication makes the server's part in replication, and tells the engine of it.
func NewReplication(d *Data, engine *command.Engine, version string) *replication.Node {
	node := replication.New(replication.Options{Store: d.Store, Host: &host{d, engine}, Config: d.config,
		Directory: d.directory, Version: version, Logger: d.logger.Named("replication")})
	engine.SetReplication(node)
	return node
}

// Created tells that there was no data directory before this start.
func (d *Data) Created() bool { return d.created }

// Ready is nil, or why no writes are taken now.
func (d *Data) Ready() error {
	if refusal := d.refusal.Load(); refusal != nil {
		return *refusal
	}
	if err := d.Log().Ready(); err != nil {
		return err
	}
	return d.Store.Ready()
}

// ReadyForLess is Ready for what makes room on a full disk.
func (d *Data) ReadyForLess() error {
	if refusal := d.refusal.Load(); refusal != nil {
		return *refusal
	}
	return d.Log().Usable()
}

// RefuseWrites keeps writes out for a reason; nil lets them in again.
func (d *Data) RefuseWrites(reason error) {
	if reason == nil {
		d.refusal.Store(nil)
		return
	}
	d.refusal.Store(&reason)
}

// Log is the log that the data belongs to.
func (d *Data) Log() *binlog.Log { return d.log.Load() }

// host is the server as replication sees it.
type host struct {
	*Data
	*command.Engine
}

func (h *host) Log() *binlog.Log { return h.Data.Log() }

func (h *host) NewFollower(conn net.Conn, database int) replication.Follower {
	return h.Engine.NewFollower(conn, database)
}

// NewLog makes a log in a directory of its own.
func (h *host) NewLog(history binlog.History, at int64, database int) (*binlog.Log, uint64, error) {
	number := h.Data.Store.LogDirectory() + 1
	o := h.logOptions(number)
	o.Persisted = 0
	if err := checkSuperfluous(o.Directory, h.Log()); err != nil {
		return nil, 0, fmt.Errorf("server: %w", err)
	}
	if err := os.RemoveAll(o.Directory); err != nil { // of one that never came to anything
		return nil, 0, fmt.Errorf("server: %w", err)
	}
	log, err := binlog.Create(o, history, at, database)
	if err != nil {
		return nil, 0, fmt.Errorf("server: %w", err)
	}
	return log, number, nil
}

// AdoptLog makes a log the data's.
func (h *host) AdoptLog(log *binlog.Log) {
	former := h.log.Swap(log)
	if err := former.Close(); err != nil {
		h.logger.Warn("closing the former log", "error", err)
	}
}

func (h *host) DiscardLog(log *binlog.Log, directory uint64) error {
	err := log.Close()
	if failed := os.RemoveAll(h.logOptions(directory).Directory); failed != nil {
		err = errors.Join(err, fmt.Errorf("server: %w", failed))
	}
	return err
}

// RemoveFormerLogs removes the logs of before the one that the data belongs to.
func (h *host) RemoveFormerLogs() error {
	own := h.Data.Store.LogDirectory()
	numbers, err := h.otherLogs(own)
	if err != nil {
		return err
	}
	return h.removeLogs(slices.DeleteFunc(numbers, func(number uint64) bool { return number > own }))
}

// Detach gives the connection away when the replies so far have been sent.
func (c *connection) Detach(serve func(conn net.Conn)) { c.serve = serve }

// handOver duplicates the socket, lets gnet close its own, and serves the copy on a goroutine of its
// own. The session lives on until that ends.
func (c *connection) handOver() {
	serve := c.serve
	c.serve = nil
	s := c.server
	if c.parser.Buffered() > 0 || c.conn.OutboundBuffered() > 0 {
		s.logger.Warn("closing a connection that does not wait for the stream it asks for", "client", c.remote)
		c.drop()
		return
	}
	conn, err := duplicate(c.conn.Fd())
	if err != nil {
		s.logger.Error("a connection can't be handed over", "client", c.remote, "error", err)
		c.drop()
		return
	}
	c.handedOver.Store(&conn)
	c.drop()
	go func() {
		defer s.forget(c)
		serve(conn)
	}()
}

var errReset = errors.New("the client has reset the connection")

// duplicate makes a connection of Go's of a socket that is somebody else's to close. A socket that was reset has no
// remote address any more, which those who get a connection rely on.
func duplicate(descriptor int) (net.Conn, error) {
	copied, err := syscall.Dup(descriptor)
	if err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	file := os.NewFile(uintptr(copied), "connection")
	conn, err := net.FileConn(file)
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	if conn.RemoteAddr() == nil {
		return nil, errors.Join(errReset, conn.Close())
	}
	return conn, nil
}
