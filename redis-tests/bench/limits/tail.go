package main

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"kedis/redis-tests/launch"
)

// fixed is a source of numbers for what isn't to be chance.
func fixed() *rand.Rand { return rand.New(rand.NewPCG(1, 1)) }

// activity is what RocksDB did in one slot of time.
type activity struct {
	at         time.Duration
	generation bool // a generation of recent writes went to RocksDB
	flush      bool // a memtable was being written to a file
	compaction bool
}

// tail compares the slowest requests of a quiet server with those of one that flushes and compacts,
// at the same rate: half of the most that the latter can do.
func (b *bench) tail(r *report) error {
	// Small enough for flushes and compactions to come often in a short run.
	small := strconv.FormatInt(max(b.memory/64, megabyte), 10)
	options := append(settings(b.memory), "--generation-bytes", small, "--rocksdb-write-buffer-size", small)
	return b.withServer(b.program, options, func(server *launch.Server) error {
		o, err := observe(server)
		if err != nil {
			return err
		}
		defer o.close()
		d := newData(b.memory, valueSize)
		if err := d.load(server); err != nil {
			return err
		}
		if err := o.settle(longest); err != nil {
			return err
		}
		quiet, busy := &workload{d, uniform(d.count), 0}, &workload{d, uniform(d.count), 0.5}
		most, err := busy.closedLoop(server, b.length/2)
		if err != nil {
			return err
		}
		if err := o.settle(longest); err != nil {
			return err
		}
		r.text("%d keys of %d bytes, %s; %d connections, open loop: each request is sent when it is due, and its latency counts from then. "+
			"The most of a 50/50 mix in a closed loop: %.0f requests/s; both runs are at half of it, %v each.",
			d.count, keySize+valueSize, megabytes(d.bytes()), clients, most.rate(), b.length)
		return b.compareTails(r, server, o, quiet, busy, most.rate()/2)
	})
}

func (b *bench) compareTails(r *report, server *launch.Server, o *observer, quiet, busy *workload, rate float64) error {
	calm, calmActivities, err := b.watched(server, o, quiet, rate)
	if err != nil {
		return err
	}
	stressed, activities, err := b.watched(server, o, busy, rate)
	if err != nil {
		return err
	}
	r.header("", "requests/s", "p50 ms", "p99 ms", "p99.9 ms", "longest ms")
	tell := func(name string, rate float64, h *histogram) {
		r.row(append([]string{name, fmt.Sprintf("%.0f", rate)}, quantiles(h)...)...)
	}
	tell("quiet: reads", calm.rate(), &calm.reads)
	tell("50/50 with flush and compaction", stressed.rate(), stressed.all())
	tell("– its reads", stressed.rate()/2, &stressed.reads)
	tell("– its writes", stressed.rate()/2, &stressed.writes)
	ratio := stressed.all().quantile(0.999).Seconds() / calm.all().quantile(0.999).Seconds()
	r.text("p99.9 with flush and compaction is **%.1f** times the quiet one (wanted: at most 5). Of %d slots of %v, RocksDB took a generation in %d, "+
		"flushed in %d and compacted in %d; in the quiet run %d, %d and %d.", ratio, len(activities), slot,
		count(activities, activity.isGeneration), count(activities, activity.isFlush), count(activities, activity.isCompaction),
		count(calmActivities, activity.isGeneration), count(calmActivities, activity.isFlush), count(calmActivities, activity.isCompaction))
	if count(activities, activity.isFlush) == 0 || count(activities, activity.isCompaction) == 0 {
		r.text("The run was too short for this rate: it has to see flushes and compactions both (-seconds, LENGTH).")
	}
	for i := range max(len(calm.timeline), len(stressed.timeline)) {
		r.line("%5.1f s: worst quiet %s ms, busy %s ms%s", (time.Duration(i) * slot).Seconds(), milliseconds(calm.timeline.at(i)),
			milliseconds(stressed.timeline.at(i)), told(activities, i))
	}
	return r.chart(drawTimelines([]series{{"quiet: reads", calm.timeline, calmActivities}, {"50/50 with flush and compaction", stressed.timeline, activities}}))
}

// at is a point of the timeline, 0 where it has none.
func (t timeline) at(i int) time.Duration {
	if i >= len(t) {
		return 0
	}
	return t[i]
}

// told says what RocksDB did in a slot.
func told(activities []activity, i int) (text string) {
	if i >= len(activities) {
		return ""
	}
	for _, does := range []struct {
		that bool
		name string
	}{{activities[i].generation, "generation"}, {activities[i].flush, "flush"}, {activities[i].compaction, "compaction"}} {
		if does.that {
			text += ", " + does.name
		}
	}
	return text
}

func (a activity) isGeneration() bool { return a.generation }
func (a activity) isFlush() bool      { return a.flush }
func (a activity) isCompaction() bool { return a.compaction }

func count(activities []activity, is func(activity) bool) int {
	n := 0
	for _, a := range activities {
		if is(a) {
			n++
		}
	}
	return n
}

// watched runs a workload, and looks meanwhile at what RocksDB does.
func (b *bench) watched(server *launch.Server, o *observer, w *workload, rate float64) (*outcome, []activity, error) {
	done := make(chan struct{})
	var activities []activity
	failed := make(chan error, 1)
	go func() {
		var err error
		activities, err = o.watch(done)
		failed <- err
	}()
	outcome, err := w.openLoop(server, rate, b.length)
	close(done)
	if watchFailed := <-failed; err == nil {
		err = watchFailed
	}
	return outcome, activities, err
}

// watch asks for INFO once in each slot, until done.
func (o *observer) watch(done <-chan struct{}) ([]activity, error) {
	began, ticks := time.Now(), time.NewTicker(slot)
	defer ticks.Stop()
	before, err := o.fields("tier", "rocksdb")
	if err != nil {
		return nil, err
	}
	var activities []activity
	for {
		select {
		case <-done:
			return activities, nil
		case <-ticks.C:
		}
		now, err := o.fields("tier", "rocksdb")
		if err != nil {
			return nil, err
		}
		grown := func(name string) bool { return now[name] > before[name] }
		activities = append(activities, activity{at: time.Since(began), generation: grown("tier_flushed_generations"),
			flush:      now["rocksdb_running_flushes"] > 0 || grown("rocksdb_flushed_bytes"),
			compaction: now["rocksdb_running_compactions"] > 0 || grown("rocksdb_compaction_write_bytes")})
		before = now
	}
}
