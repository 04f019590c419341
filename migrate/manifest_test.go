package migrate

import (
	"os"
	"path/filepath"
	"testing"
)

// TestFindManifest: the manifest is found, too, where the directory's name would be a pattern.
func TestFindManifest(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "[aof]")
	want := filepath.Join(directory, "appendonly.aof.manifest")
	if err := os.Mkdir(directory, 0o700); err != nil {
		t.Fatal(err)
	}
	if found, err := findManifest(directory); ExitCode(err) != ExitSource {
		t.Errorf("without a manifest: %q, %v", found, err)
	}
	if err := os.WriteFile(want, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if found, err := findManifest(directory); found != want || err != nil {
		t.Errorf("%q, %v", found, err)
	}
}
