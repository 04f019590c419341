package execute

import (
	"fmt"
	"testing"
)

// BenchmarkBatch executes pipelines of 16 requests, each pipeline in one commit, on keys that are
// in memory. Its allocations are those of a command on its way through a reactor.
func BenchmarkBatch(b *testing.B) {
	key := func(i int) string { return fmt.Sprintf("key:%012d", i%1000) }
	for _, benchmark := range []struct {
		name    string
		request func(i int) [][]byte
	}{
		{"SET", func(i int) [][]byte { return words("SET", key(i), "a value of some twenty bytes") }},
		{"SET EX", func(i int) [][]byte { return words("SET", key(i), "value", "EX", "1000") }},
		{"GET", func(i int) [][]byte { return words("GET", key(i)) }},
		{"INCR", func(i int) [][]byte { return words("INCR", "n"+key(i)) }},
		{"APPEND", func(i int) [][]byte { return words("APPEND", key(i), "") }},
		{"SETRANGE", func(i int) [][]byte { return words("SETRANGE", key(i), "3", "abc") }},
		{"GETRANGE", func(i int) [][]byte { return words("GETRANGE", key(i), "1", "3") }},
		{"SETBIT", func(i int) [][]byte { return words("SETBIT", key(i), "7", "1") }},
		{"MGET 10", func(i int) [][]byte {
			request := words("MGET")
			for j := range 10 {
				request = append(request, []byte(key(i+j)))
			}
			return request
		}},
		{"MSET 10", func(i int) [][]byte {
			request := words("MSET")
			for j := range 10 {
				request = append(request, []byte(key(i+j)), []byte("value"))
			}
			return request
		}},
	} {
		b.Run(benchmark.name, func(b *testing.B) {
			engine, log := newTestEngine(b)
			log.Discard = true
			requests := make([][][]byte, 1000)
			for i := range requests {
				requests[i] = benchmark.request(i)
			}
			s := engine.NewClient(Nowhere{})
			batch := engine.NewBatch(0)
			for i := range 1000 {
				batch.Execute(s, batch.Read(s, words("SET", key(i), "a value")))
			}
			runPipelines(b, batch, s, requests, 1000)
			b.ReportAllocs()
			b.ResetTimer()
			runPipelines(b, batch, s, requests, b.N)
		})
	}
}

func runPipelines(b *testing.B, batch *Batch, s *Session, requests [][][]byte, count int) {
	for i := range count {
		if outcome := batch.Execute(s, batch.Read(s, requests[i%len(requests)])); outcome != Done {
			b.Fatal(outcome)
		}
		if i%16 == 15 {
			if err := batch.Commit(); err != nil {
				b.Fatal(err)
			}
			batch.Clear()
			s.Reply.Reset()
		}
	}
	if err := batch.Commit(); err != nil {
		b.Fatal(err)
	}
	batch.Clear()
	s.Reply.Reset()
}
