package replication

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"kedis/redis-tests/launch"
)

// TestDamageInThePrimarysLog damages a record of a primary's log, while a replica is away that is
// going to need it. The primary's data are whole, and the replica takes all of them.
func TestDamageInThePrimarysLog(t *testing.T) {
	const firstRecord = 4096 // in the file
	for name, offset := range map[string]func(log []byte) int{
		"before where the replica is": func([]byte) int { return firstRecord },
		"behind it":                   func(log []byte) int { return bytes.Index(log, []byte("missed")) },
	} {
		t.Run(name, func(t *testing.T) {
			program := launch.MustUnderTest(t)
			primary, replica := launch.ForTest(t, program), launch.ForTest(t, program)
			link := newProxy(t, primary.Address)
			c := primary.MustDial(t)
			do(t, c, "SET", "key", "seen")
			follow(t, replica, link.port)
			converge(t, primary, replica)
			link.redirect("127.0.0.1:1") // where nobody is
			do(t, c, "SET", "key", "missed")

			path := filepath.Join(primary.Directory, "binlog", "1", "0000000001.log")
			log, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			file, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			at := offset(log)
			if _, err := file.WriteAt([]byte{^log[at]}, int64(at)); err != nil {
				t.Fatal(err)
			}
			link.redirect(primary.Address)
			converge(t, primary, replica)
			equal(t, primary, replica)
			if full, _ := syncs(t, primary); full != 2 {
				t.Errorf("there were %d full synchronizations, with the first one", full)
			}
		})
	}
}
