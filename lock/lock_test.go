package lock

import (
	"runtime"
	"sync"
	"testing"
	"time"
)

func TestReadersShareAndWritersExclude(t *testing.T) {
	table := NewTable()
	if got := table.TryShared(7, 1); got != Acquired {
		t.Fatalf("first reader: %v", got)
	}
	if got := table.TryShared(7, 2); got != Acquired {
		t.Fatalf("second reader: %v", got)
	}
	if got := table.TryExclusive(7, 3); got != Busy {
		t.Fatalf("writer beside readers: %v", got)
	}
	table.ReleaseShared(7)
	table.ReleaseShared(7)
	if got := table.TryExclusive(7, 3); got != Acquired {
		t.Fatalf("writer alone: %v", got)
	}
	if got := table.TryShared(7, 3); got != Held {
		t.Fatalf("the writer reads: %v", got)
	}
	if got := table.TryShared(7, 1); got != Busy {
		t.Fatalf("reader beside a writer: %v", got)
	}
	table.ReleaseExclusive(7, 3)
	if w := table.words[7].Load(); w != 0 {
		t.Fatalf("the word after all have left: %x", w)
	}
}

func TestTheFirstThatWaitsIsNext(t *testing.T) {
	table := NewTable()
	table.TryExclusive(1, 1)
	var order []Owner
	table.Wait(1, 2, func(uint32) { order = append(order, 2) })
	table.Wait(1, 3, func(uint32) { order = append(order, 3) })
	table.ReleaseExclusive(1, 1)
	if got := table.TryExclusive(1, 1); got != Busy {
		t.Fatalf("the one that left came in again before those that wait: %v", got)
	}
	table.ReleaseExclusive(1, 2)
	table.ReleaseExclusive(1, 3)
	if len(order) != 2 || order[0] != 2 || order[1] != 3 {
		t.Fatalf("granted in the order %v", order)
	}
	if w := table.words[1].Load(); w != 0 {
		t.Fatalf("the word after all have left: %x", w)
	}
}

func TestWaitingStopsNewReaders(t *testing.T) {
	table := NewTable()
	table.TryShared(1, 1)
	granted := false
	table.Wait(1, 2, func(uint32) { granted = true })
	if got := table.TryShared(1, 3); got != Busy {
		t.Fatalf("a reader overtook a waiting writer: %v", got)
	}
	table.ReleaseShared(1)
	if !granted {
		t.Fatal("the last reader left and nobody was told")
	}
}

func TestWaitForAFreeStripeIsGrantedAtOnce(t *testing.T) {
	table := NewTable()
	granted := false
	table.Wait(1, 2, func(uint32) { granted = true })
	if !granted || table.TryExclusive(1, 3) != Busy {
		t.Fatal("a free stripe was not handed to the one that asked for it")
	}
}

func TestCountersUnderContention(t *testing.T) {
	table := NewTable()
	var counter int
	var group sync.WaitGroup
	for owner := Owner(1); owner <= 8; owner++ {
		group.Add(1)
		go func() {
			defer group.Done()
			turn := make(chan struct{}, 1)
			for range 2000 {
				if table.TryExclusive(5, owner) == Busy {
					table.Wait(5, owner, func(uint32) { turn <- struct{}{} })
					<-turn
				}
				counter++
				table.ReleaseExclusive(5, owner)
			}
		}()
	}
	group.Wait()
	if counter != 16000 {
		t.Fatalf("counted %d of 16000", counter)
	}
}

func TestGate(t *testing.T) {
	gate := NewGate(2)
	if !gate.TryEnter(0) {
		t.Fatal("an open gate refused")
	}
	closed := make(chan func())
	go func() { closed <- gate.Close(runtime.Gosched) }()
	for gate.TryEnter(1) { // until the other goroutine has begun to close it
		gate.Leave(1)
		time.Sleep(time.Millisecond)
	}
	woken := make(chan struct{})
	gate.WhenOpen(func() { close(woken) })
	select {
	case <-closed:
		t.Fatal("the gate was closed while somebody was inside")
	case <-woken:
		t.Fatal("woken although the gate is closing")
	default:
	}
	gate.Leave(0)
	open := <-closed
	open()
	<-woken
	if !gate.TryEnter(1) {
		t.Fatal("the gate stayed closed")
	}
}

func TestCancel(t *testing.T) {
	table := NewTable()
	table.TryExclusive(1, 1)
	var granted []Owner
	ask := func(owner Owner) { table.Wait(1, owner, func(uint32) { granted = append(granted, owner) }) }
	ask(2)
	ask(3)
	if !table.Cancel(1, 2) || table.Cancel(1, 2) {
		t.Fatal("who waits can't give up once")
	}
	table.ReleaseExclusive(1, 1)
	if len(granted) != 1 || granted[0] != 3 || table.Cancel(1, 3) {
		t.Fatalf("granted to %v", granted)
	}
	ask(2)
	if !table.Cancel(1, 2) {
		t.Fatal("the last one can't give up")
	}
	table.ReleaseExclusive(1, 3)
	if got := table.TryShared(1, 4); got != Acquired {
		t.Fatalf("a reader, when nobody is there: %v", got)
	}
	ask(2)
	if got := table.TryShared(1, 5); got != Busy {
		t.Fatalf("a reader overtook who waits: %v", got)
	}
	table.Cancel(1, 2)
	if got := table.TryShared(1, 5); got != Acquired {
		t.Fatalf("a reader beside a reader: %v", got)
	}
	table.ReleaseShared(1)
	table.ReleaseShared(1)
	if w := table.words[1].Load(); w != 0 {
		t.Fatalf("the word after all have left: %x", w)
	}
}

// TestCancelBesideReleases has some wait and give up while others come and go.
func TestCancelBesideReleases(t *testing.T) {
	table := NewTable()
	var workers sync.WaitGroup
	for owner := Owner(1); owner <= 4; owner++ {
		workers.Go(func() {
			for i := range 20000 {
				shared := owner%2 == 0 && i%2 == 0
				switch {
				case shared && table.TryShared(1, owner) == Acquired:
					table.ReleaseShared(1)
				case !shared && table.TryExclusive(1, owner) == Acquired:
					table.ReleaseExclusive(1, owner)
				default:
					mine := make(chan struct{})
					table.Wait(1, owner, func(uint32) { close(mine) })
					if i%3 > 0 && table.Cancel(1, owner) {
						continue
					}
					<-mine
					table.ReleaseExclusive(1, owner)
				}
			}
		})
	}
	workers.Wait()
	if w := table.words[1].Load(); w != 0 {
		t.Fatalf("the word after all have left: %x", w)
	}
}

// TestOthersReadMeanwhile: between a reader's last look at a stripe and its handing over, who
// waited has cancelled, another reader has come, and somebody waits again.
func TestOthersReadMeanwhile(t *testing.T) {
	table := NewTable()
	table.TryShared(1, 1)
	table.Wait(1, 2, func(uint32) { t.Error("granted to who has cancelled") })
	seen := table.words[1].Load()
	table.Cancel(1, 2)
	table.TryShared(1, 3)
	granted := false
	table.Wait(1, 4, func(uint32) { granted = true })
	if table.handOver(1, seen) || granted {
		t.Fatal("a stripe that is read was handed to a writer")
	}
	table.ReleaseShared(1)
	table.ReleaseShared(1)
	if !granted {
		t.Error("the last reader didn't hand it over")
	}
}
