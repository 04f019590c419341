package datadir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/hashicorp/go-hclog"

	"kedis/binlog"
	"kedis/internal/config"
	"kedis/internal/durable"
	"kedis/server/command"
	"kedis/storage"
)

// Restore makes a new data directory, the configuration's dir, from a checkpoint of SAVE or BGSAVE.
// Unless logDirectory is empty, it applies the log there from the checkpoint's position to the end
// of the range. It returns the position that it reached, where the new data begins a history of its
// own.
func Restore(c *config.Config, checkpoint, logDirectory string, to binlog.Range, logger hclog.Logger) (reached int64, err error) {
	directory := c.Dir.Get()
	if _, err := os.Stat(filepath.Join(checkpoint, "CURRENT")); err != nil {
		return 0, fmt.Errorf("datadir: %s is no checkpoint: %w", checkpoint, err)
	}
	if err := makeEmpty(directory); err != nil {
		return 0, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, removeContent(directory)) // half of the data must not be served
		}
	}()
	if err := copyCheckpoint(checkpoint, filepath.Join(directory, "db")); err != nil {
		return 0, err
	}
	d := &Directory{path: directory, logger: logger, config: c}
	if d.Store, err = storage.Open(d.storageOptions()); err != nil {
		return 0, err
	}
	if logDirectory != "" {
		err = d.replay(logDirectory, to)
	}
	if err == nil {
		err = d.beginHistory()
	}
	reached = d.Store.Position()
	err = errors.Join(err, d.Store.Close())
	if log := d.Log(); log != nil {
		err = errors.Join(err, log.Close())
	}
	return reached, err
}

// makeEmpty makes a directory, or makes sure that it is empty.
func makeEmpty(directory string) error {
	if err := makeDurable(directory, 0o755); err != nil {
		return fmt.Errorf("datadir: %w", err)
	}
	entries, err := os.ReadDir(directory)
	if err != nil {
		return fmt.Errorf("datadir: %w", err)
	}
	if len(entries) > 0 {
		return fmt.Errorf("datadir: %s is not empty", directory)
	}
	return nil
}

// makeDurable makes a directory that isn't there, and those above it; they are on the disk then.
func makeDurable(directory string, mode fs.FileMode) error {
	var parents []string
	for missing := filepath.Clean(directory); ; missing = filepath.Dir(missing) {
		if _, err := os.Stat(missing); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		parents = append(parents, filepath.Dir(missing))
	}
	if err := os.MkdirAll(directory, mode); err != nil {
		return err
	}
	for _, parent := range parents {
		if err := durable.SyncDirectory(parent); err != nil {
			return err
		}
	}
	return nil
}

func removeContent(directory string) error {
	entries, err := os.ReadDir(directory)
	for _, entry := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(directory, entry.Name())))
	}
	return err
}

// copyCheckpoint copies RocksDB's files to a directory that it makes in the new data directory, and
// has them on the disk when it returns nil. It links table files where it can, since they never
// change. Only their owner can read the copies, as with the data that a server makes.
func copyCheckpoint(from, to string) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return fmt.Errorf("datadir: checkpoint: %w", err)
	}
	if err := os.Mkdir(to, 0o700); err != nil {
		return fmt.Errorf("datadir: %w", err)
	}
	for _, entry := range entries {
		if !entry.Type().IsRegular() {
			continue
		}
		source, target := filepath.Join(from, entry.Name()), filepath.Join(to, entry.Name())
		if strings.HasSuffix(entry.Name(), ".sst") && os.Link(source, target) == nil {
			continue
		}
		if err := copyFile(source, target); err != nil {
			return fmt.Errorf("datadir: checkpoint: %w", err)
		}
	}
	if err := errors.Join(durable.SyncDirectory(to), durable.SyncDirectory(filepath.Dir(to))); err != nil {
		return fmt.Errorf("datadir: %w", err)
	}
	return nil
}

func copyFile(from, to string) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(target, source)
	if err == nil {
		err = target.Sync()
	}
	return errors.Join(err, target.Close())
}

// replay applies a log's records from the store's position on.
func (d *Directory) replay(logDirectory string, to binlog.Range) error {
	from := d.Store.Position()
	if to.To != 0 && to.To < from {
		return fmt.Errorf("datadir: the checkpoint is already at position %d", from)
	}
	if to.To != 0 && to.To == from { // 0 is the log's end
		return nil
	}
	engine := command.NewEngine(d.Store, d.config, nil, d.logger, 1)
	if err := engine.ReloadLibraries(); err != nil {
		return fmt.Errorf("datadir: loading the libraries of functions: %w", err)
	}
	applier := engine.NewLogApplier()
	to.From = from
	err := binlog.Scan(logDirectory, to, func(r binlog.Record) error {
		return applier.Replay(r.Database, r.Payload, r.End, r.Time)
	})
	if errors.Is(err, binlog.ErrLater) {
		return fmt.Errorf("datadir: the checkpoint is later than the time to restore: %w", err)
	}
	if err != nil {
		return fmt.Errorf("datadir: applying %s from position %d: %w", logDirectory, d.Store.Position(), err)
	}
	return nil
}

// beginHistory gives restored data a log of its own, which begins at the data's position.
func (d *Directory) beginHistory() error {
	number := d.Store.LogDirectory() + 1
	log, err := d.firstLog(d.logOptions(number), d.Store.Position())
	if err != nil {
		return err
	}
	d.log.Store(log)
	d.Store.Attach(log, number)
	return d.Store.PersistState()
}
