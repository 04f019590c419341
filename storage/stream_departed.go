package storage

import (
	"bytes"
	"slices"
	"sync"

	"kedis/storage/layout"
)

// Consumers that were removed while much was pending for them. To acknowledge all of it in one
// transaction would take as long, and as much memory, as there is of it. So the group remembers the
// consumer's number: what is pending for it doesn't count, and is removed in steps, each of which
// is a transaction. A crash between two of them leaves the rest to be removed later: by whoever
// opens the group, the store is told.

const (
	departAbove  = 1000 // pending entries are removed later
	mostDeparted = 64   // consumers of a group are remembered
)

// departed tells whether an entry that was delivered to a consumer isn't pending any more, although
// it has a record.
func (g *Group) departed(consumer uint64) bool { return g.placeOfDeparted(consumer) >= 0 }

func (g *Group) placeOfDeparted(consumer uint64) int {
	if len(g.state.Departed) == 0 {
		return -1
	}
	return slices.IndexFunc(g.state.Departed, func(d layout.Departed) bool { return d.Consumer == consumer })
}

// depart leaves what is pending for a consumer to be removed later.
func (g *Group) depart(c *Consumer) {
	g.state.Departed = append(g.state.Departed, layout.Departed{Consumer: c.number, Left: c.state.Pending})
	g.state.Pending -= c.state.Pending
	s := g.stream
	s.db.txn.departures.note(s.db.number, s.key, g.name)
}

// replaceDeparted removes what is left of an entry that is about to be pending anew.
func (g *Group) replaceDeparted(entry StreamID) error {
	if len(g.state.Departed) == 0 {
		return nil
	}
	p, found, err := g.record(entry)
	if err != nil || !found {
		return err
	}
	return g.removeDeparted(&p)
}

// removeDeparted removes what is left of an entry.
func (g *Group) removeDeparted(p *Pending) error {
	at := g.placeOfDeparted(p.Consumer)
	if at < 0 {
		return wrongCount(&g.stream.next, layout.Stream.Elements()[5], 0)
	}
	d := g.stream.db
	if err := d.txn.Delete(d.space, g.ownedKey(p.Consumer, p.Entry)); err != nil {
		return err
	}
	if g.state.Departed[at].Left--; g.state.Departed[at].Left == 0 {
		g.state.Departed = slices.Delete(g.state.Departed, at, at+1)
	}
	return g.forget(p)
}

// departedPerStep is how many entries RemoveDeparted removes at a time.
const departedPerStep = 128

// DepartedEntries is how far it is removed what is left of consumers.
type DepartedEntries struct {
	Removed int
	Left    bool // there is more

	consumer uint64
	behind   StreamID // the last entry that was removed: those before it need not be passed over again
}

// RemoveDeparted removes some of what is left of the consumers of a stream's group that are gone.
// It goes on where it has come to. Nothing that a client sees changes, so it leaves no effect and
// no event.
func (d DB) RemoveDeparted(key, group []byte, x *DepartedEntries) error {
	x.Left = false
	k, err := d.LookupAny(key)
	if err != nil || !k.Exists || k.Type != layout.Stream || d.expired(&k.Metadata) {
		return err
	}
	s := &Stream{db: d, key: key, old: k, next: k.Metadata}
	if err := s.head.Decode(s.next.Value); err != nil {
		return err
	}
	g, found, err := s.Group(group)
	if err != nil || !found || len(g.state.Departed) == 0 {
		return err
	}
	if err := g.removeSomeDeparted(x); err != nil {
		return err
	}
	x.Left = len(g.state.Departed) > 0
	return g.Keep()
}

func (g *Group) removeSomeDeparted(x *DepartedEntries) error {
	d, of := g.stream.db, g.state.Departed[0]
	if x.consumer != of.Consumer {
		x.consumer, x.behind = of.Consumer, StreamID{}
	}
	prefix := layout.AppendConsumerKey(nil, layout.KindStreamPendingFor, g.stream.next.ID, g.state.Number, of.Consumer)
	it := d.txn.Iterate(d.space, x.behind.Append(bytes.Clone(prefix)), layout.Successor(nil, prefix), IteratorOptions{KeysOnly: true})
	removed := uint64(0)
	for removed < min(departedPerStep, of.Left) && it.Next() {
		entry, err := layout.EntryOf(it.Key())
		if it.Fail(err) {
			break
		}
		p, err := g.recorded(entry)
		if it.Fail(err) || it.Fail(g.removeDeparted(&p)) {
			break
		}
		x.behind = entry
		removed++
	}
	if err := it.Close(); err != nil {
		return err
	}
	x.Removed += int(removed)
	if removed < min(departedPerStep, of.Left) {
		return wrongCount(&g.stream.next, layout.Stream.Elements()[6], removed)
	}
	return nil
}

// departures are the groups of which it is known that something is left of consumers that are gone.
type departures struct {
	above uint64 // departAbove, unless a test says otherwise

	mu     sync.Mutex
	groups []DepartedOf // those first that were noted first
	noted  int64
}

// DepartedOf is a group of which something is left of consumers that are gone.
type DepartedOf struct {
	Number     int64 // of the note
	Database   int
	Key, Group string
}

func (d *departures) atOnce() uint64 {
	if d.above != 0 {
		return d.above
	}
	return departAbove
}

func (d *departures) note(database int, key, group []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	known := func(o DepartedOf) bool {
		return o.Database == database && o.Key == string(key) && o.Group == string(group)
	}
	if slices.ContainsFunc(d.groups, known) {
		return
	}
	d.noted++
	d.groups = append(d.groups, DepartedOf{d.noted, database, string(key), string(group)})
}

// Departed returns what is noted of a database, behind a note.
func (s *Store) Departed(database int, behind int64) (groups []DepartedOf) {
	d := &s.departures
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, g := range d.groups {
		if g.Database == database && g.Number > behind {
			groups = append(groups, g)
		}
	}
	return groups
}

// NoteDeparted notes a group of which something is left.
func (s *Store) NoteDeparted(g DepartedOf) {
	s.departures.note(g.Database, []byte(g.Key), []byte(g.Group))
}

// ForgetDeparted takes a note away: nothing is left there.
func (s *Store) ForgetDeparted(number int64) {
	d := &s.departures
	d.mu.Lock()
	defer d.mu.Unlock()
	d.groups = slices.DeleteFunc(d.groups, func(g DepartedOf) bool { return g.Number == number })
}
