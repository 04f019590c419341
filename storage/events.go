package storage

// KeyEvent is a change of a key.
type KeyEvent struct {
	Database int
	Key      []byte // valid until the transaction is reset
	Expired  bool   // the key is gone since its time had come
}

// keyEvents are the changes of keys that a transaction has made, in their order.
type keyEvents struct {
	list []keyEvent
	keys []byte // of all events

	expirations    int // keys that were removed because their time had come
	expiredEntries int // records of the journal that this took
}

// keyEvent is a KeyEvent whose key stands in keyEvents.keys up to end.
type keyEvent struct {
	database, end int
	expired       bool
}

// eventsMark is what events are cut back to.
type eventsMark struct{ events, keys, expirations, expiredEntries int }

func (e *keyEvents) mark() eventsMark {
	return eventsMark{len(e.list), len(e.keys), e.expirations, e.expiredEntries}
}

func (e *keyEvents) rewind(m eventsMark) {
	e.list, e.keys, e.expirations, e.expiredEntries = e.list[:m.events], e.keys[:m.keys], m.expirations, m.expiredEntries
}

func (e *keyEvents) add(database int, key []byte) {
	e.keys = append(e.keys, key...)
	e.list = append(e.list, keyEvent{database, len(e.keys), false})
}

// visit calls f for each event but for the first so many.
func (e *keyEvents) visit(first int, f func(KeyEvent)) {
	from := 0
	for i, event := range e.list {
		if i >= first {
			f(KeyEvent{event.database, e.keys[from:event.end], event.expired})
		}
		from = event.end
	}
}

// Touch notes that a key changes.
func (t *Txn) Touch(database int, key []byte) { t.events.add(database, key) }

// Touches is the number of changes of keys so far.
func (t *Txn) Touches() int { return len(t.events.list) }

// Touched calls f for each change of a key but for the first so many.
func (t *Txn) Touched(first int, f func(KeyEvent)) { t.events.visit(first, f) }

// Expire carries out remove, which removes a key because its time has come. Its last change of a key is noted as such.
func (t *Txn) Expire(remove func() error) error {
	t.events.expirations++
	before := len(t.journal.entries)
	err := remove()
	t.events.list[len(t.events.list)-1].expired = true
	t.events.expiredEntries += len(t.journal.entries) - before
	return err
}
