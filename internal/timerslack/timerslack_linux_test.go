package timerslack

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestSlack asks for the slack of every thread, Go's monitor among them. The kernel tells it to
// root, and to others only that of the thread that asks.
func TestSlack(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	threads, err := filepath.Glob("/proc/self/task/*")
	if err != nil {
		t.Fatal(err)
	}
	told := 0
	for _, thread := range threads {
		slack, err := os.ReadFile(filepath.Join("/proc", filepath.Base(thread), "timerslack_ns"))
		if os.IsPermission(err) && os.Getuid() != 0 {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		told++
		if got := strings.TrimSpace(string(slack)); got != "200000" {
			t.Errorf("thread %s has a slack of %s ns, want 200000", thread, got)
		}
	}
	if told == 0 {
		t.Error("no thread's slack was told")
	}
}
