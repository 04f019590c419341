package engine

import (
	"sync/atomic"

	"kedis/storage/generation"
)

// provider makes the next generation before the active one is full: a large generation has a large
// index, and freezing holds the commit lock.
type provider struct {
	memory *generation.Memory
	next   atomic.Pointer[generation.Generation]
	asked  bool     // since the last freeze; under the commit lock
	keys   chan int // for how many the next one needs room
}

func (g *generations) init() {
	g.provider.memory, g.provider.keys = generation.NewMemory(), make(chan int, 1)
	g.chunks, g.crowded = make(chan *generation.Chunk, 1024), make(chan *generation.Generation, 1)
}

// nearlyFull is the part of a generation, one in so many, that is left when the next one is
// requested.
const nearlyFull = 8

// provideNext requests the next generation. The caller holds the commit lock.
func (s *Store) provideNext() {
	p := &s.generations.provider
	if p.asked {
		return
	}
	p.asked = true
	keys := s.tiers.Load().active.Keys()
	select {
	case p.keys <- keys + keys/nearlyFull:
	default:
	}
}

// takeNext returns an empty generation. It seldom needs more room than for the keys of the one
// before. The caller holds the commit lock.
func (s *Store) takeNext(expected int) *generation.Generation {
	s.generations.provider.asked = false
	if next := s.generations.provider.next.Swap(nil); next != nil {
		return next
	}
	return s.newGeneration(expected)
}

func (s *Store) provideGenerations() {
	defer s.background.running.Done()
	for {
		select {
		case keys := <-s.generations.provider.keys:
			next := s.newGeneration(keys)
			next.Populate()
			s.generations.provider.next.Store(next)
		case <-s.background.stop:
			return
		}
	}
}

func (s *Store) provideMemory() {
	defer s.background.running.Done()
	s.generations.provider.memory.Provide(s.background.stop)
}
