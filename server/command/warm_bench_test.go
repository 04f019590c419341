package command

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// BenchmarkManyKeys executes pipelines of 16 requests for keys all over a large memory, looking ahead as a reactor does.
func BenchmarkManyKeys(b *testing.B) {
	const keys = 400_000
	for _, name := range []string{"INCR", "SET"} {
		b.Run(name, func(b *testing.B) {
			engine, log := newTestEngine(b)
			log.discard = true
			s := NewSession(nowhere{}, true)
			batch := engine.NewBatch(0)
			requests := make([][][]byte, 0, keys)
			for _, i := range rand.Perm(keys) {
				batch.Execute(s, words("SET", fmt.Sprintf("key:%012d", i), "12345"))
				if i%16 == 15 {
					commitPipeline(b, batch, s)
				}
				request := words(name, fmt.Sprintf("key:%012d", i))
				if name == "SET" {
					request = append(request, []byte("123456"))
				}
				requests = append(requests, request)
			}
			rand.Shuffle(keys, func(i, j int) { requests[i], requests[j] = requests[j], requests[i] })
			b.ReportAllocs()
			b.ResetTimer()
			for i := 0; i < b.N; i += 16 {
				at := i % keys
				for _, request := range requests[at : at+16] {
					batch.Expect(s, request)
				}
				batch.Warm()
				for _, request := range requests[at : at+16] {
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

func commitPipeline(b testing.TB, batch *Batch, s *Session) {
	b.Helper()
	if err := batch.Commit(); err != nil {
		b.Fatal(err)
	}
	batch.Clear()
	s.Reply.Reset()
}
