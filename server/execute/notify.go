package execute

import (
	"strconv"

	"kedis/internal/keyevent"
	"kedis/storage"
)

// wantedEvents is the classes of events that are to be collected. A start repeats what was told when it happened.
func (b *Batch) wantedEvents() keyevent.Classes {
	if b.repeat.applying && !b.repeat.locking {
		return 0
	}
	return b.engine.WantedEvents()
}

// WantedEvents is the classes of events that somebody may want to be told of.
func (e *Engine) WantedEvents() keyevent.Classes { return e.Config.NotifyKeyspaceEvents.Get().Wanted() }

// tell calls what waits for the commit, and tells of what the batch has done with keys. What commands have published and what has happened
// to keys goes out in the order of the commands. The locks are still held, so that no later change of a key overtakes it.
func (b *Batch) tell() {
	b.engine.invalidate(b.txn.KeyEvents(), b.running.loops)
	notifications := b.txn.Notifications()
	told := 0
	for _, waiting := range b.running.outbox.after {
		b.engine.announce(notifications, told, waiting.notifications)
		told = waiting.notifications
		waiting.call()
	}
	b.engine.announce(notifications, told, notifications.Len())
}

// Tell tells of what a transaction that was committed has done with keys.
func (e *Engine) Tell(t *storage.Txn) {
	e.invalidate(t.KeyEvents(), nil)
	e.announce(t.Notifications(), 0, t.Notifications().Len())
}

// announce sends some of the notifications to those who listen.
func (e *Engine) announce(notifications *storage.KeyEvents, from, to int) {
	if from == to || !e.Listeners.any() {
		return
	}
	ways := e.Config.NotifyKeyspaceEvents.Get()
	notifications.Between(from, to, func(event storage.KeyEvent) {
		name := []byte(event.Name.String())
		if ways&keyevent.Keyspace != 0 {
			e.Listeners.deliver(append(eventChannel("keyspace", event.Database), event.Key...), name)
		}
		if ways&keyevent.Keyevent != 0 {
			e.Listeners.deliver(append(eventChannel("keyevent", event.Database), name...), event.Key)
		}
	})
}

// eventChannel is what the names of a database's channels of one kind begin with.
func eventChannel(kind string, database int) []byte {
	channel := make([]byte, 0, 64)
	channel = append(append(append(channel, "__"...), kind...), '@')
	return append(strconv.AppendInt(channel, int64(database), 10), "__:"...)
}
