package execute

import (
	"runtime"
	"testing"
	"time"

	"kedis/ttl"
)

// TestWorkersStopInTheEnd: stop may be called again, and succeeds when the last one has ended.
func TestWorkersStopInTheEnd(t *testing.T) {
	var w workers
	w.start(0, 2)
	working := w.take()
	if w.stop(time.Millisecond) {
		t.Fatal("a worker still works")
	}
	w.give(working)
	if !w.stop(10 * time.Second) {
		t.Error("no worker works any more")
	}
}

// TestStopSendsSweepersAway: a sweeper that waits for a worker is not waited for.
func TestStopSendsSweepersAway(t *testing.T) {
	e, _ := newTestEngine(t)
	var busy []token
	for range e.workers.count {
		busy = append(busy, e.workers.take())
	}
	swept, stopped := make(chan error, 1), make(chan bool, 1)
	go func() {
		_, err := e.Expiries().Due(0, ttl.Due{}, e.Now(), 1)
		swept <- err
	}()
	waits := func() bool {
		e.workers.mu.Lock()
		defer e.workers.mu.Unlock()
		return len(e.workers.waiting) > 0
	}
	for !waits() {
		runtime.Gosched()
	}
	go func() { stopped <- e.Stop() }()
	select {
	case err := <-swept:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(30 * time.Second): // longer than Stop waits for workers
		t.Error("the sweeper waits for a worker")
	}
	for _, t := range busy {
		e.workers.give(t)
	}
	if !<-stopped {
		t.Error("a worker that was given back is missing")
	}
}
