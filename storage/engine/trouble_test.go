package engine

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
)

// TestTroubleIsToldSparingly: a failure that lasts two and a half minutes and is met each second
// makes a line at its beginning, two on the way and one at its end.
func TestTroubleIsToldSparingly(t *testing.T) {
	var log strings.Builder
	trouble := trouble{logger: hclog.New(&hclog.LoggerOptions{Output: &log}), doing: "persisting"}
	now := time.Unix(1000, 0)
	trouble.note(nil, now)
	for second := range 150 {
		trouble.note(errors.New("no space"), now.Add(time.Duration(second)*time.Second))
	}
	for second := range 2 {
		trouble.note(nil, now.Add(time.Duration(150+second)*time.Second))
	}
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	want := []string{"persisting failed", "persisting still fails: for=1m0s", "persisting still fails: for=2m0s", "persisting works again: after=2m30s"}
	if len(lines) != len(want) {
		t.Fatalf("%d lines:\n%s", len(lines), log.String())
	}
	for i, line := range lines {
		if !strings.Contains(line, want[i]) {
			t.Errorf("line %d: %s, want %s", i, line, want[i])
		}
	}
}
