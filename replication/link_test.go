package replication

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
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
