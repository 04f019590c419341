package execute

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// BenchmarkManyKeys executes pipelines of 16 requests for keys all over a large memory, looking
// ahead as a reactor does.
func BenchmarkManyKeys(b *testing.B) {
	const keys = 400_000
	for _, name := range []string{"INCR", "SET", "GET"} {
		b.Run(name, func(b *testing.B) {
			engine, batch, s := benchBatch(b)
			requests := make([][][]byte, 0, keys)
			for _, i := range rand.Perm(keys) {
				value := "12345"
				if name == "GET" {
					value = strings.Repeat("x", 100)
				}
				batch.Execute(s, batch.Read(s, words("SET", fmt.Sprintf("key:%012d", i), value)))
				if i%16 == 15 {
					commitPipeline(b, batch, s)
				}
				request := words(name, fmt.Sprintf("key:%012d", i))
				if name == "SET" {
					request = append(request, []byte("123456"))
				}
				requests = append(requests, request)
			}
			if err := engine.Store.Settle(); err != nil {
				b.Fatal(err)
			}
			pipeline := make([]*Request, 16)
			rand.Shuffle(keys, func(i, j int) { requests[i], requests[j] = requests[j], requests[i] })
			b.ReportAllocs()
			b.ResetTimer()
			for i := 0; i < b.N; i += 16 {
				at := i % keys
				for i, request := range requests[at : at+16] {
					pipeline[i] = batch.Read(s, request)
					batch.QueuePrefetch(s, pipeline[i])
				}
				batch.Prefetch()
				for _, request := range pipeline {
					batch.Execute(s, request)
				}
				if i%256 == 0 {
					commitPipeline(b, batch, s)
				}
			}
			commitPipeline(b, batch, s)
		})
	}
}

// BenchmarkOneKey has pipelines of 16 requests all change one collection, looking ahead as a
// reactor does.
func BenchmarkOneKey(b *testing.B) {
	const members = 1_000_000
	random := rand.New(rand.NewPCG(1, 2))
	for _, name := range []string{"LPUSH", "LPOP", "SADD", "HSET"} {
		b.Run(name, func(b *testing.B) {
			engine, batch, s := benchBatch(b)
			pipeline := make([]*Request, 16)
			run := func(count int, request func() [][]byte) {
				for range count / 16 {
					for i := range pipeline {
						pipeline[i] = batch.Read(s, request())
						batch.QueuePrefetch(s, pipeline[i])
					}
					batch.Prefetch()
					for _, request := range pipeline {
						batch.Execute(s, request)
					}
					commitPipeline(b, batch, s)
				}
			}
			value := strings.Repeat("x", 100)
			push, pop := words("LPUSH", "list", value), words("LPOP", "list")
			requests := make([][][]byte, 1<<16)
			for i := range requests {
				element := fmt.Sprintf("element:%012d", random.IntN(members))
				switch name {
				case "LPUSH":
					requests[i] = push
				case "LPOP":
					requests[i] = pop
				case "SADD":
					requests[i] = words("SADD", "set", element)
				case "HSET":
					requests[i] = words("HSET", "hash", element, value)
				}
			}
			if name == "LPOP" {
				run(b.N+16, func() [][]byte { return push })
				if err := engine.Store.Settle(); err != nil {
					b.Fatal(err)
				}
			}
			next := 0
			b.ReportAllocs()
			b.ResetTimer()
			run(b.N, func() [][]byte {
				next++
				return requests[next%len(requests)]
			})
		})
	}
}

// benchBatch returns the batch of a reactor and a session, of an engine whose cache holds whatever
// is written.
func benchBatch(b *testing.B) (*Engine, *Batch, *Session) {
	engine, log := newTestEngine(b)
	log.Discard = true
	engine.Store.Cache().SetLimit(512 << 20)
	return engine, engine.NewBatch(0), engine.NewClient(Nowhere{})
}

func commitPipeline(b testing.TB, batch *Batch, s *Session) {
	b.Helper()
	if err := batch.Commit(); err != nil {
		b.Fatal(err)
	}
	batch.Clear()
	s.Reply.Reset()
}
