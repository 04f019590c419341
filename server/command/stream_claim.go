package command

import (
	"cmp"
	"math"
	"slices"
	"time"

	"kedis/storage"
	"kedis/storage/layout"
)

// XREADGROUP's CLAIM, as Redis 8.4 has it: before new entries, a consumer gets those that have been pending for long, whoever got them, the
// longest first. An index of what is pending by time is made by the first of these commands; until it has everything, the rest is walked over.

// idleClaim is what CLAIM asks for.
type idleClaim struct {
	least    int64 // ms for which an entry has been pending
	earliest int64 // when one was delivered (Unix ms) that hasn't been pending for as long yet, and was so first; 0: there is none
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

// wait is for how long nothing can be claimed. What is delivered from now on can't be sooner than what is asked for.
func (i *idleClaim) wait(nowMs int64) time.Duration {
	const shortest, longest = 10, int64(time.Hour / time.Millisecond)
	ms := i.least
	if i.earliest != 0 {
		ms = min(ms, i.least-(nowMs-i.earliest))
	}
	return time.Duration(min(max(ms, shortest), longest)) * time.Millisecond
}

// idleAtOnce is how many entries are found at a time.
const idleAtOnce = 1000

// replyIdle claims what has been pending for long, and replies it. Entries that are gone stay pending; they are looked at only when their turn
// comes, so it may take several walks to find enough others.
func (d *delivery) replyIdle() error {
	indexed, err := d.group.Index()
	if err != nil {
		return err
	}
	most := math.MaxInt / 2
	if d.count > 0 {
		most = int(min(d.count, math.MaxInt/2))
	}
	atOnce := max(most, idleAtOnce) // each time all that isn't indexed is walked over
	if indexed {
		atOnce = min(most, idleAtOnce)
	}
	var passed storage.Pending
	for d.delivered < most {
		idle, err := d.findIdle(passed, atOnce)
		if err != nil || len(idle) == 0 {
			return err
		}
		for i := 0; i < len(idle) && d.delivered < most; i++ {
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
	if err != nil || !found {
		return err
	}
	replyClaimed(d.Invocation, p.Entry, fields, max(d.Now-p.DeliveredMs, 0), int64(p.Deliveries))
	former := p
	p.DeliveredMs = d.Now
	p.Deliveries++
	if err := d.group.Deliver(&p, d.consumer, &former); err != nil {
		return err
	}
	d.taken.add(d.Invocation, &p)
	d.delivered++
	return nil
}

// findIdle returns what has been pending for longest, no more than is asked for, of what comes behind an entry that was found before. What
// was claimed since was delivered now.
func (d *delivery) findIdle(behind storage.Pending, most int) (idle []storage.Pending, err error) {
	wanted := func(p *storage.Pending) bool {
		if d.Now-p.DeliveredMs < d.claims.least {
			if d.claims.earliest == 0 || p.DeliveredMs < d.claims.earliest {
				d.claims.earliest = p.DeliveredMs
			}
			return false
		}
		return behind.DeliveredMs == 0 || p.DeliveredMs != d.Now
	}
	err = d.group.WalkDelivered(&behind, func(p *storage.Pending) (bool, error) {
		if !wanted(p) {
			return false, nil
		}
		idle = append(idle, *p)
		return len(idle) < most, nil
	})
	from, more := d.group.Unindexed()
	if err != nil || !more {
		return idle, err
	}
	err = d.group.Walk(from, layout.LastStreamID, nil, func(p *storage.Pending) (bool, error) {
		if wanted(p) && comparePending(behind, *p) < 0 {
			if idle = append(idle, *p); len(idle)/2 >= most {
				idle = longestPending(idle, most)
			}
		}
		return true, nil
	})
	return longestPending(idle, most), err
}

// longestPending keeps those that were delivered first, in that order.
func longestPending(idle []storage.Pending, most int) []storage.Pending {
	slices.SortFunc(idle, comparePending)
	return idle[:min(most, len(idle))]
}

func comparePending(a, b storage.Pending) int {
	if a.DeliveredMs != b.DeliveredMs {
		return cmp.Compare(a.DeliveredMs, b.DeliveredMs)
	}
	if a.Entry == b.Entry {
		return 0
	}
	if a.Entry.Less(b.Entry) {
		return -1
	}
	return 1
}

// replyClaimed replies an entry, for how long it has been pending, and how often it was delivered before.
func replyClaimed(c *Invocation, id storage.StreamID, fields [][]byte, idleMs, deliveries int64) {
	c.Reply.Array(4)
	replyEntryFields(c, id, fields)
	c.Reply.Integer(idleMs)
	c.Reply.Integer(deliveries)
}
