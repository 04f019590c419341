package command

import (
	"fmt"
	"strings"
	"testing"
)

// BenchmarkStream executes pipelines of 16 requests on a stream, each pipeline in one commit, as a
// reactor does.
func BenchmarkStream(b *testing.B) {
	value := strings.Repeat("x", 100)
	for _, benchmark := range []struct {
		name    string
		fill    func(c *testClient, entries int)
		request func(i int) [][]byte
	}{
		{"XADD", func(*testClient, int) {}, func(int) [][]byte { return words("XADD", "stream", "*", "field", value) }},
		{"XADD MAXLEN", func(*testClient, int) {}, func(int) [][]byte { return words("XADD", "stream", "MAXLEN", "~", "1000", "*", "field", value) }},
		{"XRANGE COUNT 10", fillEntries, func(i int) [][]byte { return words("XRANGE", "stream", fmt.Sprint(1+i), "+", "COUNT", "10") }},
		{"XREADGROUP", fillEntries, func(i int) [][]byte {
			return words("XREADGROUP", "GROUP", "group", fmt.Sprint("consumer:", i%10), "COUNT", "1", "STREAMS", "stream", ">")
		}},
		{"XREADGROUP COUNT 10", fillTenTimes, func(i int) [][]byte {
			return words("XREADGROUP", "GROUP", "group", fmt.Sprint("consumer:", i%10), "COUNT", "10", "STREAMS", "stream", ">")
		}},
		{"XACK", fillPendingEntries, func(i int) [][]byte { return words("XACK", "stream", "group", fmt.Sprint(1+i)) }},
	} {
		b.Run(benchmark.name, func(b *testing.B) {
			engine, log := newTestEngine(b)
			log.Discard = true
			c := newTestClient(b, engine)
			benchmark.fill(c, b.N)
			requests := make([][][]byte, b.N)
			for i := range requests {
				requests[i] = benchmark.request(i)
			}
			b.ReportAllocs()
			b.ResetTimer()
			c.runPipelines(requests, len(requests))
		})
	}
}

func fillEntries(c *testClient, entries int) {
	requests := make([][][]byte, entries, entries+1)
	for i := range requests {
		requests[i] = words("XADD", "stream", fmt.Sprintf("%d-0", i+1), "field", "value")
	}
	requests = append(requests, words("XGROUP", "CREATE", "stream", "group", "0", "MKSTREAM"))
	c.runPipelines(requests, len(requests))
}

func fillTenTimes(c *testClient, entries int) { fillEntries(c, 10*entries) }

func fillPendingEntries(c *testClient, entries int) {
	fillEntries(c, entries)
	requests := make([][][]byte, entries)
	for i := range requests {
		requests[i] = words("XREADGROUP", "GROUP", "group", fmt.Sprint("consumer:", i%10), "COUNT", "1", "STREAMS", "stream", ">")
	}
	c.runPipelines(requests, len(requests))
}
