package execute

import (
	"bytes"
	"strconv"

	"kedis/internal/keyevent"
	"kedis/storage"
)

// wantedEvents is the classes of events that are to be collected.
func (b *Batch) wantedEvents() keyevent.Classes {
	if b.repeat.starting() {
		return 0
	}
	return b.engine.WantedEvents()
}

// WantedEvents is the classes of events that somebody may want to be told of.
func (e *Engine) WantedEvents() keyevent.Classes { return e.Config.NotifyKeyspaceEvents.Get().Wanted() }

// tell calls what waits for the commit, and tells of what the batch has done with keys. What
// commands have published and what has happened to keys goes out in the order of the commands. The
// locks are still held, so that no later change of a key overtakes it.
func (b *Batch) tell(position int64, wrote bool) {
	b.engine.invalidate(b.txn.KeyEvents(), b.running.loops, b.running.reads)
	notifications := b.txn.Notifications()
	out := b.dispatch(position, wrote)
	told := 0
	for _, waiting := range b.running.outbox.after {
		b.announce(notifications, told, waiting.notifications, out)
		told = waiting.notifications
		waiting.call()
	}
	b.announce(notifications, told, notifications.Len(), out)
	b.tellUnnoted()
	messages := b.running.outbox.messages
	b.running.outbox.messages = nil // they are the courier's
	out.send(messages)
}

func (b *Batch) announce(notifications *storage.KeyEvents, from, to int, out dispatch) {
	outbox := &b.running.outbox
	outbox.messages = b.engine.announce(outbox.messages, notifications, from, to, out)
}

// Tell tells of what a transaction that was committed has done with keys.
func (e *Engine) Tell(t *storage.Txn) {
	e.invalidate(t.KeyEvents(), nil, nil)
	e.deliver(e.announce(nil, t.Notifications(), 0, t.Notifications().Len(), dispatch{engine: e}))
}

// announce appends some of the notifications to what is to be sent. Where finding the receivers
// takes long, a goroutine does so, and out sends them later.
func (e *Engine) announce(sent []Message, notifications *storage.KeyEvents, from, to int, out dispatch) []Message {
	if from == to || !e.Listeners.any() {
		return sent
	}
	ways := e.Config.NotifyKeyspaceEvents.Get()
	notifications.Between(from, to, func(event storage.KeyEvent) {
		name := []byte(event.Name.String())
		if ways&keyevent.Keyspace != 0 {
			sent = e.announceTo(sent, append(eventChannel("keyspace", event.Database), event.Key...), name, out)
		}
		if ways&keyevent.Keyevent != 0 {
			sent = e.announceTo(sent, append(eventChannel("keyevent", event.Database), name...), event.Key, out)
		}
	})
	return sent
}

// slowAnnouncement is from how many steps on a pattern is matched by another goroutine: about a
// millisecond. It depends on the key's length only, so all that is told of a key over one channel
// takes the same way.
const slowAnnouncement = 1 << 20

// announceTo appends a message to what is to be sent. Patterns that take long to be matched are
// matched by another goroutine, one message after the other.
func (e *Engine) announceTo(sent []Message, channel, message []byte, out dispatch) []Message {
	found, slow := e.Listeners.quickReceivers(channel, slowAnnouncement)
	sent = found.messages(sent, nil, channel, message)
	if len(slow) > 0 {
		message := bytes.Clone(message)
		e.Listeners.slow.do(func() {
			for _, s := range slow {
				out.send(e.Listeners.slowReceivers(s, channel).messages(nil, nil, channel, message))
			}
		}, len(channel)+len(message)+len(slow)*slowPatternBytes)
	}
	return sent
}

// eventChannel is what the names of a database's channels of one kind begin with.
func eventChannel(kind string, database int) []byte {
	channel := make([]byte, 0, 64)
	channel = append(append(append(channel, "__"...), kind...), '@')
	return append(strconv.AppendInt(channel, int64(database), 10), "__:"...)
}
