package storage

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"kedis/internal/keyevent"
)

// rankedStore has one sorted set, in RocksDB, with scores by chance, which it returns.
func rankedStore(b *testing.B, members int) (*Store, []float64) {
	o := testOptions(b.TempDir(), 64<<20, 64<<20)
	o.TreeBytes = constant[int64](64 << 20)
	s, err := Open(o)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	s.Attach(&testLog{}, 1)
	random := rand.New(rand.NewPCG(1, 1))
	scores := make([]float64, members)
	for from := 0; from < members; from += 10000 {
		txn := s.NewTxn()
		txn.Begin(Mode{Writing: true}, 1, 0)
		z, err := txn.DB(0).ZSet([]byte("board"))
		for i := from; i < from+10000 && err == nil; i++ {
			scores[i] = float64(random.IntN(100 * members))
			err = z.Put(fmt.Appendf(nil, "player:%08d", i), scores[i], 0, false)
		}
		if err == nil {
			err = z.Save(keyevent.Changed)
		}
		txn.Effect(0, []byte("EFFECT"))
		if err == nil {
			err = s.Commit(txn)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	if err := s.Persist(); err != nil {
		b.Fatal(err)
	}
	return s, scores
}

// rankOf finds a rank in a transaction of its own.
func rankOf(b *testing.B, txn *Txn, member int, score float64) {
	txn.Begin(Mode{}, 1, 0)
	z, err := txn.DB(0).ZSet([]byte("board"))
	if err == nil {
		_, err = z.Rank(fmt.Appendf(nil, "player:%08d", member), score, false)
	}
	if err != nil {
		b.Fatal(err)
	}
	txn.Reset()
}

// BenchmarkRank finds ranks of members by chance, when all are counted.
func BenchmarkRank(b *testing.B) {
	const members = 200000
	s, scores := rankedStore(b, members)
	txn := s.NewTxn()
	for i := range members {
		rankOf(b, txn, i, scores[i])
		if i == 1000 {
			break
		}
	}
	for b.Loop() {
		i := rand.IntN(members)
		rankOf(b, txn, i, scores[i])
	}
}

// BenchmarkCount counts a set anew each time: the time is that of each member.
func BenchmarkCount(b *testing.B) {
	const members = 200000
	s, scores := rankedStore(b, members)
	txn := s.NewTxn()
	last := 0
	for i := range scores {
		if scores[i] > scores[last] {
			last = i
		}
	}
	for b.Loop() {
		inside(s).ForgetOrder()
		rankOf(b, txn, last, scores[last])
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/members, "ns/member")
}

// BenchmarkPut changes scores of a set whose members are counted, and of one whose are not.
func BenchmarkPut(b *testing.B) {
	const members = 100000
	s, scores := rankedStore(b, members)
	for _, counted := range []bool{false, true} {
		b.Run(fmt.Sprint("counted ", counted), func(b *testing.B) {
			txn := s.NewTxn()
			inside(s).ForgetOrder()
			if counted {
				rankOf(b, txn, 0, scores[0])
			}
			for b.Loop() {
				txn.Begin(Mode{Writing: true}, 1, 0)
				z, err := txn.DB(0).ZSet([]byte("board"))
				for range 16 {
					i := rand.IntN(members)
					was := scores[i]
					scores[i] = rand.Float64() * 1e6
					if err == nil {
						err = z.Put(fmt.Appendf(nil, "player:%08d", i), scores[i], was, true)
					}
				}
				txn.Effect(0, []byte("EFFECT"))
				if err == nil {
					err = s.Commit(txn)
				}
				if err != nil {
					b.Fatal(err)
				}
				txn.Reset()
			}
		})
	}
}

// BenchmarkOffset finds what comes behind half of the members.
func BenchmarkOffset(b *testing.B) {
	const members = 200000
	s, _ := rankedStore(b, members)
	txn := s.NewTxn()
	for b.Loop() {
		txn.Begin(Mode{}, 1, 0)
		z, err := txn.DB(0).ZSet([]byte("board"))
		n := 0
		if err == nil {
			err = z.ByScore(ScoreRange{Min: math.Inf(-1), Max: math.Inf(1)}, members/2, false, func([]byte, float64) bool { n++; return n < 10 })
		}
		if err != nil || n != 10 {
			b.Fatal(n, err)
		}
		txn.Reset()
	}
}
