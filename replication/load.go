package replication

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"kedis/binlog"
	"kedis/internal/number"
	"kedis/internal/psync"
	"kedis/storage"
	"kedis/storage/rdb"
)

// synchronize takes a snapshot and makes it the server's data. Until it is whole and right the
// server serves what it had; one that breaks off leaves nothing.
func (l *link) synchronize() (State, error) {
	n := l.node
	load, err := l.loader()
	if err != nil {
		return 0, err
	}
	began := time.Now()
	l.loaded.Store(0)
	l.keys.Store(0)
	n.Logger.Info("a full synchronization begins", "primary", l.target.String(), "history", l.full.id, "position", l.full.position, "bytes", l.total.Load())
	imported, err := n.Store.NewImport()
	if err != nil {
		return 0, err
	}
	l.sources = nil
	stop := make(chan struct{})
	go l.showLife(l.source.conn, stop)
	database, err := load(imported)
	if err == nil {
		err = imported.Finish()
	}
	if err != nil {
		err = errors.Join(err, imported.Abandon())
	} else {
		err = l.adopt(imported, database)
	}
	close(stop)
	if err != nil {
		return 0, err
	}
	n.Logger.Info("a full synchronization is complete", "keys", l.keys.Load(), "bytes", l.loaded.Load(), "took", time.Since(began).Round(time.Millisecond).String())
	return Connected, nil
}

// showLife tells the primary that the snapshot is being taken, and the log how far it is.
func (l *link) showLife(conn net.Conn, stop <-chan struct{}) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for seconds := 1; ; seconds++ {
		select {
		case <-stop:
			return
		case <-ticker.C:
		}
		if err := l.sendRaw(conn, []byte("\n")); err != nil {
			return // whoever reads finds out
		}
		if seconds%10 == 0 {
			l.node.Logger.Info("a full synchronization goes on", "keys", l.keys.Load(), "of keys", l.totalKeys.Load(),
				"bytes", l.loaded.Load(), "of bytes", l.total.Load())
		}
	}
}

// loader returns what reads the snapshot that comes next.
func (l *link) loader() (load func(*storage.Import) (database int, err error), err error) {
	if l.full.commands {
		l.total.Store(0)
		return l.loadCommands, nil
	}
	body, err := l.body()
	if err != nil {
		return nil, err
	}
	return func(to *storage.Import) (int, error) { return l.load(body, to) }, nil
}

// databaseOf reads the number of a database.
func (l *link) databaseOf(word []byte) (int, error) {
	n, ok := number.ParseInt(word)
	if !ok || n < 0 || n >= int64(l.node.Store.Databases()) {
		return 0, fmt.Errorf("replication: the primary has a database %.20q, and this server %d", word, l.node.Store.Databases())
	}
	return int(n), nil
}

// body returns what ends where the snapshot does.
func (l *link) body() (io.Reader, error) {
	length, mark, err := psync.ReadHeader(l.requests)
	if err != nil {
		return nil, err
	}
	l.total.Store(max(length, 0))
	return psync.Body(counted{l}, length, mark), nil
}

// counted reads from the link and counts.
type counted struct{ link *link }

func (c counted) Read(p []byte) (int, error) {
	n, err := c.link.requests.Read(p)
	c.link.loaded.Add(int64(n))
	return n, err
}

// load reads a snapshot into an import, and returns the database that the stream behind it has
// selected.
func (l *link) load(body io.Reader, to *storage.Import) (database int, err error) {
	file, err := rdb.NewReader(body, storage.MaxStringBytes) // whatever this server lets its clients write
	if err != nil {
		return 0, err
	}
	file.InParts()
	for {
		record, err := file.Next()
		if err == io.EOF {
			return database, psync.Drained(file.Rest())
		}
		if err != nil {
			return 0, refusal(err)
		}
		switch record.Kind {
		case rdb.RecordKey:
			if err := restore(to, record); err != nil {
				return 0, err
			}
			l.keys.Add(1)
		case rdb.RecordAux:
			if string(record.Name) == "repl-stream-db" {
				if database, err = l.databaseOf(record.Data); err != nil {
					return 0, err
				}
			}
		case rdb.RecordSizes:
			l.totalKeys.Add(int64(record.Keys))
		case rdb.RecordFunction:
			if err := l.takeLibrary(to, record.Data); err != nil {
				return 0, err
			}
		}
	}
}

// takeLibrary takes in a library of functions.
func (l *link) takeLibrary(to *storage.Import, source []byte) error {
	if err := to.RestoreLibrary(source); err != nil {
		return fmt.Errorf("replication: the library of functions %.60q …: %w", source, err)
	}
	l.sources = append(l.sources, bytes.Clone(source))
	return nil
}

func restore(to *storage.Import, record *rdb.Record) error {
	if record.Database > 1<<20 {
		return fmt.Errorf("replication: key %.200q is in database %d", record.Key, record.Database)
	}
	if err := to.Restore(int(record.Database), record.Key, record.Value, record.ExpireMs); err != nil {
		return fmt.Errorf("replication: key %.200q of type %s in database %d: %w", record.Key, record.Value.Kind, record.Database, err)
	}
	return nil
}

func refusal(err error) error {
	var unsupported *rdb.UnsupportedError
	if errors.As(err, &unsupported) {
		return fmt.Errorf("replication: key %.200q: %w", unsupported.Key, err)
	}
	return fmt.Errorf("replication: the snapshot: %w", err)
}

// adopt makes an import the server's data. When it fails before that, nothing is left of the
// import; when it fails after it, both logs are kept, and the next attempt goes on from there.
func (l *link) adopt(imported *storage.Import, database int) error {
	n := l.node
	adoptLibraries, err := n.Host.PrepareLibraries(l.sources)
	if err != nil {
		return errors.Join(fmt.Errorf("replication: a library of functions: %w", err), imported.Abandon())
	}
	log, directory, err := n.Host.NewLog(binlog.History{ID: l.full.id}, l.full.position, database)
	if err != nil {
		return errors.Join(err, imported.Abandon())
	}
	if err := l.exchange(imported, log, directory, adoptLibraries); err != nil {
		return errors.Join(err, n.Host.DiscardLog(log, directory), imported.Abandon())
	}
	l.diverged = false
	return l.settle()
}

func (l *link) exchange(imported *storage.Import, log *binlog.Log, directory uint64, adoptLibraries func()) error {
	n := l.node
	admit := n.Host.Exclude(l.ctx)
	if admit == nil {
		return errEnded
	}
	defer admit()
	return l.exclusively(func() error {
		if err := imported.Swap(log, directory); err != nil {
			return err
		}
		n.unsettled = true
		adoptLibraries()
		n.Host.ForgetWatches()
		n.Host.AdoptLog(log)
		n.disconnect() // feeds of the former log
		return nil
	})
}

// settle is Node.settle for a link, which holds no lock, and removes the log that was replaced.
func (l *link) settle() error {
	n := l.node
	n.roles.Lock()
	pending := n.unsettled
	err := n.settle()
	n.roles.Unlock()
	if err != nil || !pending {
		return err
	}
	n.removeFormerLogs()
	return nil
}

// settle brings to the disk which log the data belongs to. Until then a start goes back to the
// former log, with its data: nothing is written to the new one, no primary's stream is taken, and
// the server isn't promoted. roles must be held.
func (n *Node) settle() error {
	if !n.unsettled {
		return nil
	}
	if err := n.Store.PersistState(); err != nil {
		return fmt.Errorf("replication: persisting which log the data belongs to: %w", err)
	}
	n.unsettled = false
	return nil
}

func (n *Node) removeFormerLogs() {
	if err := n.Host.RemoveFormerLogs(); err != nil {
		n.Logger.Warn("the former log is not removed; the next start tries again", "error", err)
	}
}
