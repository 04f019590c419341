package commandline

import (
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestExportedFilesMode: a new file is what the umask lets it be, and one that replaces another may
// be read by those who might read that.
func TestExportedFilesMode(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o027))
	name := filepath.Join(t.TempDir(), "dump.rdb")
	for _, want := range []os.FileMode{0o640, 0o604} {
		err := writeWhole(name, io.Discard, func(w io.Writer) error {
			_, err := io.WriteString(w, "REDIS")
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != want {
			t.Errorf("%v, %v; want %v", info.Mode(), err, want)
		}
		if err := os.Chmod(name, 0o604); err != nil {
			t.Fatal(err)
		}
	}
}
