package replication

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
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
	n.fullSyncs.Add(1)
	log := n.Host.Log()
	release := log.Hold(log.Position()) // the view can only be later
	view := n.Store.ViewToSend()
	defer view.Release()
	reader, err = log.NewReader(view.Position())
	release()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil || f.client.OnlyRDB {
			err = errors.Join(err, reader.Close())
			reader = nil
		}
	}()
	id := log.History().ID
	if !f.client.Old {
		if _, err := fmt.Fprintf(f, "+FULLRESYNC %s %d\r\n", id, view.Position()); err != nil {
			return reader, err
		}
	}
	f.sent.Store(view.Position())
	f.set(feedSnapshot)
	began := time.Now()
	s := &snapshot{view: view, store: n.Store, id: id, version: n.Version, noKeys: f.client.NoKeys, ctx: ctx}
	if f.client.EOF && n.Config.ReplDisklessSync.Get() {
		err = f.sendMarked(s)
	} else {
		err = f.sendFile(ctx, s)
	}
	if err != nil {
		return reader, err
	}
	n.Logger.Info("a snapshot was sent", "address", f.name(), "position", view.Position(), "keys", s.keys,
		"took", time.Since(began).Round(time.Millisecond).String())
	return reader, f.awaitTaken(ctx)
}

// awaitTaken waits until the replica has taken a marked snapshot: it finds the mark where the bytes
// end, so none may follow at once.
func (f *feed) awaitTaken(ctx context.Context) error {
	if !f.client.EOF || !f.node.Config.ReplDisklessSync.Get() || f.client.OnlyRDB {
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
	if err := s.write(f); err != nil {
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
	if err := s.write(beat); err != nil {
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

// snapshot writes a view as an RDB file.
type snapshot struct {
	view    *storage.View
	store   *storage.Store
	id      string
	version string
	noKeys  bool
	ctx     context.Context
	keys    int64
}

func (s *snapshot) write(w io.Writer) error {
	file := rdb.NewWriter(w)
	file.Aux("redis-ver", "7.0.15")
	file.AuxInt("redis-bits", 64)
	file.AuxInt("ctime", time.Now().Unix())
	file.Aux("kedis-ver", s.version)
	file.AuxInt("repl-stream-db", int64(s.view.Selected()))
	file.Aux("repl-id", s.id)
	file.AuxInt("repl-offset", s.view.Position())
	for database := 0; database < s.store.Databases() && !s.noKeys; database++ {
		if keys, expires := s.view.Size(database); keys > 0 {
			file.Database(uint64(database))
			file.Sizes(uint64(keys), uint64(expires))
			if err := s.writeDatabase(file, database, keys); err != nil {
				return err
			}
		}
	}
	return file.Close()
}

// restEvery is after how many keys a transaction starts afresh, so that it holds little.
const restEvery = 10000

func (s *snapshot) writeDatabase(file *rdb.Writer, database int, keys int64) error {
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
			file.Key(key, m.ExpireMs)
			if failed = db.Encode(storage.Key{Metadata: *m, Exists: true}, &file.Encoder); failed == nil {
				failed = file.Err()
			}
			from = append(append(from[:0], key...), 0)
			count++
			return failed == nil && count < restEvery
		})
		if err = errors.Join(err, failed, s.ctx.Err()); err != nil {
			return err
		}
		written += int64(count)
		s.keys += int64(count)
		if count < restEvery {
			break
		}
	}
	if written != keys {
		return fmt.Errorf("replication: database %d has %d keys, and not the %d that it should have", database, written, keys)
	}
	return nil
}
