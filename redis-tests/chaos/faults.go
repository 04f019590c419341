package chaos

import (
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"syscall"
	"time"
)

// storm is what is done to a cluster during a round.
type storm struct {
	*Cluster
	faults []fault
	undo   []undo
	strays atomic.Int64 // replicas that were primaries for a while: what they acknowledged before may be gone
}

// undo is the end of a fault.
type undo struct {
	at  time.Time
	end func() error
}

// A fault of a replica begins something that storm.later may have ended; it does nothing when the
// replica's state doesn't allow it.
type fault func(s *storm, m *Member) error

// linkFaults and allFaults are drawn from; those that stand there more often come more often.
var (
	linkFaults = []fault{cut, cut, cut, cutHalfWay, cutHalfWay, cutHalfWay, slow, slow, freezeStream, freezeAcknowledgements}
	allFaults  = append(slices.Clone(linkFaults), stop, stop, killReplica, killReplica, stopPrimary, killPrimary, stray, chain)
)

// run makes faults for a while.
func (s *storm) run(duration time.Duration) error {
	for end := time.Now().Add(duration); time.Now().Before(end); {
		time.Sleep(time.Duration(20+s.random.IntN(200)) * time.Millisecond)
		if err := s.end(time.Now()); err != nil {
			return err
		}
		replicas := s.replicas()
		if err := s.faults[s.random.IntN(len(s.faults))](s, replicas[s.random.IntN(len(replicas))]); err != nil {
			return err
		}
	}
	return nil
}

// end ends the faults whose time has come.
func (s *storm) end(now time.Time) error {
	var open []undo
	for _, u := range s.undo {
		if now.Before(u.at) {
			open = append(open, u)
		} else if err := u.end(); err != nil {
			return err
		}
	}
	s.undo = open
	return nil
}

// later ends a fault after a while, mostly a short one.
func (s *storm) later(end func() error) {
	after := time.Duration(s.random.IntN(700)) * time.Millisecond
	if s.random.IntN(8) == 0 {
		after = longFault + after
	}
	s.undo = append(s.undo, undo{time.Now().Add(after), end})
}

// longFault is longer than repl-timeout.
const longFault = 3 * time.Second

func healthy(m *Member) bool { return !m.down && !m.stopped }

// link is the one that a replica gets its stream by.
func (m *Member) link() *Link { return m.links[m.upstream] }

func cut(s *storm, m *Member) error {
	if m.upstream == nil {
		return nil
	}
	s.note("cut: %s from %s", m.name, m.upstream.name)
	m.link().Cut()
	return nil
}

// cutHalfWay breaks the link within a command, the handshake or a snapshot.
func cutHalfWay(s *storm, m *Member) error {
	if m.upstream == nil {
		return nil
	}
	bytes := []int64{300, 5_000, 200_000, 2_000_000}[s.random.IntN(4)]
	bytes = 1 + s.random.Int64N(bytes)
	s.note("cut after %d bytes: %s from %s", bytes, m.name, m.upstream.name)
	if s.random.IntN(2) == 0 {
		m.link().Cut() // so that the bytes begin with the handshake
	}
	m.link().CutAfter(bytes)
	return nil
}

func slow(s *storm, m *Member) error {
	if m.upstream == nil {
		return nil
	}
	rate := []int{3_000, 30_000, 300_000}[s.random.IntN(3)]
	s.note("slow: %s from %s at %d bytes/s", m.name, m.upstream.name, rate)
	link := m.link()
	link.Slow(rate)
	s.later(func() error {
		link.Slow(0)
		return nil
	})
	return nil
}

func freezeStream(s *storm, m *Member) error           { return freeze(s, m, fromTarget) }
func freezeAcknowledgements(s *storm, m *Member) error { return freeze(s, m, toTarget) }

func freeze(s *storm, m *Member, direction int) error {
	if m.upstream == nil {
		return nil
	}
	s.note("freeze: %s from %s, %s", m.name, m.upstream.name, []string{"what it sends", "what it gets"}[direction])
	link := m.link()
	link.Freeze(direction)
	breaks := s.random.IntN(2) == 0
	s.later(func() error {
		if breaks {
			link.Cut()
		}
		link.Heal()
		return nil
	})
	return nil
}

func stop(s *storm, m *Member) error {
	if !healthy(m) {
		return nil
	}
	s.note("stop: %s", m.name)
	if err := m.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	s.later(func() error {
		if !m.stopped {
			return nil
		}
		s.note("go on: %s", m.name)
		return m.signal(syscall.SIGCONT)
	})
	return nil
}

func killReplica(s *storm, m *Member) error {
	if m.down {
		return nil
	}
	s.note("kill: %s", m.name)
	m.kill()
	s.later(func() error { return s.up(m) })
	return nil
}

func stopPrimary(s *storm, _ *Member) error { return stop(s, s.primary) }

// killPrimary kills a Kedis; a Redis would come back without data.
func killPrimary(s *storm, _ *Member) error {
	if s.primary.isRedis() || s.primary.down || s.random.IntN(2) == 0 {
		return nil
	}
	s.note("kill: %s, the primary", s.primary.name)
	s.primary.kill()
	time.Sleep(time.Duration(s.random.IntN(300)) * time.Millisecond)
	return s.up(s.primary)
}

// stray makes a primary of a replica, which gets data of its own or not, and then follows again.
func stray(s *storm, m *Member) error {
	if !healthy(m) || m.upstream == nil {
		return nil
	}
	s.note("promote for a while: %s", m.name)
	if err := m.follow(nil); err != nil {
		return ignoreLoading(m, err)
	}
	for _, other := range s.members {
		if other == m || other.upstream == m {
			s.strays.Add(1)
		}
	}
	if s.random.IntN(2) == 0 {
		s.note("%s gets writes of its own", m.name)
		if err := m.write(s.random); err != nil {
			return ignoreLoading(m, err)
		}
	}
	s.later(func() error {
		if m.upstream != nil || !healthy(m) {
			return nil
		}
		s.note("follow again: %s", m.name)
		return ignoreLoading(m, m.follow(s.primary))
	})
	return nil
}

// write writes what no other member may ever show.
func (m *Member) write(r *rand.Rand) error {
	c, err := m.dial()
	if err != nil {
		return err
	}
	defer c.Close()
	for range 1 + r.IntN(20) {
		c.Queue(growth(r)...)
		if err := c.Flush(); err != nil {
			return err
		}
		if _, err := c.Read(); err != nil {
			return err
		}
	}
	return nil
}

// chain has a replica follow another replica for a while.
func chain(s *storm, m *Member) error {
	replicas := s.replicas()
	between := replicas[s.random.IntN(len(replicas))]
	if !healthy(m) || m.upstream != s.primary || between == m || between.upstream != s.primary {
		return nil
	}
	s.note("chain: %s follows %s", m.name, between.name)
	if err := m.follow(between); err != nil {
		return ignoreLoading(m, err)
	}
	s.later(func() error {
		if m.upstream != between || !healthy(m) {
			return nil
		}
		s.note("chain ends: %s follows %s", m.name, s.primary.name)
		return ignoreLoading(m, m.follow(s.primary))
	})
	return nil
}
