package datadir

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"kedis/binlog"
	"kedis/internal/config"
	"kedis/server/command"
	"kedis/storage/rdb"
)

const manifestKeys = 200

// configured is a configuration with a data directory.
func configured(t *testing.T, directory string) *config.Config {
	t.Helper()
	options := config.New()
	if err := options.SetFlag("dir", directory); err != nil {
		t.Fatal(err)
	}
	return options
}

// filled makes a data directory as an import does, by which nothing comes into the log.
func filled(t *testing.T) string {
	t.Helper()
	directory := filepath.Join(t.TempDir(), "data")
	fill, err := NewFill(configured(t, directory), hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	for i := range manifestKeys {
		value := &rdb.Value{Kind: rdb.String, Bytes: []byte(strings.Repeat("v", i))}
		if err := fill.Load(i%2, fmt.Appendf(nil, "key%d", i), value, 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := fill.Finish(); err != nil {
		t.Fatal(err)
	}
	return directory
}

// checkpointOf makes a checkpoint of a data directory.
func checkpointOf(t *testing.T, directory string) string {
	t.Helper()
	data, err := Open(configured(t, directory), hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	checkpoint, err := data.Store.Save(t.TempDir(), 0, time.Now())
	if err := errors.Join(err, data.Close()); err != nil {
		t.Fatal(err)
	}
	return checkpoint
}

// opened opens a data directory and counts its keys.
func opened(t *testing.T, directory string) (keys int64, err error) {
	t.Helper()
	options := configured(t, directory)
	data, err := Open(options, hclog.NewNullLogger())
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, data.Close()) }()
	engine := command.NewEngine(data.Store, options, data, hclog.NewNullLogger(), 1)
	if err := data.Recover(context.Background(), engine); err != nil {
		return 0, err
	}
	for database := range 2 {
		size, _ := data.Store.Size(database)
		keys += size
	}
	return keys, nil
}

// truncateManifest cuts a copy's manifest off.
func truncateManifest(t *testing.T, database string, size int64) {
	t.Helper()
	if err := os.Truncate(manifestPath(t, database), size); err != nil {
		t.Fatal(err)
	}
}

func manifestPath(t *testing.T, database string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(database, "MANIFEST-*"))
	if err != nil || len(found) != 1 {
		t.Fatalf("manifests: %q, %v", found, err)
	}
	return found[0]
}

func manifestSize(t *testing.T, database string) int64 {
	t.Helper()
	info, err := os.Stat(manifestPath(t, database))
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// TestTruncatedManifest starts data directories whose manifest lacks its end: RocksDB takes it for
// that of a crash. The start refuses that, or the log makes up for it; and it removes nothing that
// a backup of the manifest would need.
func TestTruncatedManifest(t *testing.T) {
	for name, original := range map[string]string{"filled": filled(t), "restored": restored(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			size := manifestSize(t, filepath.Join(original, "db"))
			tables := tablesIn(t, original)
			for _, cut := range cuts(size) {
				directory := t.TempDir()
				if err := os.CopyFS(directory, os.DirFS(original)); err != nil {
					t.Fatal(err)
				}
				truncateManifest(t, filepath.Join(directory, "db"), cut)
				keys, err := opened(t, directory)
				switch {
				case err != nil && cut == size:
					t.Errorf("with all of it: %v", err)
				case err == nil && keys != manifestKeys:
					t.Errorf("with %d of %d bytes it comes up with %d keys of %d", cut, size, keys, manifestKeys)
				case err != nil && tablesIn(t, directory) != tables:
					t.Errorf("with %d of %d bytes: %v; but it removes tables: %s, of %s", cut, size, err, tablesIn(t, directory), tables)
				}
			}
		})
	}
}

// cuts are how much of a file is left, from nothing to all of it.
func cuts(size int64) (list []int64) {
	for cut := int64(0); cut < size; cut += max(size/20, 1) {
		list = append(list, cut)
	}
	return append(list, size)
}

func restored(t *testing.T) string {
	t.Helper()
	directory := filepath.Join(t.TempDir(), "data")
	if _, err := Restore(configured(t, directory), checkpointOf(t, filled(t)), "", binlog.Range{}, hclog.NewNullLogger()); err != nil {
		t.Fatal(err)
	}
	return directory
}

func tablesIn(t *testing.T, directory string) string {
	t.Helper()
	tables, err := filepath.Glob(filepath.Join(directory, "db", "*.sst"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range tables {
		tables[i] = filepath.Base(tables[i])
	}
	return strings.Join(tables, " ")
}

// TestTruncatedManifestOfACheckpoint restores checkpoints whose manifest lacks its end.
func TestTruncatedManifestOfACheckpoint(t *testing.T) {
	original := checkpointOf(t, filled(t))
	size := manifestSize(t, original)
	for _, cut := range cuts(size) {
		checkpoint, directory := t.TempDir(), filepath.Join(t.TempDir(), "data")
		if err := os.CopyFS(checkpoint, os.DirFS(original)); err != nil {
			t.Fatal(err)
		}
		truncateManifest(t, checkpoint, cut)
		if _, err := Restore(configured(t, directory), checkpoint, "", binlog.Range{}, hclog.NewNullLogger()); err != nil {
			if cut == size {
				t.Errorf("with all of it: %v", err)
			}
			continue
		}
		if keys, err := opened(t, directory); err != nil || keys != manifestKeys {
			t.Errorf("restored with %d of %d bytes: %d keys, %v", cut, size, keys, err)
		}
	}
}

// TestDamagedReached changes each byte of the file that says how far the data has come.
func TestDamagedReached(t *testing.T) {
	directory := filled(t)
	path := filepath.Join(directory, "db", "REACHED")
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range content {
		damaged := append([]byte(nil), content...)
		damaged[i] ^= 1
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := opened(t, directory); err == nil || !strings.Contains(err.Error(), path+" is damaged") {
			t.Errorf("with byte %d changed: %v", i, err)
		}
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	if keys, err := opened(t, directory); err != nil || keys != manifestKeys {
		t.Errorf("as it was: %d keys, %v", keys, err)
	}
}
