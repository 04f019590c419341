package engine

import (
	"sync/atomic"

	"kedis/storage/generation"
)

// provider makes the next generation ahead of the moment at which the active one is full: whoever freezes that holds the commit lock, and
// the index of a large generation is large.
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

// nearlyFull is how much of a generation is left when the next one is asked for: so large a part of it.
const nearlyFull = 8

// provideNext asks for the next generation. It is called with the commit lock held.
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

// takeNext returns an empty generation, which seldom needs more room than for as many keys as the one before. It is called with the commit
// lock held.
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
