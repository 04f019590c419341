package datadir

import (
	"net"

	"kedis/binlog"
	"kedis/replication"
	"kedis/server/execute"
)

// NewReplication makes the server's part in replication, and tells the engine of it.
func NewReplication(d *Directory, engine *execute.Engine, version string) *replication.Node {
	node := replication.New(replication.Options{Store: d.Store, Host: &Host{d, engine}, Config: d.config, TLS: engine.TLS,
		Directory: d.path, Version: version, Logger: d.logger.Named("replication")})
	engine.SetReplication(node)
	return node
}

// Host is the server as replication sees it: its data directory, and the engine that runs commands
// on it.
type Host struct {
	*Directory
	*execute.Engine
}

// Log is the directory's. The engine's can be a test's.
func (h *Host) Log() *binlog.Log { return h.Directory.Log() }

// NewStreamApplier is the engine's.
func (h *Host) NewStreamApplier(conn net.Conn, database int) replication.StreamApplier {
	return h.Engine.NewStreamApplier(conn, database)
}
