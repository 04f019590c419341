package datadir

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"kedis/binlog"
)

// TestLaterLogWithRecords starts a data directory with a log that the data doesn't belong to.
func TestLaterLogWithRecords(t *testing.T) {
	for _, c := range []struct {
		name    string
		number  int
		records bool
		emptied bool // there is no data at all
		refused bool
	}{
		{"a later log with records", 2, true, false, true},
		{"a later log without records", 2, false, false, false},
		{"a log without data", 1, true, true, true},
		{"a log without records and data", 1, false, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			options := configured(t, t.TempDir())
			directory := options.Dir.Get()
			open := func() error {
				data, err := Open(options, hclog.NewNullLogger())
				if err != nil {
					return err
				}
				return data.Close()
			}
			if err := open(); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(directory, "binlog", strconv.Itoa(c.number))
			if c.emptied {
				db := filepath.Join(directory, "db")
				if err := errors.Join(os.RemoveAll(db), os.RemoveAll(path), os.Mkdir(db, 0o700)); err != nil {
					t.Fatal(err)
				}
			}
			log, err := binlog.Create(binlog.Options{Directory: path}, binlog.History{ID: binlog.NewID()}, 1000, 0)
			if err != nil {
				t.Fatal(err)
			}
			if c.records {
				if _, err := log.Append(0, 0, []byte("*1\r\n$4\r\nPING\r\n")); err != nil {
					t.Fatal(err)
				}
			}
			if err := log.Close(); err != nil {
				t.Fatal(err)
			}
			err = open()
			if c.refused != (err != nil) || err != nil && !strings.Contains(err.Error(), path+" holds writes from position 1000 to 1014") {
				t.Fatalf("the start: %v", err)
			}
			if _, from, to, err := binlog.Extent(path); c.refused && (err != nil || from == to) {
				t.Errorf("the log was touched: from %d to %d, %v", from, to, err)
			}
		})
	}
}

// TestPartialForkIsRemoved starts a data directory in which a crash has left a fork of the log
// incomplete.
func TestPartialForkIsRemoved(t *testing.T) {
	options := configured(t, t.TempDir())
	partial := filepath.Join(options.Dir.Get(), "binlog", "2"+binlog.PartialSuffix)
	note := filepath.Join(options.Dir.Get(), "binlog", "1"+partedSuffix+".17.tmp")
	for range 2 {
		data, err := Open(options, hclog.NewNullLogger())
		if err != nil {
			t.Fatal(err)
		}
		if err := data.Close(); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{partial, note} {
			if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
				t.Fatalf("%s is there: %v", path, err)
			}
		}
		if err := os.WriteFile(note, nil, 0o640); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(partial, 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(partial, "0000000001.log"), make([]byte, 100), 0o640); err != nil {
			t.Fatal(err)
		}
	}
}

// TestForkOfAHistoryThatCameAgain starts a data directory in which a crash has left a fork. The
// history of the fork is one that the log has left, taken up again and left once more.
func TestForkOfAHistoryThatCameAgain(t *testing.T) {
	options := configured(t, t.TempDir())
	data, err := Open(options, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	log := data.Log()
	ping := func() error {
		_, err := log.Append(0, 0, []byte("*1\r\n$4\r\nPING\r\n"))
		return err
	}
	again := log.History().ID
	if err := errors.Join(ping(), log.Branch(binlog.NewID()), log.Branch(again), ping()); err != nil {
		t.Fatal(err)
	}
	end := log.Position()
	if err := errors.Join(log.Branch(binlog.NewID()), ping()); err != nil {
		t.Fatal(err)
	}
	fork, number, err := data.ForkLog(end)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(fork.Close(), data.Close()); err != nil {
		t.Fatal(err)
	}
	if data, err = Open(options, hclog.NewNullLogger()); err != nil {
		t.Fatal(err)
	}
	if err := data.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(data.logOptions(number).Directory); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the fork is there: %v", err)
	}
}

// TestFormerLogThatCannotBeKept starts a data directory whose former log has an end to be kept, and
// can't be. The log stays for a later start, which keeps it.
func TestFormerLogThatCannotBeKept(t *testing.T) {
	options := configured(t, t.TempDir())
	open := func() {
		t.Helper()
		data, err := Open(options, hclog.NewNullLogger())
		if err != nil {
			t.Fatal(err)
		}
		if err := data.Close(); err != nil {
			t.Fatal(err)
		}
	}
	open()
	former := filepath.Join(options.Dir.Get(), "binlog", "0")
	log, err := binlog.Create(binlog.Options{Directory: former}, binlog.History{ID: binlog.NewID()}, 1000, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := log.Append(0, 0, []byte("*1\r\n$4\r\nPING\r\n")); err != nil {
		t.Fatal(err)
	}
	id := log.History().ID
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(former+partedSuffix, []byte("1000\n"), 0o640); err != nil {
		t.Fatal(err)
	}
	parted := filepath.Join(options.Dir.Get(), "parted")
	if err := os.WriteFile(parted, nil, 0o640); err != nil { // where a directory has to be
		t.Fatal(err)
	}
	open()
	if _, from, to, err := binlog.Extent(former); err != nil || from != 1000 || to != 1014 {
		t.Fatalf("the former log goes from %d to %d, %v", from, to, err)
	}
	if err := os.Remove(parted); err != nil {
		t.Fatal(err)
	}
	open()
	if _, from, to, err := binlog.Extent(filepath.Join(parted, id+"-1000-1014")); err != nil || from != 1000 || to != 1014 {
		t.Errorf("kept is what goes from %d to %d, %v", from, to, err)
	}
	if _, err := os.Stat(former); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the former log is there: %v", err)
	}
}

// TestForgetParted: when the primary turns out to go on with the log, nothing is kept of it.
func TestForgetParted(t *testing.T) {
	options := configured(t, t.TempDir())
	data, err := Open(options, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	defer data.Close()
	note := data.logOptions(data.Store.LogDirectory()).Directory + partedSuffix
	if err := data.NoteParted(1000); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(note); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := data.ForgetParted(); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(note); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the note is there: %v", err)
		}
	}
}
