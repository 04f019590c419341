package storage

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

func (p *provider) init() { p.memory, p.keys = generation.NewMemory(), make(chan int, 1) }

// nearlyFull is how much of a generation is left when the next one is asked for: so large a part of it.
const nearlyFull = 8

// provideNext asks for the next generation. It is called with the commit lock held.
func (s *Store) provideNext() {
	p := &s.provider
	if p.asked {
		return
	}
	p.asked = true
	keys := s.current.Load().active.Keys()
	select {
	case p.keys <- keys + keys/nearlyFull:
	default:
	}
}

// takeNext returns an empty generation, which seldom needs more room than for as many keys as the one before. It is called with the commit
// lock held.
func (s *Store) takeNext(expected int) *generation.Generation {
	s.provider.asked = false
	if next := s.provider.next.Swap(nil); next != nil {
		return next
	}
	return s.newGeneration(expected)
}

func (s *Store) provideGenerations() {
	defer s.running.Done()
	for {
		select {
		case keys := <-s.provider.keys:
			next := s.newGeneration(keys)
			next.Populate()
			s.provider.next.Store(next)
		case <-s.stop:
			return
		}
	}
}

func (s *Store) provideMemory() {
	defer s.running.Done()
	s.provider.memory.Provide(s.stop)
}
