package chaos

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"time"

	"kedis/redis-tests/lookup"
)

// Round runs load and faults of all kinds for a while, ends as chance has it, and compares.
func (c *Cluster) Round(duration time.Duration) error {
	return c.play(duration, allFaults, true, c.conclude)
}

// Links runs load and faults of the links for a while, and compares. Nobody ever needs all data
// anew.
func (c *Cluster) Links(duration time.Duration) error {
	err := c.play(duration, linkFaults, false, c.settle)
	if err != nil {
		return err
	}
	for _, m := range c.members {
		full, err := m.fullSyncs()
		if err != nil {
			return err
		}
		if full > 1 && !c.hasNewerRedis() {
			return fmt.Errorf("chaos: round %d: %s has sent its data %d times", c.round, m.name, full)
		}
	}
	return nil
}

func (c *Cluster) play(duration time.Duration, faults []fault, handsOver bool, conclude func(*Load, []*Witness) error) error {
	c.round++
	c.note("round %d; the primary is %s", c.round, c.primary.name)
	s := &storm{Cluster: c, faults: faults}
	var witnesses []*Witness
	for i := range 2 {
		witnesses = append(witnesses, NewWitness(fmt.Sprintf("witness:%d:%d", c.round, i), c.random.Uint64(), &s.strays))
	}
	load := StartLoad(c.primary, handsOver, c.timed, c.random.Uint64(), witnesses)
	for _, m := range c.replicas() {
		if !m.isRedis() {
			observe(m, witnesses, load)
		}
	}
	failed := s.run(duration)
	if failed == nil {
		failed = conclude(load, witnesses)
	}
	if err := errors.Join(failed, load.Stop()); err != nil {
		return fmt.Errorf("chaos: round %d: %w", c.round, err)
	}
	c.requests += load.written.Load()
	for _, w := range witnesses {
		c.testified += w.answered
	}
	if err := c.findDivergence(); err != nil {
		return fmt.Errorf("chaos: round %d: %w", c.round, err)
	}
	if err := c.lookUpEverything(); err != nil {
		return fmt.Errorf("chaos: round %d: %w", c.round, err)
	}
	return c.forget(witnesses)
}

// findDivergence fails when a replica's data were not its primary's, even if all are equal at the
// end: such a replica takes all data anew.
func (c *Cluster) findDivergence() error {
	for _, m := range c.members {
		if m.findDivergence(); m.diverged != "" {
			return fmt.Errorf("%s diverged: %s", m.name, m.diverged)
		}
	}
	return nil
}

// lookUpEverything asks each Kedis for all that it lists.
func (c *Cluster) lookUpEverything() error {
	for _, m := range c.members {
		if m.isRedis() || m.down || m.stopped {
			continue
		}
		connection, err := m.dial()
		if err != nil {
			return err
		}
		err = lookup.Everything(connection, databases)
		if err := errors.Join(err, connection.Close()); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
	}
	return nil
}

// conclude ends a round in one of several ways.
func (c *Cluster) conclude(load *Load, witnesses []*Witness) error {
	// A Redis can't be killed, so it is not to be the primary for long.
	if c.primary.isRedis() && c.random.IntN(2) == 0 || c.random.IntN(3) == 0 {
		return c.switchRoles(load, witnesses)
	}
	switch c.random.IntN(5) {
	case 0:
		return c.settle(load, witnesses)
	case 1:
		return c.handOver(load, witnesses)
	}
	return c.failOver(load, witnesses)
}

// settle ends the faults and leaves the roles as they are: all that was answered is there.
func (c *Cluster) settle(load *Load, witnesses []*Witness) error {
	c.note("the faults end")
	if err := c.heal(); err != nil {
		return err
	}
	if err := load.Stop(); err != nil {
		return err
	}
	if err := c.converge(); err != nil {
		return err
	}
	return c.checkAll(witnesses, func(w *Witness) int { return w.answered })
}

// switchRoles makes another member the primary when all are at the same position.
func (c *Cluster) switchRoles(load *Load, witnesses []*Witness) error {
	if err := c.settle(load, witnesses); err != nil {
		return err
	}
	replicas := c.replicas()
	next := replicas[c.random.IntN(len(replicas))]
	c.note("%s takes over from %s", next.name, c.primary.name)
	if err := c.promote(next); err != nil {
		return err
	}
	return c.settle(load, witnesses)
}

// handOver has the primary itself give its role to a replica, by FAILOVER, while clients write:
// nothing that was answered is lost.
func (c *Cluster) handOver(load *Load, witnesses []*Witness) error {
	if err := c.heal(); err != nil {
		return err
	}
	replicas := c.replicas()
	next := replicas[c.random.IntN(len(replicas))]
	c.note("%s is to hand over to %s", c.primary.name, next.name)
	if err := c.failover(next); err != nil {
		return err
	}
	return c.settle(load, witnesses)
}

// failover asks for a FAILOVER and waits for its end. One that can't be, because the replica isn't
// level in time, changes nothing.
func (c *Cluster) failover(next *Member) error {
	_, port, err := net.SplitHostPort(next.server.Load().Address)
	if err != nil {
		return err
	}
	const millisecondsToGiveUp = "3000"
	if _, err := c.primary.do("failover", "to", "127.0.0.1", port, "timeout", millisecondsToGiveUp); err != nil {
		c.note("FAILOVER: %v", err)
		return ignoreNoReplica(err)
	}
	for deadline := time.Now().Add(answerTimeout); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		s, err := c.primary.status()
		switch {
		case err != nil:
			return err
		case s.fields["master_failover_state"] != "no-failover":
		case s.fields["role"] == "master":
			c.note("FAILOVER was given up")
			return nil
		default:
			c.note("%s is the primary", next.name)
			c.changes++
			c.primary.upstream = next // though by no link of ours
			c.primary, next.upstream, c.left = next, nil, map[string]int64{}
			return errors.Join(c.noteHistory(), c.relink())
		}
	}
	return fmt.Errorf("chaos: FAILOVER has no end:\n%s", c.describe())
}

// relink has everybody follow the primary by our links.
func (c *Cluster) relink() error {
	for _, m := range c.replicas() {
		if err := m.follow(c.primary); err != nil {
			return err
		}
	}
	return nil
}

// ignoreNoReplica drops the error of a FAILOVER to a replica that has not come back yet.
func ignoreNoReplica(err error) error {
	if strings.Contains(err.Error(), "FAILOVER target HOST and PORT is not a replica") || strings.Contains(err.Error(), "FAILOVER target replica is not online") ||
		strings.Contains(err.Error(), "FAILOVER requires connected replicas") {
		return nil
	}
	return err
}

// promote makes a member the primary. The former one is told by heal.
func (c *Cluster) promote(next *Member) error {
	if err := next.follow(nil); err != nil {
		return err
	}
	c.primary, c.left = next, map[string]int64{}
	c.changes++
	return c.noteHistory()
}

// failOver kills or stops the primary in the midst of everything and promotes a replica.
func (c *Cluster) failOver(load *Load, witnesses []*Witness) error {
	former := c.primary
	history, err := c.resumed(former)
	if err != nil {
		return err
	}
	if former.isRedis() || c.random.IntN(2) == 0 {
		c.note("stop for good: %s, the primary", former.name)
		err = former.signal(syscall.SIGSTOP)
	} else {
		c.note("kill for good: %s, the primary", former.name)
		former.kill()
	}
	if err := errors.Join(err, load.Stop()); err != nil {
		return err
	}
	next, lost, err := c.candidate(former, history)
	if errors.Is(err, errNoCandidate) {
		c.note("%v", err)
		return c.settle(load, witnesses)
	}
	if err != nil {
		return err
	}
	c.note("%s is promoted", next.name)
	if err := c.promote(next); err != nil {
		return err
	}
	if err := c.heal(); err != nil {
		return err
	}
	if err := c.converge(); err != nil {
		return err
	}
	for _, w := range witnesses {
		c.promised += w.promised(lost)
	}
	return c.checkAll(witnesses, func(w *Witness) int { return w.promised(lost) })
}

// resumed has the primary go on if it was stopped or killed, and returns its history.
func (c *Cluster) resumed(m *Member) (string, error) {
	if m.stopped {
		if err := m.signal(syscall.SIGCONT); err != nil {
			return "", err
		}
	}
	if err := c.up(m); err != nil {
		return "", err
	}
	s, err := m.status()
	return s.history(), err
}

// noteHistory notes which history the primary has left, and where. One that is killed begins
// another each time.
func (c *Cluster) noteHistory() error {
	s, err := c.primary.status()
	if history, left := s.former(); left > 0 {
		c.left[history] = left
	}
	return err
}

// isPart reports whether what a replica holds is a part of what the primary, of this history, has
// or has had.
func (c *Cluster) isPart(s status, history string) bool {
	return s.history() == history || s.position() < c.left[s.history()]
}

var errNoCandidate = errors.New("chaos: no replica knows the primary's history")

// candidate is the replica that is furthest in the primary's history, as Sentinel would choose it.
// One that hasn't come back since the primary was killed, and began another history, may be further
// than those that have. lost is how many of the others may have lost what they have acknowledged:
// those that take all data anew, and the Redis, which keep none when they are killed.
func (c *Cluster) candidate(former *Member, history string) (best *Member, lost int, err error) {
	furthest := int64(-1)
	for _, m := range c.members {
		if m == former {
			continue
		}
		if m.stopped {
			if err := m.signal(syscall.SIGCONT); err != nil {
				return nil, 0, err
			}
		}
		if err := c.up(m); err != nil {
			return nil, 0, err
		}
		if m.isRedis() {
			lost++
		}
		status, err := m.status()
		if err != nil {
			if ignoreLoading(m, err) == nil {
				continue
			}
			return nil, 0, err
		}
		c.note("%s: history %s at %d", m.name, status.history(), status.position())
		switch {
		case status.fields["master_sync_in_progress"] != "0":
			if !m.isRedis() {
				lost++
			}
		case c.isPart(status, history) && status.position() > furthest:
			best, furthest = m, status.position()
		}
	}
	if best == nil {
		return nil, 0, errNoCandidate
	}
	return best, lost, nil
}

// ignoreLoading drops the error of a Redis that takes a snapshot, and has no data meanwhile.
func ignoreLoading(m *Member, err error) error {
	if err != nil && m.isRedis() && (strings.Contains(err.Error(), "LOADING") || strings.Contains(err.Error(), "MASTERDOWN")) {
		return nil
	}
	return err
}

func (c *Cluster) checkAll(witnesses []*Witness, least func(*Witness) int) error {
	for _, w := range witnesses {
		for _, m := range c.members {
			if err := w.check(m, least(w)); err != nil {
				return err
			}
		}
		c.note("%s: %d sent, %d answered, %d promises of WAIT; at least %d had to be there", w.list, w.sent, w.answered, len(w.promises), least(w))
	}
	return nil
}

// forget removes what the witnesses wrote.
func (c *Cluster) forget(witnesses []*Witness) error {
	connection, err := c.primary.dial()
	if err != nil {
		return err
	}
	defer connection.Close()
	if _, err := connection.Must("select", witnessDatabase); err != nil {
		return err
	}
	for _, w := range witnesses {
		if _, err := connection.Must("del", w.list, w.counter, w.stream); err != nil {
			return err
		}
	}
	return nil
}
