package replication

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"kedis/binlog"
	"kedis/storage"
	"kedis/storage/layout"
	"kedis/storage/rdb"
)

// synchronize sends all data as of a position, and returns the reader of what follows; nil when
// nothing is to follow.
func (f *feed) synchronize(ctx context.Context) (reader *binlog.Reader, err error) {
	n := f.node
	if err := f.hesitate(ctx); err != nil {
		return nil, err
	}
	n.counters.full.Add(1)
	view, reader, id, err := n.pin()
	if err != nil {
		return nil, err
	}
	defer view.Release()
	defer func() {
		if err != nil || f.client.OnlyRDB {
			err = errors.Join(err, reader.Close())
			reader = nil
		}
	}()
	s := &snapshot{view: view, store: n.Store, id: id, version: n.Version, noKeys: f.client.NoKeys, noFunctions: f.client.NoFunctions, ctx: ctx}
	s.count()
	if s.format, err = f.format(s); err != nil {
		return reader, err
	}
	if err := f.announce(s); err != nil {
		return reader, err
	}
	f.sent.Store(view.Position())
	f.snapshot.Store(s)
	f.set(feedSnapshot)
	began := time.Now()
	stop := make(chan struct{})
	go f.showProgress(s, stop)
	err = f.send(ctx, s)
	close(stop)
	f.snapshot.Store(nil)
	view.Release() // now: the replica may take long to load what it was sent
	if err != nil {
		f.noteTimes(s.format, false)
		return reader, err
	}
	n.Logger.Info("a snapshot was sent", "address", f.name(), "position", view.Position(), "keys", s.keys.Load(),
		"bytes", s.bytes.Load(), "took", time.Since(began).Round(time.Millisecond).String())
	err = f.awaitTaken(ctx, s.format)
	f.noteTimes(s.format, err == nil)
	return reader, err
}

// pin returns a view of all data, and a reader of the log from there on, with the log's history.
// Data and log aren't exchanged meanwhile. The reader begins at the log's end: from anywhere else
// it would go over the records before, and a damaged one among them would keep it from its place.
func (n *Node) pin() (view *storage.View, reader *binlog.Reader, id string, err error) {
	n.roles.Lock()
	defer n.roles.Unlock()
	log := n.Host.Log()
	view, err = n.Store.ViewToSend(func(position int64) (err error) {
		reader, err = log.NewReader(position)
		return err
	})
	if err != nil {
		return nil, nil, "", err
	}
	return view, reader, log.History().ID, nil
}

// commands reports whether the replica is sent commands: it is a Kedis, and wants all there is.
func (f *feed) commands() bool { return f.client.Commands && !f.client.OnlyRDB && !f.client.NoKeys }

// marked reports whether the snapshot is sent as it is made, with a mark at its end.
func (f *feed) marked() bool { return f.client.EOF && f.node.Config.ReplDisklessSync.Get() }

// announce tells the replica which snapshot comes.
func (f *feed) announce(s *snapshot) error {
	var err error
	switch {
	case f.client.Old:
	case f.commands():
		_, err = fmt.Fprintf(f, "+FULLRESYNC %s %d %d\r\n", s.id, s.view.Position(), s.total)
	default:
		_, err = fmt.Fprintf(f, "+FULLRESYNC %s %d\r\n", s.id, s.view.Position())
	}
	return err
}

// send sends a snapshot in the form that the replica takes.
func (f *feed) send(ctx context.Context, s *snapshot) error {
	switch {
	case f.commands():
		return s.writeCommands(&counting{f, &s.bytes})
	case f.marked():
		return f.sendMarked(s)
	}
	return f.sendFile(ctx, s)
}

// showProgress tells the log now and then how far a snapshot is.
func (f *feed) showProgress(s *snapshot, stop <-chan struct{}) {
	ticker := time.NewTicker(progressEvery)
	defer ticker.Stop()
	for {
		select {
		case <-stop:
			return
		case <-ticker.C:
			f.node.Logger.Info("a snapshot is being sent", "address", f.name(), "keys", s.keys.Load(), "of keys", s.total, "bytes", s.bytes.Load())
		}
	}
}

// progressEvery is how often the log is told how far a snapshot is.
const progressEvery = 10 * time.Second

// counting counts what is written.
type counting struct {
	to    io.Writer
	bytes *atomic.Int64
}

func (c *counting) Write(b []byte) (int, error) {
	n, err := c.to.Write(b)
	c.bytes.Add(int64(n))
	return n, err
}

// awaitTaken waits until the replica has taken a snapshot that was sent as it was made: behind a
// mark, which it finds where the bytes end, none may follow at once. It also waits for a snapshot
// that an old Redis refuses.
func (f *feed) awaitTaken(ctx context.Context, format rdb.Format) error {
	mayRefuse := format == rdb.Redis74 && f.times == stopAtTimes && !f.client.Old
	if !f.commands() && !f.marked() && !mayRefuse || f.client.OnlyRDB {
		f.heard.Store(time.Now().UnixMilli())
		return nil
	}
	f.heard.Store(time.Now().UnixMilli())
	f.set(feedAwaitsAck)
	select {
	case <-f.taken:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// sendMarked sends the snapshot as it is made: | $EOF:mark | snapshot | mark |.
func (f *feed) sendMarked(s *snapshot) error {
	mark := binlog.NewID()
	if _, err := fmt.Fprintf(f, "$EOF:%s\r\n", mark); err != nil {
		return err
	}
	if err := s.write(&counting{f, &s.bytes}); err != nil {
		return err
	}
	_, err := f.Write([]byte(mark))
	return err
}

// sendFile sends the snapshot with its length before it: | $length | snapshot |. It is written to a
// file for that, and the replica hears meanwhile that the primary lives.
func (f *feed) sendFile(ctx context.Context, s *snapshot) (err error) {
	file, err := os.CreateTemp(f.node.Directory, "snapshot.*.rdb")
	if err != nil {
		return fmt.Errorf("replication: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := os.Remove(file.Name()); err != nil { // it is gone with the last who has it open
		return fmt.Errorf("replication: %w", err)
	}
	beat := &heartbeat{w: file, to: f, next: time.Now().Add(time.Second)}
	if err := s.write(&counting{beat, &s.bytes}); err != nil {
		return err
	}
	size, err := file.Seek(0, io.SeekCurrent)
	if err != nil {
		return fmt.Errorf("replication: %w", err)
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("replication: %w", err)
	}
	if _, err := fmt.Fprintf(f, "$%d\r\n", size); err != nil {
		return err
	}
	_, err = io.Copy(struct{ io.Writer }{f}, file)
	return err
}

// heartbeat writes to a file, and now and then an empty line to a replica.
type heartbeat struct {
	w    io.Writer
	to   io.Writer
	next time.Time
}

func (h *heartbeat) Write(b []byte) (int, error) {
	if now := time.Now(); now.After(h.next) {
		h.next = now.Add(time.Second)
		if _, err := h.to.Write([]byte("\n")); err != nil {
			return 0, err
		}
	}
	return h.w.Write(b)
}

// WriteSnapshot writes a view of a store whose log has a history as an RDB file, as replicas get
// it.
func WriteSnapshot(ctx context.Context, w io.Writer, store *storage.Store, view *storage.View, history, version string) error {
	s := &snapshot{view: view, store: store, id: history, version: version, ctx: ctx, format: rdb.Redis}
	return s.write(w)
}

// snapshot writes a view as an RDB file, or as commands.
type snapshot struct {
	view    *storage.View
	store   *storage.Store
	id      string
	version string
	noKeys  bool
	format  rdb.Format // of a file
	ctx     context.Context
	total   int64 // keys

	noFunctions bool

	keys, bytes atomic.Int64 // that are written
}

// count finds out how many keys there are.
func (s *snapshot) count() {
	for database := 0; database < s.store.Databases() && !s.noKeys; database++ {
		keys, _ := s.view.Size(database)
		s.total += keys
	}
}

func (s *snapshot) write(w io.Writer) error {
	file := rdb.NewWriter(w, s.format)
	file.Aux("redis-ver", "7.0.15")
	file.AuxInt("redis-bits", 64)
	file.AuxInt("ctime", time.Now().Unix())
	file.Aux("kedis-ver", s.version)
	file.AuxInt("repl-stream-db", int64(s.view.Selected()))
	file.Aux("repl-id", s.id)
	file.AuxInt("repl-offset", s.view.Position())
	if err := s.writeFunctions(file); err != nil {
		return err
	}
	for database := 0; database < s.store.Databases() && !s.noKeys; database++ {
		if keys, expires := s.view.Size(database); keys > 0 {
			file.Database(uint64(database))
			file.Sizes(uint64(keys), uint64(expires))
			if err := s.scan(database, keys, writeKeysTo(file)); err != nil {
				return err
			}
		}
	}
	return file.Close()
}

func (s *snapshot) writeFunctions(file *rdb.Writer) error {
	if s.noFunctions {
		return nil
	}
	return s.store.LibrariesOf(s.view, func(_ string, source []byte) error {
		file.Function(source)
		return file.Err()
	})
}

// restEvery is after how many keys a transaction starts afresh, so that it holds little.
const restEvery = 10000

// writeKeysTo returns what writes a key to a file.
func writeKeysTo(file *rdb.Writer) func(storage.DB, []byte, *layout.Metadata) error {
	return func(db storage.DB, key []byte, m *layout.Metadata) error {
		file.Key(key, m.ExpireMs)
		if err := db.Encode(storage.Key{Metadata: *m, Exists: true}, &file.Encoder); err != nil {
			return fmt.Errorf("key %.100q: %w", key, err)
		}
		return file.Err()
	}
}

// scan visits the keys of a database. Their number must be what the state says.
func (s *snapshot) scan(database int, keys int64, visit func(db storage.DB, key []byte, m *layout.Metadata) error) error {
	txn := s.store.NewTxn()
	begin := func() storage.DB {
		txn.Reset()
		txn.ReadFrom(s.view)
		// What has expired is sent too: the stream tells when it goes.
		txn.Begin(storage.Mode{Applying: true}, 0, 0)
		return txn.DB(database)
	}
	var from []byte
	written := int64(0)
	for {
		db := begin()
		count, failed := 0, error(nil)
		err := db.Keys(from, func(key []byte, m *layout.Metadata) bool {
			failed = visit(db, key, m)
			s.keys.Add(1)
			from = append(append(from[:0], key...), 0)
			count++
			return failed == nil && count < restEvery
		})
		if err = errors.Join(err, failed, s.ctx.Err()); err != nil {
			return err
		}
		written += int64(count)
		if count < restEvery {
			break
		}
	}
	if written != keys {
		return fmt.Errorf("replication: database %d has %d keys, and not the %d that it should have", database, written, keys)
	}
	return nil
}
