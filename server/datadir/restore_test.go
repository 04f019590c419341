package datadir

import (
	"os"
	"path/filepath"
	"testing"
)

// TestRestoredDataAreTheOwners: nobody but their owner can read the copies of a checkpoint that
// everybody can read.
func TestRestoredDataAreTheOwners(t *testing.T) {
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "db")
	if err := os.WriteFile(filepath.Join(from, "CURRENT"), []byte("MANIFEST-000001\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := copyCheckpoint(from, to); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]os.FileMode{to: 0o700, filepath.Join(to, "CURRENT"): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v; want %v", path, info.Mode(), err, want)
		}
	}
}
