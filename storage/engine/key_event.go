package engine

import (
	"unsafe"

	"kedis/internal/keyevent"
	"kedis/storage/layout"
)

// KeyEvent is something that has happened to a key.
type KeyEvent struct {
	Database int
	Key      []byte // valid until the transaction is reset
	Name     EventName
	Type     layout.Type // of the key: after the change, or before it is gone
}

// EventName is the name of an event, as Redis's notifications have it.
type EventName = keyevent.Name

// KeyEvents are events of a transaction, in their order. Rollback takes back those since a
// savepoint.
//
// A transaction has two lists of them. Its changes are always there: each change of a key once,
// Changed, Unseen, Awaited, Removed or Expired. Its notifications are what commands say of them
// by name, several for some changes and also of keys that weren't there; they are collected when
// somebody wants to be told.
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
}

// Add notes an event.
func (e *KeyEvents) Add(database int, key []byte, name EventName, kind layout.Type) {
	e.keys = append(e.keys, key...)
	e.events = append(e.events, keyEvent{len(e.keys), int32(database), name, kind})
}

// Append notes the events of another transaction.
func (e *KeyEvents) Append(other *KeyEvents) {
	other.Each(0, func(event KeyEvent) { e.Add(event.Database, event.Key, event.Name, event.Type) })
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

// size is about how many bytes of memory the events take.
func (e *KeyEvents) size() int { return len(e.keys) + len(e.events)*int(unsafe.Sizeof(keyEvent{})) }

// Each calls f for all but the first events.
func (e *KeyEvents) Each(first int, f func(KeyEvent)) { e.Between(first, len(e.events), f) }

// Between calls f for the events from the first on, up to and without the last.
func (e *KeyEvents) Between(first, last int, f func(KeyEvent)) {
	from := e.start(first)
	for _, event := range e.events[first:last] {
		f(KeyEvent{int(event.database), e.keys[from:event.end], event.name, event.kind})
		from = event.end
	}
}

// KeyEvents are the transaction's changes of keys, until Reset.
func (t *Txn) KeyEvents() *KeyEvents { return &t.events }

// Notifications are what somebody wants to be told of, until Reset.
func (t *Txn) Notifications() *KeyEvents { return &t.notifications }

// Notify notes a notification, if the running command's mode says that its class is wanted.
func (t *Txn) Notify(database int, key []byte, name EventName) {
	if t.running.mode.Notify&name.Class() != 0 {
		t.notifications.Add(database, key, name, 0)
	}
}
