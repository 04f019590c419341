package timerslack

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestSlack asks for the slack of every thread, Go's monitor among them.
func TestSlack(t *testing.T) {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, thread := range threads {
		slack, err := os.ReadFile(fmt.Sprintf("/proc/%s/timerslack_ns", thread.Name()))
		if os.IsPermission(err) {
			t.Skip("the kernel tells nobody but root what the slack of other threads is")
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.TrimSpace(string(slack)); got != "200000" {
			t.Errorf("thread %s has a slack of %s ns, want 200000", thread.Name(), got)
		}
	}
}
