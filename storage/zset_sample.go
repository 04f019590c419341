package storage

import (
	"encoding/binary"
	"math"
	"math/rand/v2"

	"kedis/storage/layout"
)

// RandomDistinct visits count different members, or all if there are no more, in no particular
// order.
func (z *ZSet) RandomDistinct(count uint64, visit Visit) error {
	s := z.sampler()
	return s.distinct(count, withScore(visit))
}

// RandomRepeated visits members of a set that has any, count times, each time any of them.
func (z *ZSet) RandomRepeated(count uint64, visit Visit) error {
	s := z.sampler()
	return s.repeated(count, withScore(visit))
}

// sampler samples members with their scores, whose bits are the values of the pairs.
func (z *ZSet) sampler() sampler {
	s := sampler{txn: z.db.txn, count: uint64(z.Len()), all: z.allPairs}
	if !z.packed() {
		s.picks = rankPicks{z}
	}
	return s
}

// allPairs visits all members with their scores, and notices if some are missing.
func (z *ZSet) allPairs(visit visitPair) error {
	var bits [8]byte
	seen, stopped := 0, false
	err := z.All(func(member []byte, score float64) bool {
		seen++
		stopped = !visit(member, appendBits(bits[:0], score))
		return !stopped
	})
	if err == nil && !stopped && seen < z.Len() {
		err = z.miscounted()
	}
	return err
}

func (z *ZSet) miscounted() error {
	members := z.members()
	return members.miscounted(uint64(z.Len()))
}

func appendBits(dst []byte, score float64) []byte {
	return binary.NativeEndian.AppendUint64(dst, math.Float64bits(score))
}

// withScore visits members of pairs.
func withScore(visit Visit) visitPair {
	return func(member, bits []byte) bool {
		return visit(member, math.Float64frombits(binary.NativeEndian.Uint64(bits)))
	}
}

// rankPicks pick members of a spread set by their ranks.
type rankPicks struct{ *ZSet }

func (z rankPicks) pick() (p pair, err error) {
	var bits [8]byte
	err = z.ByRank(rand.IntN(z.Len()), 1, false, func(member []byte, score float64) bool {
		p = pair{member, appendBits(bits[:0], score)}.clone()
		return false
	})
	if err == nil && p.value == nil {
		err = z.miscounted()
	}
	return p, err
}

func (z rankPicks) at(ranks []int, visit visitPair) (counted bool, err error) {
	x := z.index()
	if !x.Counted() {
		return false, nil
	}
	return true, x.Entries(ranks, func(key, value []byte) (goesOn bool, err error) {
		score, member, err := layout.DecodeScored(key, value)
		return err == nil && visit(member, appendBits(nil, score)), err
	})
}

func (z rankPicks) cost() uint64 {
	if !z.index().Counts() { // each is a walk
		return uint64(z.Len())
	}
	return placeCost
}
