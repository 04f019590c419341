package server

import (
	"fmt"
	"strconv"
	"syscall"

	"github.com/hashicorp/go-hclog"

	"kedis/internal/config"
)

const (
	// ownDescriptors are those of the data directory, the log and what else is open without a
	// client or a table file.
	ownDescriptors = 32
	// loopDescriptors are those of an event loop, its alarm among them. Others are Go's own loop
	// and the listening sockets.
	loopDescriptors = 3
	otherLoops      = 2
	// manyTables is how many of RocksDB's files may be open where rocksdb-max-open-files sets no
	// limit, without anybody reckoning with them, and leastTables is with how few RocksDB is left.
	manyTables  = 1024
	leastTables = 32
	// arrivalShare is the part of the descriptors, one of so many, that acceptors may hold.
	arrivalShare = 8
)

// descriptors says for what the descriptors are that the process may have.
type descriptors struct {
	limit    int
	own      int
	arrivals int // of connections that are accepted, and not at their event loop yet
	tables   int // RocksDB's files; -1: there are enough descriptors for any
	clients  int // less than 1: there aren't enough
}

// share shares descriptors out. So many clients and tables, -1 for no limit, are wanted.
func share(limit, loops, clients, tables int) descriptors {
	d := descriptors{limit: limit, own: ownDescriptors + loopDescriptors*(loops+otherLoops), arrivals: min(mostArrivals, limit/arrivalShare), tables: tables}
	rest := limit - d.own - d.arrivals
	if tables < 0 && rest-clients >= manyTables {
		d.clients = clients
		return d
	}
	if tables < 0 {
		d.tables = min(manyTables, max(leastTables, rest/4))
	}
	d.clients = min(clients, rest-d.tables)
	return d
}

// needed is how many descriptors fulfil all wishes.
func needed(loops, clients, tables int) int {
	if tables < 0 {
		tables = manyTables
	}
	return ownDescriptors + loopDescriptors*(loops+otherLoops) + mostArrivals + clients + tables
}

// descriptorLimit is how many descriptors the process may have. Go has raised it to what the system
// allows.
func descriptorLimit() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || limit.Cur > 1<<30 {
		return 1 << 30
	}
	return int(limit.Cur)
}

func shareConfigured(c *config.Config, limit, loops int) descriptors {
	return share(limit-handshakeDescriptors(c, limit), loops, int(c.MaxClients.Get()), int(c.RocksDBMaxOpenFiles.Get()))
}

// handshakeDescriptors is how many descriptors handshakes may hold.
func handshakeDescriptors(c *config.Config, limit int) int {
	if c.TLSPort.Get() == 0 {
		return 0
	}
	return handshakesWithin(limit) * acceptorDescriptors
}

// FitDescriptors makes maxclients and rocksdb-max-open-files what the limit of open files allows,
// and says so as Redis does. It is called before anything is opened.
func FitDescriptors(c *config.Config, loops int, logger hclog.Logger) error {
	return fit(c, descriptorLimit(), loops, logger)
}

func fit(c *config.Config, limit, loops int, logger hclog.Logger) error {
	wanted, d := int(c.MaxClients.Get()), shareConfigured(c, limit, loops)
	need := needed(loops, wanted, int(c.RocksDBMaxOpenFiles.Get())) + handshakeDescriptors(c, limit)
	if d.clients < 1 {
		return fmt.Errorf("server: Your current 'ulimit -n' of %d is not enough for the server to start. Please increase your open file limit "+
			"to at least %d", limit, need)
	}
	if d.clients < wanted {
		logger.Warn(fmt.Sprintf("You requested maxclients of %d requiring at least %d max file descriptors.", wanted, need))
		logger.Warn(fmt.Sprintf("Current maximum open files is %d. maxclients has been reduced to %d to compensate for low ulimit. "+
			"If you need higher maxclients increase 'ulimit -n'.", limit, d.clients))
	}
	if int64(d.tables) != c.RocksDBMaxOpenFiles.Get() {
		logger.Warn(fmt.Sprintf("Current maximum open files is %d. rocksdb-max-open-files has been set to %d.", limit, d.tables))
	}
	if err := c.SetFlag("maxclients", strconv.Itoa(d.clients)); err != nil {
		return fmt.Errorf("server: %w", err)
	}
	if err := c.Fit("rocksdb-max-open-files", strconv.Itoa(d.tables)); err != nil {
		return fmt.Errorf("server: %w", err)
	}
	return nil
}
