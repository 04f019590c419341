package execute

import (
	"fmt"
	"testing"
	"time"
)

// TestLoader executes requests for records on the disk: those that RocksDB doesn't have in memory
// are handed out, and load.
func TestLoader(t *testing.T) {
	engine, _ := newTestEngine(t)
	t.Cleanup(func() {
		engine.loaders.stop()
		if !engine.loaders.stopped(time.Minute) {
			t.Error("a loader still runs")
		}
	})
	s := NewSession(Nowhere{}, true)
	batch := engine.NewBatch(0)
	key := func(i int) string { return fmt.Sprintf("key%05d", i) }
	const keys = 20000
	for i := range keys {
		batch.Execute(s, batch.Read(s, words("SET", key(i), fmt.Sprintf("%01000d", i))))
		if i%100 == 99 {
			commitPipeline(t, batch, s)
		}
	}
	if err := engine.Store.Persist(); err != nil {
		t.Fatal(err)
	}
	engine.loaders.took.Store(int64(longLoad)) // the disk is slow
	loaded := 0
	for i := range keys {
		if !batch.QueuePrefetch(s, batch.Read(s, words("GET", key(i)))) {
			t.Fatal("no room, though Warm was called")
		}
		for _, cold := range batch.Prefetch() {
			done := make(chan struct{})
			if !cold.Wait(engine).Begin(func() { close(done) }) {
				t.Fatal("the loaders are busy")
			}
			<-done
			loaded++
		}
		if outcome := batch.Execute(s, batch.Read(s, words("GET", key(i)))); outcome != Done {
			t.Fatal(outcome)
		}
		if want := fmt.Sprintf("$1000\r\n%01000d\r\n", i); string(s.Reply.Bytes()) != want {
			t.Fatalf("%s: %.40q, want %.40q", key(i), s.Reply.Bytes(), want)
		}
		commitPipeline(t, batch, s)
		engine.loaders.took.Store(int64(longLoad))
	}
	if loaded == 0 {
		t.Error("nothing had to be loaded")
	}
}

// TestLoadThatNeverEndsHoldsUpNoStop: the disk may keep a loader for ever. stopped may be called
// again, and succeeds when it has come back.
func TestLoadThatNeverEndsHoldsUpNoStop(t *testing.T) {
	engine, _ := newTestEngine(t)
	begun, comesBack := make(chan struct{}), make(chan struct{})
	if !engine.loaders.try(load{done: func() { close(begun); <-comesBack }}) {
		t.Fatal("the loaders are busy")
	}
	<-begun
	stopped := make(chan struct{})
	go func() {
		engine.loaders.stop()
		if engine.loaders.stopped(time.Millisecond) {
			t.Error("a loader still runs")
		}
		close(stopped)
	}()
	select {
	case <-stopped:
	case <-time.After(time.Minute):
		t.Error("the stop waits for the loader")
	}
	close(comesBack)
	if !engine.loaders.stopped(time.Minute) {
		t.Error("no loader runs any more")
	}
}

// TestNothingIsLoadedInVain expects requests that won't look for a key, or not yet.
func TestNothingIsLoadedInVain(t *testing.T) {
	engine, _ := newTestEngine(t)
	s := NewSession(Nowhere{}, true)
	batch := engine.NewBatch(0)
	for _, request := range [][]string{{"PING", "key"}, {"PUBLISH", "key", "x"}, {"GET", "key", "x"}, {"NONE", "key"}} {
		batch.QueuePrefetch(s, read(engine, s, request...))
	}
	if which := batch.prefetch.reading(0b1111); which != 0 {
		t.Errorf("%b will read", which)
	}
	batch.Prefetch()
	batch.Execute(s, batch.Read(s, words("MULTI")))
	batch.QueuePrefetch(s, read(engine, s, "GET", "key"))
	if which := batch.prefetch.reading(1); which != 0 {
		t.Error("what is queued will read")
	}
	batch.Prefetch()
	commitPipeline(t, batch, s)
}
