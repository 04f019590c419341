package execute

// Member is a session that has requests in the batch.
type Member struct {
	Session  *Session
	Requests []*Request // executed, not yet committed
	mark     int
	state    State
}

// members are the sessions whose requests a batch has executed, with what has to be done again should the commit fail.
type members struct {
	list    []Member
	writers []*Session // who has effects in the transaction
	undone  bool       // what was executed is to be executed again
}

// remember notes a request that was executed, and where its session was before, if it is the first.
func (m *members) remember(s *Session, r *Request, mark int) {
	if s.member == 0 {
		if len(m.list) < cap(m.list) {
			m.list = m.list[:len(m.list)+1]
		} else {
			m.list = append(m.list, Member{})
		}
		s.member = len(m.list)
		member := &m.list[s.member-1]
		member.Session, member.mark, member.state = s, mark, s.before
	}
	member := &m.list[s.member-1]
	member.Requests = append(member.Requests, r)
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
	m.undone = true
	for i := range m.list {
		member := &m.list[i]
		member.Session.Reply.Rewind(member.mark)
		member.Session.restore(member.state)
		member.Session.Refuse = err
	}
}

// clear forgets all; their requests may be used for others unless they are executed again.
func (m *members) clear(reader *requestReader) {
	for i := range m.list {
		member := &m.list[i]
		if !m.undone {
			for _, r := range member.Requests {
				reader.recycle(r)
			}
		}
		member.Session.member = 0
		member.Session = nil
		clear(member.Requests)
		member.Requests = member.Requests[:0]
	}
	m.list, m.undone = m.list[:0], false
}
