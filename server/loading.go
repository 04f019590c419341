package server

// loading has Go use more processors than there are while records are read from the disk. A
// goroutine that reads keeps one of them until Go's monitor takes it away, a tenth of a millisecond
// later or more; with no more of them than the machine has, two reads on two processors keep the
// reactors from theirs that long. At other times more of them would only have goroutines woken for
// nothing.
type loading struct {
	set      func(processors int) // nil: they stay as many as they are
	ordinary int                  // as many as there are
	seen     int64                // loads at the last look
	more     bool
	calm     int // looks since the last one that saw many
}

const (
	// loadingProcessors are added while many records are read: with four of them two processors
	// read 40 % more records than without, and with more of them no more.
	loadingProcessors = 4
	// manyLoads is how many there have to be from one look to the next.
	manyLoads = 20
	// calmLooks is after how many looks without they go again, since everything stands still for a
	// moment when their number changes.
	calmLooks = 100
)

// look is told ten times a second how many records were read so far.
func (l *loading) look(loads int64) {
	many := loads-l.seen >= manyLoads
	l.seen = loads
	switch {
	case l.set == nil:
	case many:
		l.calm = 0
		l.change(true)
	default:
		if l.calm++; l.calm >= calmLooks {
			l.change(false)
		}
	}
}

func (l *loading) change(more bool) {
	if l.more == more {
		return
	}
	l.more = more
	if more {
		l.set(l.ordinary + loadingProcessors)
	} else {
		l.set(l.ordinary)
	}
}
