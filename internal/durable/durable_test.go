package durable

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestKilledWhileItReplaces: what is left of a file that was being replaced goes, and nothing else.
func TestKilledWhileItReplaces(t *testing.T) {
	directory := t.TempDir()
	for _, name := range []string{"role.1", "role.tmp", "role.x1.tmp", "other.1.tmp", ".1.tmp"} {
		if err := os.WriteFile(filepath.Join(directory, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(directory, "role.1.tmp"), 0o700); err != nil {
		t.Fatal(err)
	}
	names := func() (all []string) {
		entries, err := os.ReadDir(directory)
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			all = append(all, entry.Name())
		}
		return all
	}
	path := filepath.Join(directory, "role")
	if err := Replace(path, "former"); err != nil {
		t.Fatal(err)
	}
	before := names()
	func() {
		defer func() { recover() }()
		ReplaceWith(path, func(io.Writer) error { panic("a kill") })
	}()
	if len(names()) != len(before)+1 {
		t.Fatalf("left are %q", names())
	}
	if err := RemoveTemporary(directory, func(name string) bool { return name == "role" }); err != nil {
		t.Error(err)
	}
	if got := names(); !slices.Equal(got, before) {
		t.Errorf("left are %q, and before there were %q", got, before)
	}
	if err := RemoveTemporary(filepath.Join(directory, "none"), nil); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}
