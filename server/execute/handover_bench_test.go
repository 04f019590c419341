package execute

import (
	"testing"
	"time"
)

// BenchmarkHandOver gives elements from one client to another: over a list, which one fills and the
// other empties, and by hand-over to the other, which waits. Each request is a pass of its own.
// handing-ns is the part from the push on: what it adds to a push is to be no more than what a pop
// costs.
func BenchmarkHandOver(b *testing.B) {
	for _, benchmark := range []struct {
		name       string
		take, give [][]byte
		waits      bool
	}{
		{name: "LPUSH LPOP", give: words("LPUSH", "list", "an element"), take: words("LPOP", "list")},
		{name: "BLPOP LPUSH", take: words("BLPOP", "list", "100"), give: words("LPUSH", "list", "an element"), waits: true},
		{name: "LPUSH LMOVE", give: words("LPUSH", "list", "an element"), take: words("LMOVE", "list", "other", "LEFT", "LEFT")},
		{name: "BLMOVE LPUSH", take: words("BLMOVE", "list", "other", "LEFT", "LEFT", "0"), give: words("LPUSH", "list", "an element"), waits: true},
		{name: "ZADD ZPOPMIN", give: words("ZADD", "zset", "1", "member"), take: words("ZPOPMIN", "zset")},
		{name: "BZPOPMIN ZADD", take: words("BZPOPMIN", "zset", "0"), give: words("ZADD", "zset", "1", "member"), waits: true},
	} {
		b.Run(benchmark.name, func(b *testing.B) {
			engine, log := newTestEngine(b)
			log.Discard = true
			giver, taker := engine.NewClient(Nowhere{}), engine.NewClient(Nowhere{})
			batch := engine.NewBatch(0)
			var handing time.Duration
			b.ReportAllocs()
			for b.Loop() {
				if !benchmark.waits {
					pass(b, batch, giver, benchmark.give)
					pass(b, batch, taker, benchmark.take)
					continue
				}
				waiter := batch.Read(taker, benchmark.take)
				if outcome := batch.Execute(taker, waiter); outcome != Waiting {
					b.Fatal(outcome)
				}
				if err := batch.Commit(); err != nil {
					b.Fatal(err)
				}
				engine.BeginWait(taker)
				blocked := taker.Wait().Blocked
				pushed := time.Now()
				pass(b, batch, giver, benchmark.give)
				if !blocked.Ended() {
					b.Fatal("nothing was handed over")
				}
				taker.EndWait()
				if !batch.Answered(taker, waiter, blocked) {
					b.Fatal("there is no answer")
				}
				handing += time.Since(pushed)
				taker.Reply.Reset()
			}
			if benchmark.waits {
				b.ReportMetric(float64(handing)/float64(b.N), "handing-ns")
			}
		})
	}
}

// pass executes one request and commits it.
func pass(b *testing.B, batch *Batch, s *Session, request [][]byte) {
	if outcome := batch.Execute(s, batch.Read(s, request)); outcome != Done {
		b.Fatal(outcome)
	}
	if err := batch.Commit(); err != nil {
		b.Fatal(err)
	}
	batch.Clear()
	s.Reply.Reset()
}

// BenchmarkEvents changes and reads keys while nobody asks for events, while somebody listens but
// to no events, while a client tracks other keys, and while events are told.
func BenchmarkEvents(b *testing.B) {
	for _, benchmark := range []struct {
		name   string
		events string
		before [][][]byte // by another client
	}{
		{name: "nobody"},
		{name: "a listener", before: [][][]byte{words("SUBSCRIBE", "news")}},
		{name: "a tracking client", before: [][][]byte{words("HELLO", "3"), words("CLIENT", "TRACKING", "ON"), words("GET", "other")}},
		{name: "events without a listener", events: "KEA"},
		{name: "events", events: "KEA", before: [][][]byte{words("PSUBSCRIBE", "__key*")}},
	} {
		for _, request := range [][][]byte{words("SET", "key", "value"), words("GET", "key")} {
			b.Run(benchmark.name+"/"+string(request[0]), func(b *testing.B) {
				engine, log := newTestEngine(b)
				log.Discard = true
				if err := engine.Config.Set([][2]string{{"notify-keyspace-events", benchmark.events}}); err != nil {
					b.Fatal(err)
				}
				other, s := engine.NewClient(Nowhere{}), engine.NewClient(Nowhere{})
				batch := engine.NewBatch(0)
				for _, words := range benchmark.before {
					pass(b, batch, other, words)
				}
				b.ReportAllocs()
				for b.Loop() {
					pass(b, batch, s, request)
				}
			})
		}
	}
}
