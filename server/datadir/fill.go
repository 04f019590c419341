package datadir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/hashicorp/go-hclog"

	"kedis/internal/config"
	"kedis/internal/resp"
	"kedis/server/command"
	"kedis/server/execute"
	"kedis/storage"
	"kedis/storage/rdb"
)

// Fill makes a new data directory, the configuration's dir, of keys from elsewhere and the commands
// that changed them since. It works in a directory of its own, named DIR.filling, which Finish
// renames. A Fill belongs to one goroutine.
type Fill struct {
	data      *Directory
	config    *config.Config
	logger    hclog.Logger
	directory string                 // as it will be called
	working   string                 // until then
	lock      *os.File               // on the working directory
	imported  *storage.Import        // until it is the data
	applier   *execute.StreamApplier // from then on
	database  int                    // that the log has selected
	request   []byte                 // scratch
}

const (
	// fillRunBytes is how much is sorted in memory at a time, of two times that it takes.
	fillRunBytes = 32 << 20
	// fillCommit is how much of a log is written at a time.
	fillCommit = 1 << 20
)

// NewFill begins. The directory must not exist, or be empty.
func NewFill(c *config.Config, logger hclog.Logger) (f *Fill, err error) {
	directory, err := filepath.Abs(c.Dir.Get())
	if err != nil {
		return nil, fmt.Errorf("datadir: %w", err)
	}
	if err := makeEmpty(directory); err != nil {
		return nil, err
	}
	if directory, err = filepath.EvalSymlinks(directory); err != nil {
		return nil, fmt.Errorf("datadir: %w", err)
	}
	if err := replaceable(directory); err != nil {
		return nil, err
	}
	f = &Fill{config: c, logger: logger, directory: directory, working: directory + ".filling"}
	if err := f.occupy(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Abandon())
		}
	}()
	if err := os.Mkdir(f.temporary(), 0o755); err != nil {
		return nil, fmt.Errorf("datadir: %w", err)
	}
	if err := c.SetFlag("dir", f.working); err != nil {
		return nil, err
	}
	if f.data, err = Open(c, logger); err != nil {
		return nil, err
	}
	f.imported, err = f.data.Store.NewSortedImport(f.temporary(), fillRunBytes)
	return f, err
}

// replaceable tries whether Finish can put another directory in the place of an empty one.
func replaceable(directory string) error {
	info, err := os.Stat(directory)
	if err == nil {
		err = os.Remove(directory)
	}
	if errors.Is(err, syscall.EBUSY) {
		return fmt.Errorf("datadir: %s can't be replaced, as a mount point can't: name a directory in it", directory)
	}
	if err == nil {
		err = os.Mkdir(directory, info.Mode().Perm())
	}
	if err != nil {
		return fmt.Errorf("datadir: %w", err)
	}
	return nil
}

// occupy takes the working directory, and removes what a fill that was killed has left there.
func (f *Fill) occupy() (err error) {
	if err := os.MkdirAll(f.working, 0o755); err != nil {
		return fmt.Errorf("datadir: %w", err)
	}
	if f.lock, err = os.Open(f.working); err != nil {
		return fmt.Errorf("datadir: %w", err)
	}
	if err := syscall.Flock(int(f.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return errors.Join(fmt.Errorf("datadir: %s is being filled by another process: %w", f.directory, err), f.lock.Close())
	}
	return removeContent(f.working)
}

func (f *Fill) temporary() string { return filepath.Join(f.working, "import") }

// Databases is how many databases there are.
func (f *Fill) Databases() int { return f.data.Store.Databases() }

// Load takes one key, as storage.Import does. A key comes once, and before all commands.
func (f *Fill) Load(database int, key []byte, value *rdb.Value, expireMs int64) error {
	if f.imported == nil {
		return fmt.Errorf("datadir: key %.200q comes after commands", key)
	}
	return f.imported.Restore(database, key, value, expireMs)
}

// LoadLibrary takes a library of functions by its source.
func (f *Fill) LoadLibrary(source []byte) error {
	if f.imported == nil {
		return errors.New("datadir: a library of functions comes after commands")
	}
	return f.imported.RestoreLibrary(source)
}

// Apply executes a command in a database, and writes it to the log. An error is final: the command
// did not fail where it comes from.
func (f *Fill) Apply(database int, args [][]byte) error {
	if err := f.adopt(); err != nil {
		return err
	}
	if database != f.database {
		if err := f.apply([][]byte{[]byte("SELECT"), strconv.AppendInt(nil, int64(database), 10)}); err != nil {
			return err
		}
		f.database = database
	}
	return f.apply(args)
}

// Multi begins and Exec ends commands that belong together.
func (f *Fill) Multi() error { return f.enclose("MULTI") }

// Exec ends what Multi began.
func (f *Fill) Exec() error { return f.enclose("EXEC") }

func (f *Fill) enclose(word string) error {
	if err := f.adopt(); err != nil {
		return err
	}
	return f.apply([][]byte{[]byte(word)})
}

func (f *Fill) apply(args [][]byte) error {
	f.request = resp.AppendRequest(f.request[:0], args...)
	if err := f.applier.Apply(args, f.request); err != nil {
		return err
	}
	if f.applier.Pending() < fillCommit {
		return nil
	}
	return f.applier.Commit()
}

// adopt makes what was imported the data.
func (f *Fill) adopt() error {
	if f.imported == nil {
		return nil
	}
	if err := f.imported.Finish(); err != nil {
		return err
	}
	if err := f.imported.Swap(f.data.Log(), f.data.Store.LogDirectory()); err != nil {
		return err
	}
	f.imported = nil
	engine := command.NewEngine(f.data.Store, f.config, f.data, f.logger, 1)
	if err := engine.ReloadLibraries(); err != nil {
		return fmt.Errorf("datadir: loading the libraries of functions: %w", err)
	}
	f.applier = engine.NewFileApplier(0)
	return f.data.Store.PersistState()
}

// Finish completes the directory and gives it its name.
func (f *Fill) Finish() error {
	if err := f.adopt(); err != nil {
		return err
	}
	if err := f.applier.Commit(); err != nil {
		return err
	}
	f.applier.Close()
	f.applier = nil
	err := f.data.Close()
	f.data = nil
	if err = errors.Join(err, os.RemoveAll(f.temporary())); err != nil {
		return err
	}
	if err := os.Remove(f.directory); err != nil { // it is empty
		return fmt.Errorf("datadir: %w", err)
	}
	if err := os.Rename(f.working, f.directory); err != nil {
		return fmt.Errorf("datadir: %w", err)
	}
	return errors.Join(syncDirectory(filepath.Dir(f.directory)), f.lock.Close())
}

func syncDirectory(name string) error {
	directory, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("datadir: %w", err)
	}
	return errors.Join(directory.Sync(), directory.Close())
}

// Abandon leaves nothing of what was filled.
func (f *Fill) Abandon() (err error) {
	if f.applier != nil {
		f.applier.Close()
	}
	if f.imported != nil {
		err = f.imported.Abandon()
	}
	if f.data != nil {
		err = errors.Join(err, f.data.Close())
	}
	return errors.Join(err, os.RemoveAll(f.working), f.lock.Close())
}
