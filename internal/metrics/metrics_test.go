package metrics

import (
	"sync"
	"testing"
	"time"
	"unsafe"
)

func TestCounter(t *testing.T) {
	counter := NewCounter(3)
	var done sync.WaitGroup
	for lane := range 3 {
		for range 2 { // a lane may be shared
			done.Go(func() {
				for range 1000 {
					counter.Add(lane, int64(lane)+1)
				}
			})
		}
	}
	done.Wait()
	if sum := counter.Sum(); sum != 2*1000*(1+2+3) {
		t.Errorf("sum %d", sum)
	}
	counter.Reset()
	if sum := counter.Sum(); sum != 0 {
		t.Errorf("sum %d after Reset", sum)
	}
}

func TestLanesFillCacheLines(t *testing.T) {
	for name, size := range map[string]uintptr{
		"counterLane": unsafe.Sizeof(counterLane{}), "commandLane": unsafe.Sizeof(commandLane{}), "histogramLane": unsafe.Sizeof(histogramLane{}),
	} {
		if size%cacheLine != 0 {
			t.Errorf("%s has %d bytes", name, size)
		}
	}
}

func TestRecordingAllocatesNothing(t *testing.T) {
	counter, command := NewCounter(2), NewCommand(2)
	command.Latency.Record(1, time.Microsecond) // makes the row
	n := testing.AllocsPerRun(100, func() {
		counter.Add(1, 1)
		command.Record(1, time.Microsecond, true)
		command.Reject(1)
		command.Latency.Record(1, time.Microsecond)
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestRate(t *testing.T) {
	var rate Rate
	start := time.Unix(1000, 0)
	at := func(milliseconds int) time.Time { return start.Add(time.Duration(milliseconds) * time.Millisecond) }
	expect := func(want int64) {
		t.Helper()
		if got := rate.PerSecond(); got != want {
			t.Errorf("%d per second, want %d", got, want)
		}
	}
	rate.Sample(at(0), 5000) // what was counted before doesn't matter
	expect(0)
	for i := 1; i <= 8; i++ {
		rate.Sample(at(100*i), 5000+int64(i)*160)
	}
	expect(800) // half of 1600, as half of the samples are there
	for i := 9; i <= 40; i++ {
		rate.Sample(at(100*i), 5000+int64(i)*160)
	}
	expect(1600)
	rate.Sample(at(4000), 5000+41*160) // no time has passed
	expect(1600)
	rate.Sample(at(4200), 5000+42*160) // in 200 ms
	expect(1600)
	rate.Sample(at(4300), 0) // the counter was reset
	expect(1500)
}
