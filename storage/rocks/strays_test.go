package rocks

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestStrayFiles opens databases in whose directory somebody has put a file.
func TestStrayFiles(t *testing.T) {
	for name, refused := range map[string]bool{
		"0000000000.log": true, "000000.log": true, "0000000001.log": true, "0000000123.log": true, "000123.log": true,
		"18446744073709551615.log": true, "9223372036854775808.log": true, "99999999999999999999.log": true,
		"0000000123.sst": true, "18446744073709551614.sst": true, "18446744073709551614.dbtmp": true,
		"MANIFEST-18446744073709551615": true, "OPTIONS-18446744073709551615": true,
		"junk": false, "junk.log": false, "LOG": false, "123": false, "archive": false,
	} {
		d := openNew(t)
		put(t, d, d.Family(DefaultFamily), "k", "v")
		must(t, d.Close())
		path := filepath.Join(d.Directory(), name)
		must(t, os.WriteFile(path, []byte("KEDISLOG"), 0o600))
		again, err := Open(Options{Directory: d.Directory()})
		if refused != (err != nil) || refused && !strings.Contains(err.Error(), path) {
			t.Errorf("with %s: %v", name, err)
		}
		if err == nil {
			must(t, again.Close())
			continue
		}
		must(t, os.Remove(path))
		again, err = Open(Options{Directory: d.Directory()})
		must(t, err)
		wantValue(t, again, again.Family(DefaultFamily), nil, "k", "v")
		must(t, again.Close())
	}
}
