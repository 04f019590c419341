package replication

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"kedis/internal/psync"
)

// countingContext never ends, and counts what waits for that.
type countingContext struct {
	context.Context
	end     chan struct{}
	waiting *atomic.Int32
}

func (c countingContext) Done() <-chan struct{} { return c.end }

func (c countingContext) AfterFunc(func()) (stop func() bool) {
	c.waiting.Add(1)
	return func() bool {
		c.waiting.Add(-1)
		return true
	}
}

// TestConnectionsLeaveNothing: a link may lose its connection for years before it ends.
func TestConnectionsLeaveNothing(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	var waiting atomic.Int32
	l := &link{node: node(t, t.TempDir(), ""), ctx: countingContext{context.Background(), make(chan struct{}), &waiting},
		target: target{"127.0.0.1", listener.Addr().(*net.TCPAddr).Port}}
	for range 3 {
		if _, err := l.connect(); err != nil {
			t.Fatal(err)
		}
		if waiting.Load() != 1 {
			t.Errorf("%d wait for the link's end, and not the connection only", waiting.Load())
		}
		l.disconnect()
	}
	if waiting.Load() != 0 {
		t.Errorf("%d connections that are closed still wait for the link's end", waiting.Load())
	}
}

// TestPauses: who can't take a snapshot for want of space has the primary make the next one later
// and later; who lost the connection comes back soon.
func TestPauses(t *testing.T) {
	for name, c := range map[string]struct {
		state                 State
		cut, diverged, moved  bool
		second, eighth, later time.Duration
		err                   error
	}{
		"nobody is there":             {Connect, false, false, false, 100 * time.Millisecond, time.Second, time.Second, nil},
		"a snapshot has no room":      {FullSync, false, false, false, 100 * time.Millisecond, 6400 * time.Millisecond, 30 * time.Second, nil},
		"again, of diverged data":     {FullSync, false, true, false, 100 * time.Millisecond, 6400 * time.Millisecond, 30 * time.Second, nil},
		"a snapshot is cut off":       {FullSync, true, false, false, 100 * time.Millisecond, time.Second, time.Second, nil},
		"a stream":                    {Connected, true, false, true, retrySoon, retrySoon, retrySoon, nil},
		"a stream without an effect":  {Connected, true, false, false, 100 * time.Millisecond, time.Second, time.Second, nil},
		"the data aren't its primary": {Connected, false, true, true, time.Minute, time.Minute, time.Minute, nil},
		"it sends scripts":            {Connected, false, false, true, time.Minute, time.Minute, time.Minute, psync.ErrScript},
	} {
		l := &link{cut: c.cut, diverged: c.diverged, patience: time.Minute}
		l.state.Store(int32(c.state))
		retry, got := retrySoon, []time.Duration{}
		for range 12 {
			retry = l.pause(c.err, retry, c.moved)
			got = append(got, retry)
			retry *= 2
		}
		if got[1] != c.second || got[7] != c.eighth || got[11] != c.later {
			t.Errorf("%s: the primary is left alone for %v", name, got)
		}
	}
	l := &link{}
	if at := l.pause(nil, 2*retryFull, false); at != retryLate {
		t.Errorf("when a snapshot had no room, and then nobody is there, the next attempt comes after %v", at)
	}
}

// TestPatience: a primary whose stream can't be applied is asked for it later and later, and soon
// again when that was long ago.
func TestPatience(t *testing.T) {
	l := &link{}
	for _, want := range []time.Duration{retrySoon, 2 * retrySoon, 4 * retrySoon} {
		if l.losePatience(); l.patience != want {
			t.Errorf("it is left alone for %v, want %v", l.patience, want)
		}
	}
	for range 20 {
		l.losePatience()
	}
	if l.patience != retrySeldom {
		t.Errorf("in the end it is left alone for %v", l.patience)
	}
	l.lastFailed = time.Now().Add(-2 * calmAfter)
	if l.losePatience(); l.patience != retrySoon {
		t.Errorf("after a while it is left alone for %v", l.patience)
	}
}
