package psync

import (
	"errors"
	"time"
)

// ErrScript refuses a primary's stream that has a script in the place of what the script does. It
// may need a body that came before, draw chance and get keys in another order than where it ran
// first, and each start would have to run it again.
var ErrScript = errors.New("the primary sends scripts as they are: set lua-replicate-commands yes there, or have them begin with redis.replicate_commands()")

// Replica is what a replica told of itself before it asked for the stream.
type Replica struct {
	Address  string // of its connection
	Announce string // the host that it announced; empty: that of its connection
	Port     int    // where it listens
	EOF      bool   // takes a snapshot whose end is marked
	Commands bool   // takes a snapshot of commands
	Resumes  bool   // understands that a history can get another id
	Valkey   bool   // says that it is a Valkey of 9.0 or newer, or reads what that writes
	OnlyRDB  bool   // wants the snapshot and nothing after it
	Old      bool   // asked with SYNC: never acknowledges
	NoKeys   bool   // wants a snapshot without keys

	// Acknowledges says that one REPLCONF GETACK has it acknowledge each commit for a while.
	Acknowledges bool

	NoFunctions bool   // wants a snapshot without libraries of functions
	ID          string // the history that it knows
	From        int64  // the first byte of the stream that it lacks
	Heard       func() // to be called for each request of the replica from now on
}

// Failover is a change of roles with a replica, as FAILOVER asks for it.
type Failover struct {
	Host    string // of the replica; empty: the first that has everything
	Port    int
	Timeout time.Duration // how long to wait for the replica; 0: until FAILOVER ABORT
	Force   bool          // after the timeout the replica becomes the primary, whatever it has
}

// Acknowledged is who has everything up to a position of the log.
type Acknowledged struct {
	Replicas int  // that have it
	Synced   int  // of them, that would have it after a power cut
	Here     bool // this server would
}

// Counts are what INFO stats shows of a server's replicas and of its primary.
type Counts struct {
	Full    int64 // full synchronizations of replicas
	Partial int64 // partial ones
	Refused int64 // full ones of replicas that had asked for a partial one

	Received, Sent int64 // bytes: from the primary, and to replicas
}
