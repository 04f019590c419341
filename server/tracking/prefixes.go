package tracking

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Prefixes knows who wants to know of all keys with a prefix.
type Prefixes[C comparable] struct {
	mu       sync.RWMutex
	byPrefix map[string]map[C]struct{}
	count    atomic.Int64 // of prefixes, for those who only want to know that there are none
}

// Add notes that a client wants to know of a prefix.
func (p *Prefixes[C]) Add(client C, prefix string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.byPrefix == nil {
		p.byPrefix = map[string]map[C]struct{}{}
	}
	if p.byPrefix[prefix] == nil {
		p.byPrefix[prefix] = map[C]struct{}{}
	}
	p.byPrefix[prefix][client] = struct{}{}
	p.count.Store(int64(len(p.byPrefix)))
}

// Remove ends that.
func (p *Prefixes[C]) Remove(client C, prefix string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.byPrefix[prefix], client)
	if len(p.byPrefix[prefix]) == 0 {
		delete(p.byPrefix, prefix)
	}
	p.count.Store(int64(len(p.byPrefix)))
}

// Count is how many prefixes somebody wants to know of.
func (p *Prefixes[C]) Count() int64 { return p.count.Load() }

// Each calls f with each prefix that some of the keys have, those keys, and the clients that want
// to know of them. Prefixes come in order.
func (p *Prefixes[C]) Each(keys []string, f func(with []string, clients []C)) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	for _, prefix := range slices.Sorted(maps.Keys(p.byPrefix)) {
		var with []string
		for _, key := range keys {
			if strings.HasPrefix(key, prefix) {
				with = append(with, key)
			}
		}
		if len(with) > 0 {
			f(with, slices.Collect(maps.Keys(p.byPrefix[prefix])))
		}
	}
}
