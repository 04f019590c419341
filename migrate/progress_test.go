package migrate

import (
	"strings"
	"testing"
	"time"
)

func TestProgress(t *testing.T) {
	var out strings.Builder
	p := newProgress(&out, "snapshot", false)
	p.Total.Store(2000)
	p.Bytes.Store(1000)
	p.Keys.Store(7)
	p.Skip("because")
	p.at = time.Now().Add(-2 * time.Second)
	p.show(time.Now())
	if got := out.String(); !strings.HasPrefix(got, "snapshot [============>            ] 50% · 7 keys · 1000 B · ") || !strings.HasSuffix(got, "/s · 2s left\n") {
		t.Errorf("%q", got)
	}
	p.Total.Store(0)
	p.Seen.Store(1)
	p.Expected.Store(4)
	if got := p.line(1000); !strings.HasPrefix(got, "snapshot [======>                  ] 25% · ") {
		t.Errorf("by keys: %q", got)
	}
	p.Commands.Store(3)
	p.Phase("putting expiries right")
	p.Seen.Store(100)
	p.Expected.Store(400)
	out.Reset()
	p.at = time.Now().Add(-2 * time.Second)
	p.show(time.Now())
	if got := out.String(); !strings.HasPrefix(got, "putting expiries right [======>                  ] 25% · 7 keys · 3 commands · 1000 B · ") ||
		!strings.Contains(got, " keys/s · ") || !strings.HasSuffix(got, " left\n") {
		t.Errorf("a walk: %q", got)
	}
	p.Phase("stream")
	p.Lag.Store(2048)
	if got := p.line(1000); !strings.HasPrefix(got, "stream · 7 keys · 3 commands · 1000 B · ") || !strings.HasSuffix(got, " · lag 2.0 KB") {
		t.Errorf("stream: %q", got)
	}
	if got := p.Summary(); !strings.HasPrefix(got, "7 keys and 3 commands, 1000 B in ") || !strings.Contains(got, "\nskipped: 1, because\n") {
		t.Errorf("summary: %q", got)
	}
}

// TestProgressTerminal has one line that is written over, and lines of their own between.
func TestProgressTerminal(t *testing.T) {
	var out strings.Builder
	p := newProgress(&out, "stream", true)
	p.show(time.Now())
	p.Say("a line")
	if got := out.String(); !strings.HasPrefix(got, "stream · 0 keys") || !strings.HasSuffix(got, "\ra line\n") || strings.Count(got, "\n") != 1 {
		t.Errorf("%q", got)
	}
}
