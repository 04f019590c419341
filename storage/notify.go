package storage

import "kedis/internal/keyevent"

// Notify says that an event has happened to a key. It costs nothing while nobody wants to be told:
// see engine.Mode.
func (d DB) Notify(name keyevent.Name, key []byte) { d.txn.Notify(d.number, key, name) }

// missing says whether it is an event that a key which is looked up isn't there. What may be one
// counts among the hits and misses, too.
type missing uint8

const (
	missedByReads missing = iota // in a command that only reads
	missed
	notMissed // counts all the same
	unseen    // doesn't
)

// Reading is the database for the keys that a writing command only reads: that one of them is
// missing is an event, as in a command that only reads.
func (d DB) Reading() DB {
	d.miss = missed
	return d
}

// Silent is the database for a look at keys of which a missing one is no event.
func (d DB) Silent() DB {
	d.miss = notMissed
	return d
}

// Unseen is Silent for a look that statistics don't count.
func (d DB) Unseen() DB {
	d.miss = unseen
	return d
}

// counts reports whether looking up a key is a read, which counts as a hit or a miss.
func (d DB) counts() bool {
	return d.miss == missedByReads && !d.txn.Mode().Writing || d.miss == missed || d.miss == notMissed
}

// notifySaved says what a command has made of a key that was there before or not, and that the key
// is gone when nothing is left in it. An empty result that a command stores leaves nothing to be
// told but that.
func (d DB) notifySaved(name keyevent.Name, key []byte, empty, existed bool) {
	if !empty || existed && !name.Stores() {
		d.Notify(name, key)
	}
	if empty && existed {
		d.Notify(keyevent.Del, key)
	}
}

// NotifyReplaced says that a key is new which takes the place of another one: for commands of which
// Redis deletes what was there.
func (d DB) NotifyReplaced(key []byte, old Key) {
	if old.Exists {
		d.Notify(keyevent.New, key)
	}
}
