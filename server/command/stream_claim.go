package command

import (
	"math"
	"time"

	"kedis/storage"
)

// XREADGROUP's CLAIM, as Redis 8.4 has it: before new entries, a consumer gets those that have been
// pending for long, whoever got them, the longest first. They are found by an index of what is
// pending by time, which the first of these commands makes.

// idleClaim is what CLAIM asks for.
type idleClaim struct {
	least    int64 // ms for which an entry has been pending
	earliest int64 // when one was delivered (Unix ms) that hasn't been pending for as long yet, and was so first; 0: there is none
	expected int64 // earliest, when the client began to wait; if there was none, that time
	gone     bool  // some were passed over that the stream has no longer
}

func parseIdleClaim(word []byte) (*idleClaim, error) {
	least, err := parseInteger(word)
	switch {
	case err != nil:
		return nil, Error("ERR min-idle-time is not an integer")
	case least < 0:
		return nil, Error("ERR min-idle-time must be a positive integer")
	}
	return &idleClaim{least: least}, nil
}

// wait is for how long nothing can be claimed, unless something is soon. What is delivered from now
// on can't be sooner than what is asked for. Entries that are gone stay pending, and are gone over
// each time, so that isn't often.
func (i *idleClaim) wait(nowMs int64) time.Duration {
	const longest = int64(time.Hour / time.Millisecond)
	shortest := int64(10)
	if i.gone {
		shortest = 1000
	}
	if i.earliest == 0 {
		i.earliest = nowMs
	}
	i.expected = i.earliest
	ms := min(i.least, i.least-(nowMs-i.earliest))
	return time.Duration(min(max(ms, shortest), longest)) * time.Millisecond
}

// soon reports whether something can be claimed before the client has waited: XCLAIM has set back
// the time of its delivery.
func (i *idleClaim) soon() bool { return i != nil && i.earliest < i.expected }

// How many entries are added to an index: by a command in passing, in one commit of a worker, and
// by a command inside of another one, which can't be interrupted. Of more than these, the last
// finds those only that are indexed.
const (
	indexedInPassing = 64
	indexedPerStep   = 2048
	indexedNested    = 1 << 16
)

// index completes the indexes in which entries are looked for.
func (r *streamReading) index(c *Invocation) error {
	for i := range r.streams {
		f := &r.streams[i]
		if f.history {
			continue
		}
		most := indexedInPassing
		switch {
		case c.MayBeUnfinished():
			most = indexedPerStep
		case c.Nested():
			most = indexedNested
		}
		added, complete, err := f.group.Index(most)
		if err != nil {
			return err
		}
		if added == 0 {
			continue
		}
		if c.OnReactor() && !c.Nested() && (!complete || r.blocks) { // who waits has nothing else to commit
			return c.Offload()
		}
		if err := f.group.Keep(); err != nil {
			return err
		}
		if c.MayBeUnfinished() {
			return c.Unfinished()
		}
	}
	return nil
}

// idleAtOnce is how many entries are found at a time.
const idleAtOnce = 1000

// replyIdle claims what has been pending for long, and replies it. Entries that are gone stay
// pending; they are looked at only when their turn comes, so it may take several walks to find
// enough others.
func (d *delivery) replyIdle() error {
	if _, _, err := d.group.Index(indexedInPassing); err != nil {
		return err
	}
	most := int64(math.MaxInt64)
	if d.count > 0 {
		most = d.count
	}
	atOnce := int(min(most, idleAtOnce))
	var passed storage.Pending
	for int64(d.delivered) < most {
		idle, err := d.findIdle(passed, atOnce)
		if err != nil || len(idle) == 0 {
			return err
		}
		for i := 0; i < len(idle) && int64(d.delivered) < most; i++ {
			if err := d.claim(idle[i]); err != nil {
				return err
			}
		}
		if len(idle) < atOnce {
			return nil // there were no others
		}
		passed = idle[len(idle)-1]
	}
	return nil
}

// claim gives the consumer an entry, if it isn't gone.
func (d *delivery) claim(p storage.Pending) error {
	fields, found, err := d.Entry(p.Entry)
	if err != nil {
		return err
	}
	if !found {
		d.claims.gone = true
		return nil
	}
	replyClaimed(d.Invocation, p.Entry, fields, max(d.Now-p.DeliveredMs, 0), int64(p.Deliveries))
	former := p
	p.DeliveredMs = d.Now
	p.CountDelivery()
	if err := d.group.Deliver(&p, d.consumer, &former); err != nil {
		return err
	}
	d.taken.add(d.Invocation, &p)
	d.delivered++
	if d.claims.least == 0 {
		if d.claimed == nil {
			d.claimed = map[storage.StreamID]bool{}
		}
		d.claimed[p.Entry] = true
	}
	return nil
}

// findIdle returns what has been pending for longest, no more than is asked for, of what comes
// behind an entry that was found before. What was claimed since is passed over.
func (d *delivery) findIdle(behind storage.Pending, most int) (idle []storage.Pending, err error) {
	err = d.group.WalkDelivered(&behind, func(p *storage.Pending) (bool, error) {
		if d.Now-p.DeliveredMs < d.claims.least {
			if d.claims.earliest == 0 || p.DeliveredMs < d.claims.earliest {
				d.claims.earliest = p.DeliveredMs
			}
			return false, nil
		}
		if d.claimed[p.Entry] {
			return true, nil
		}
		idle = append(idle, *p)
		return len(idle) < most, nil
	})
	return idle, err
}

// replyClaimed replies an entry, for how long it has been pending, and how often it was delivered
// before.
func replyClaimed(c *Invocation, id storage.StreamID, fields [][]byte, idleMs, deliveries int64) {
	c.Reply.Array(4)
	replyEntryFields(c, id, fields)
	c.Reply.Integer(idleMs)
	c.Reply.Integer(deliveries)
}
