package execute

import "bytes"

// Member is a session that has requests in the batch.
type Member struct {
	Session  *Session
	Executed []Executed // not yet committed
	mark     int
	state    State
}

// members are the sessions whose requests a batch has executed, with what has to be done again
// should the commit fail.
type members struct {
	list     []Member
	writers  []*Session // who has effects in the transaction
	followed int        // sessions whose first request needed a lock that the batch had
}

// remember notes a request that was executed, with its reply, and where its session was before, if
// it is the first.
func (m *members) remember(s *Session, r *Request, reply replyPart) {
	if s.member == 0 {
		if len(m.list) < cap(m.list) {
			m.list = m.list[:len(m.list)+1]
		} else {
			m.list = append(m.list, Member{})
		}
		s.member = len(m.list)
		member := &m.list[s.member-1]
		member.Session, member.mark, member.state = s, reply.from, s.before
	}
	member := &m.list[s.member-1]
	if r.Command != nil && r.Command.RunsQueue {
		member.noteQueuedCounted()
	}
	member.Executed = append(member.Executed, Executed{r.Args, r.noted, reply})
}

// noteQueuedCounted notes that the requests which EXEC has run were counted with it.
func (m *Member) noteQueuedCounted() {
	for i := len(m.Executed) - 1; i >= 0 && !m.Executed[i].counted; i-- { // back to MULTI
		m.Executed[i].counted = true
	}
}

// wrote notes a session that has effects.
func (m *members) wrote(s *Session) {
	if len(m.writers) == 0 || m.writers[len(m.writers)-1] != s {
		m.writers = append(m.writers, s)
	}
}

// committed says how far the log is behind what the sessions have written; wrote: the batch has.
func (m *members) committed(position int64, wrote bool) {
	for _, s := range m.writers {
		s.Written = position
	}
	if !wrote {
		position = 0
	}
	for i := range m.list {
		m.list[i].Session.dependOnCommit(position)
	}
}

func (m *members) forgetWriters() {
	clear(m.writers)
	m.writers = m.writers[:0]
}

// undo puts the sessions back to where they were. Their writes are refused with the error.
func (m *members) undo(err error) {
	for i := range m.list {
		member := &m.list[i]
		member.Session.Reply.Rewind(member.mark)
		member.Session.restore(member.state)
		member.Session.Refuse = err
	}
}

// doubt replaces the replies to what has written by an error, and returns how many. A reply that
// the client didn't want stays away.
func (m *members) doubt(text string) (replaced int) {
	for i := range m.list {
		w, at := m.list[i].Session.Reply, m.list[i].mark
		old := bytes.Clone(w.Bytes())
		w.Rewind(at)
		for _, executed := range m.list[i].Executed {
			reply := executed.reply
			if !reply.wrote || reply.from == reply.to {
				continue
			}
			w.Raw(old[at:reply.from])
			w.Error(text)
			at = reply.to
			replaced++
		}
		w.Raw(old[at:])
	}
	return replaced
}

// clear forgets all.
func (m *members) clear() {
	for i := range m.list {
		member := &m.list[i]
		member.Session.member = 0
		member.Session = nil
		clear(member.Executed)
		member.Executed = member.Executed[:0]
	}
	m.list = m.list[:0]
	m.followed = 0
}
