package engine

import "kedis/storage/rocks"

// InspectRebuiltFrom is how many records a filter takes before it may be built anew.
const InspectRebuiltFrom = rebuiltFrom

// BuildFilters builds those filters that are due, as maintenance does.
func (i Inspect) BuildFilters() error {
	i.balance()
	return i.buildDue()
}

// WithoutFilter calls f while a database has no filter.
func (i Inspect) WithoutFilter(database int, f func()) {
	i.presences.building.Lock()
	defer i.presences.building.Unlock()
	p := &i.namespaceOf(database).presence
	complete := p.complete.Swap(nil)
	f()
	p.complete.Store(complete)
}

// BuildFilter builds a database's filter, in place of the one that it has.
func (i Inspect) BuildFilter(database int) error {
	i.presences.building.Lock()
	defer i.presences.building.Unlock()
	i.balance()
	return i.buildFilter(i.namespaceOf(database))
}

// FilterLayers is how many layers a database's filter has.
func (i Inspect) FilterLayers(database int) int {
	return i.namespaceOf(database).presence.complete.Load().Layers()
}

// DuringWrite calls f while a write of records is under way that has begun before.
func (i Inspect) DuringWrite(f func()) {
	defer i.presences.writes.begin()()
	f()
}

// WronglyRuledOut returns the keys of records that RocksDB has although a filter says that it
// hasn't, and the number of records that were asked for.
func (i Inspect) WronglyRuledOut() (wrong [][]byte, asked int, err error) {
	i.presences.building.Lock()
	defer i.presences.building.Unlock()
	for _, ns := range i.tiers.Load().databases {
		family := ns.family.Load()
		if family == nil {
			continue
		}
		it := i.db().NewIterator(family, nil, rocks.IteratorOptions{KeysOnly: true})
		for it.Next() {
			asked++
			if ns.rulesOut(it.Key()) {
				wrong = append(wrong, append([]byte(nil), it.Key()...))
			}
		}
		err := it.Err()
		it.Close()
		if err != nil {
			return nil, 0, err
		}
	}
	return wrong, asked, nil
}
