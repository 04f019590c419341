package migrate

import (
	"bytes"
	"testing"
)

// TestResolveAcrossDatabases has a target that keeps its keys: own in database 0, other in database
// 1.
func TestResolveAcrossDatabases(t *testing.T) {
	const untouched = 0
	for _, c := range []struct {
		command string
		keys    []KeyPosition
		wide    bool
		code    int
	}{
		{"MOVE key 1", keysAt(1), false, untouched},
		{"MOVE own 1", keysAt(1), false, ExitUnsupported}, // or key own would be missing in database 1
		{"MOVE other 1", keysAt(1), false, ExitConflict},
		{"COPY key own DB 1", keysAt(-1, 2), false, untouched}, // to which that of database 0 is nothing
		{"COPY key own REPLACE DB 1", keysAt(-1, 2), false, untouched},
		{"COPY own key DB 1", keysAt(-1, 2), false, ExitUnsupported},
		{"COPY key other REPLACE DB 1", keysAt(-1, 2), false, ExitConflict},
		{"COPY key other", keysAt(-1, 2), false, untouched},
		{"COPY other key", keysAt(-1, 2), false, untouched},
		{"SORT key BY w_* STORE list", keysAt(-1, 5), true, ExitUnsupported},
	} {
		conflicts := &Conflicts{own: map[ownKey]struct{}{{0, "own"}: {}, {1, "other"}: {}}}
		command := &Command{Args: words(c.command), Keys: c.keys, Wide: c.wide}
		got, err := conflicts.resolve(command)
		if ExitCode(err) != c.code || err == nil && (got == nil || !bytes.Equal(bytes.Join(got.Args, nil), bytes.Join(words(c.command), nil))) {
			t.Errorf("%s: %v, %v", c.command, got, err)
		}
	}
}
