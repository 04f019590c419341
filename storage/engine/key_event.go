package engine

import "kedis/storage/layout"

// KeyEvent is something that has happened to a key.
type KeyEvent struct {
	Database int
	Key      []byte // valid until the transaction is reset
	Name     EventName
	Type     layout.Type // of the key: after the change, or before it is gone
	Class    EventClass
}

// EventName is the name of an event, as Redis's notifications have it.
type EventName uint8

const (
	// EventChanged is for a change without a name.
	EventChanged EventName = iota
	// EventExpired: the key was removed since its time had come.
	EventExpired
)

// EventClass is what kind of event it is, as notify-keyspace-events tells them apart.
type EventClass uint8

const (
	// ClassChange is for whatever a command does to a key.
	ClassChange EventClass = iota
	// ClassExpiry is for keys whose time has come.
	ClassExpiry
)

// KeyEvents are the events of a transaction, in their order. Rollback takes back those since a
// savepoint.
//
// They are read at two moments. When the outermost request ends, by those who look at keys before
// the commit: commands that follow in the same transaction belong to other clients, and hold the
// same locks. And after the commit, before the locks are released, by those who tell others of it:
// until then a commit may fail, and afterwards another change of the key could overtake this one.
type KeyEvents struct {
	events []keyEvent
	keys   []byte
}

// keyEvent is a KeyEvent whose key stands in KeyEvents.keys up to end.
type keyEvent struct {
	end      int
	database int32
	name     EventName
	kind     layout.Type
	class    EventClass
}

// Add notes an event.
func (e *KeyEvents) Add(database int, key []byte, name EventName, kind layout.Type, class EventClass) {
	e.keys = append(e.keys, key...)
	e.events = append(e.events, keyEvent{len(e.keys), int32(database), name, kind, class})
}

// rewind takes back all but the first events.
func (e *KeyEvents) rewind(first int) {
	e.events, e.keys = e.events[:first], e.keys[:e.start(first)]
}

// start is where the key of an event begins.
func (e *KeyEvents) start(i int) int {
	if i == 0 {
		return 0
	}
	return e.events[i-1].end
}

// Len is the number of events so far.
func (e *KeyEvents) Len() int { return len(e.events) }

// Each calls f for all but the first events.
func (e *KeyEvents) Each(first int, f func(KeyEvent)) {
	from := e.start(first)
	for _, event := range e.events[first:] {
		f(KeyEvent{int(event.database), e.keys[from:event.end], event.name, event.kind, event.class})
		from = event.end
	}
}

// KeyEvents are the transaction's events, until Reset.
func (t *Txn) KeyEvents() *KeyEvents { return &t.events }
