package command

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"kedis/server/execute"
)

// BenchmarkScripts executes pipelines of 16 scripts, each pipeline in one commit, on keys that are
// in memory.
func BenchmarkScripts(b *testing.B) {
	fields := []string{}
	for i := range 10 {
		fields = append(fields, fmt.Sprintf("field:%d", i), "value")
	}
	var items []string
	for i := range 25 {
		items = append(items, fmt.Sprintf(`{"n":%d,"v":"value %[1]d","ok":true}`, i))
	}
	json := `{"id":17,"items":[` + strings.Join(items, ",") + "]}"
	for _, benchmark := range []struct {
		name, script string
		arguments    []string
	}{
		{"nothing", "return 1", nil},
		{"GET", "return redis.call('get', KEYS[1])", nil},
		{"SET", "return redis.call('set', KEYS[1], ARGV[1])", []string{"value"}},
		{"ten HSETs", "for i = 1, 20, 2 do redis.call('hset', KEYS[1], ARGV[i], ARGV[i + 1]) end return 1", fields},
		{"cjson of 1 KB", "return #cjson.encode(cjson.decode(ARGV[1]))", []string{json}},
		{"cmsgpack of 1 KB", "return #cmsgpack.pack(cjson.decode(ARGV[1]))", []string{json}},
		{"ten GETs", "for i = 1, 10 do redis.call('get', KEYS[1]) end return 1", nil},
	} {
		b.Run(benchmark.name, func(b *testing.B) {
			engine, log := newTestEngine(b)
			log.Discard = true
			c := newTestClient(b, engine)
			c.Do("SCRIPT", "LOAD", benchmark.script)
			digits := scriptDigest([]byte(benchmark.script))
			requests := make([][][]byte, 1000)
			for i := range requests {
				key := fmt.Sprintf("%s:%012d", benchmark.name, i)
				if benchmark.name != "ten HSETs" {
					c.Do("SET", key, "a value")
				}
				requests[i] = words(append([]string{"EVALSHA", string(digits[:]), "1", key}, benchmark.arguments...)...)
			}
			c.runPipelines(requests, 1000)
			b.ReportAllocs()
			b.ResetTimer()
			before := processorTime(b)
			c.runPipelines(requests, b.N)
			b.ReportMetric(float64(processorTime(b)-before)/float64(b.N), "processor-ns/op")
		})
	}
}

// runPipelines executes so many of the requests, again from the first one after the last, 16 in a
// commit.
func (c *testClient) runPipelines(requests [][][]byte, count int) {
	finish := func() {
		if err := c.Batch.Commit(); err != nil {
			c.T.Fatal(err)
		}
		c.Batch.Clear()
		c.Session.Reply.Reset()
	}
	for i := range count {
		request := c.Batch.Read(c.Session, requests[i%len(requests)])
		outcome := c.Batch.Execute(c.Session, request)
		if i%16 == 15 || outcome != execute.Done {
			finish()
		}
		if outcome != execute.Done { // the machine is busy
			c.Engine.Work(c.Session, request)
		}
	}
	finish()
}

// processorTime is what the process has taken of the processor, in ns: on a busy machine the clock
// tells little.
func processorTime(b *testing.B) int64 {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return used.Utime.Nano() + used.Stime.Nano()
}
