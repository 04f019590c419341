package datadir

import (
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"kedis/binlog"
)

// TestTimesOfRecords: a start and a restore repeat what is relative to the time of its record as of
// that.
func TestTimesOfRecords(t *testing.T) {
	directory := filled(t)
	checkpoint := checkpointOf(t, directory)
	from, log := appendRecord(t, directory, "*5\r\n$3\r\nSET\r\n$5\r\nlater\r\n$1\r\nv\r\n$2\r\nEX\r\n$4\r\n3600\r\n")
	to := time.Now()
	time.Sleep(20 * time.Millisecond)
	if _, err := opened(t, directory); err != nil {
		t.Fatal(err)
	}
	restored := filepath.Join(t.TempDir(), "data")
	if _, err := Restore(configured(t, restored), checkpoint, log, binlog.Range{}, hclog.NewNullLogger()); err != nil {
		t.Fatal(err)
	}
	for what, directory := range map[string]string{"started": directory, "restored": restored} {
		at := expiryIn(t, directory, "later")
		if written := time.UnixMilli(at).Add(-time.Hour); written.Before(from.Truncate(time.Millisecond)) || written.After(to) {
			t.Errorf("%s: it expires an hour after %s; it came between %s and %s", what, written, from, to)
		}
	}
}

// appendRecord appends a record to the log alone, as a kill leaves it, and returns a time before it
// and the log's directory.
func appendRecord(t *testing.T, directory, payload string) (before time.Time, log string) {
	t.Helper()
	data, err := Open(configured(t, directory), hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	before = time.Now()
	if _, err := data.Log().Append(data.Log().Database(), data.Log().Database(), []byte(payload)); err != nil {
		t.Fatal(err)
	}
	log = filepath.Join(directory, "binlog", strconv.Itoa(int(data.Store.LogDirectory())))
	if err := data.Close(); err != nil {
		t.Fatal(err)
	}
	return before, log
}

// expiryIn is the time at which a key of database 0 in a data directory expires, in Unix ms.
func expiryIn(t *testing.T, directory, key string) int64 {
	t.Helper()
	data, err := Open(configured(t, directory), hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := data.Close(); err != nil {
			t.Error(err)
		}
	}()
	found, err := data.Store.NewTxn().DB(0).LookupAny([]byte(key))
	if err != nil || !found.Exists {
		t.Fatalf("%s: %v, %v", key, found, err)
	}
	return found.ExpireMs
}
