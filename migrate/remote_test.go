package migrate

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"net"
	"syscall"
	"testing"
)

// TestIsTransient has errors that may be gone when it is tried again, and others.
func TestIsTransient(t *testing.T) {
	refused := func(text string) error { return fmt.Errorf("around: %w", &replyError{text, "EXEC"}) }
	for _, c := range []struct {
		err  error
		want bool
	}{
		{fmt.Errorf("around: %w", io.EOF), true},
		{refused("LOADING Redis is loading the dataset in memory"), true},
		{refused("BUSY Redis is busy running a script."), true},
		{refused("EXECABORT Transaction discarded because of: BUSY Redis is busy running a script."), true},
		{refused("BUSYGROUP Consumer Group name already exists"), false},
		{refused("ERR no"), false},
		{fmt.Errorf("around: %w", &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}), true},
		{fmt.Errorf("around: %w", context.DeadlineExceeded), true},
		{&fs.PathError{Op: "write", Path: "position", Err: syscall.ENOSPC}, false},
		{&fs.PathError{Op: "open", Path: "position", Err: syscall.ENOENT}, false},
	} {
		if got := isTransient(sourceSide.explain("a:1", c.err)); got != c.want {
			t.Errorf("%v: %v", c.err, got)
		}
	}
}
