package chaos

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"time"

	"kedis/redis-tests/launch"
)

// Cluster is a primary and its replicas, with a link between any two of them.
type Cluster struct {
	members []*Member
	primary *Member
	left    map[string]int64 // histories that the primary was in before, and its first position in another
	random  *rand.Rand
	chained bool     // each follows the one before it, not all the primary
	timed   bool     // all know that fields of hashes expire
	events  []string // what was done, for whoever looks into a failure
	round   int
	// requests is how many were answered in all rounds, slowest how long it took at most until all
	// were equal.
	requests int64
	slowest  time.Duration
	changes  int // of the primary
	// testified is how many numbers of witnesses were answered, promised how many of those WAIT had
	// said to be on so many replicas that a promotion had to keep them.
	testified, promised int
}

// NewCluster starts servers; the first is the primary. directory makes a directory for each.
func NewCluster(seed uint64, chained bool, directory func() string, programs []launch.Program,
	options func(r *rand.Rand, p launch.Program) []string) (*Cluster, error) {
	c := &Cluster{left: map[string]int64{}, random: rand.New(rand.NewPCG(seed, 0)), chained: chained}
	for i, program := range programs {
		kind := "kedis"
		if program.IsRedis {
			kind = "redis"
		}
		chosen := options(c.random, program)
		server, err := program.Start(directory(), chosen...)
		if err != nil {
			c.Close()
			return nil, err
		}
		m := &Member{name: fmt.Sprintf("%s%d", kind, i), links: map[*Member]*Link{}}
		m.server.Store(server)
		c.members = append(c.members, m)
		c.note("%s: process %d, %s", m.name, server.ProcessID(), strings.Join(chosen, " "))
	}
	c.primary = c.members[0]
	if err := errors.Join(c.findTimed(), c.connect()); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// findTimed finds out whether all members know that fields of hashes expire.
func (c *Cluster) findTimed() error {
	c.timed = true
	for _, m := range c.members {
		reply, err := m.do("command", "info", "hpexpireat")
		if err != nil {
			return err
		}
		c.timed = c.timed && len(reply.Elements) == 1 && !reply.Elements[0].Null
	}
	return nil
}

// connect makes the links, and replicas of all but the primary.
func (c *Cluster) connect() error {
	for _, m := range c.members {
		for _, other := range c.members {
			link, err := NewLink(other.server.Load().Address)
			if err != nil {
				return err
			}
			m.links[other] = link
		}
	}
	for _, m := range c.replicas() {
		if err := m.follow(c.home(m)); err != nil {
			return err
		}
	}
	return nil
}

// home is whom a member follows when there are no faults.
func (c *Cluster) home(m *Member) *Member {
	if !c.chained {
		return c.primary
	}
	return c.members[slices.Index(c.members, m)-1]
}

// Close ends all servers and links.
func (c *Cluster) Close() {
	for _, m := range c.members {
		m.server.Load().Kill()
		for _, link := range m.links {
			link.Close()
		}
	}
}

func (c *Cluster) note(format string, arguments ...any) {
	c.events = append(c.events, time.Now().Format("15:04:05.000 ")+fmt.Sprintf(format, arguments...))
}

// replicas are all members but the primary.
func (c *Cluster) replicas() []*Member {
	var others []*Member
	for _, m := range c.members {
		if m != c.primary {
			others = append(others, m)
		}
	}
	return others
}

// up starts a member that was killed, and has the links to it find it.
func (c *Cluster) up(m *Member) error {
	if !m.down {
		return nil
	}
	if err := m.restart(); err != nil {
		return err
	}
	c.note("%s is started again: process %d", m.name, m.server.Load().ProcessID())
	for _, other := range c.members {
		other.links[m].Redirect(m.server.Load().Address)
	}
	if m == c.primary {
		return c.noteHistory()
	}
	if m.isRedis() && m.upstream != nil { // it has forgotten
		return m.follow(m.upstream)
	}
	return nil
}

// heal ends all faults; everybody then follows whom he is to.
func (c *Cluster) heal() error {
	for _, m := range c.members {
		if m.stopped {
			if err := m.signal(syscall.SIGCONT); err != nil {
				return err
			}
		}
		if err := c.up(m); err != nil {
			return err
		}
		for _, link := range m.links {
			link.Heal()
		}
	}
	for _, m := range c.replicas() {
		if home := c.home(m); m.upstream != home {
			if err := m.follow(home); err != nil {
				return err
			}
		}
	}
	return nil
}

// repl-timeout is short, so that links that are frozen time out. On a machine that is busy with
// other things nothing would ever be equal: links that time out, and a position that moves with
// each PING, while digests are taken.
var (
	timing  = []string{"--repl-timeout", "3", "--repl-ping-replica-period", "1"}
	patient = []string{"--repl-timeout", "60", "--repl-ping-replica-period", "20"}
)

const (
	convergence = 2 * time.Minute  // within which replicas are where their primary is when nobody writes
	lateExpiry  = 15 * time.Second // within which keys that have expired are removed
)

// converge waits until all hold the same data at the same position. Nobody writes meanwhile; what
// still changes are keys that expire.
func (c *Cluster) converge() (err error) {
	if err := c.configure(patient); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.configure(timing)) }()
	began, level := time.Now(), time.Time{}
	for {
		digests, err := c.sample()
		if err != nil {
			return err
		}
		switch { // digests have no times, and of streams no groups
		case len(digests) == 0:
		case (allEqual(digests) || c.hasNewerRedis()) && c.differences() == "":
			took := time.Since(began)
			c.note("all are equal after %v: %s", took.Round(time.Millisecond), digests[0])
			c.slowest = max(c.slowest, took)
			return nil
		case level.IsZero():
			level = time.Now()
		case time.Since(level) > lateExpiry:
			return fmt.Errorf("chaos: at the same position the digests are %q\n%s\n%s", digests, c.differences(), c.expired())
		}
		if time.Since(began) > convergence {
			return fmt.Errorf("chaos: after %v the replicas are not where the primary is:\n%s", convergence, c.describe())
		}
		time.Sleep(30 * time.Millisecond)
	}
}

// configure sets options of all members. Each is a flag and its value.
func (c *Cluster) configure(options []string) error {
	line := []string{"config", "set"}
	for _, word := range options {
		line = append(line, strings.TrimPrefix(word, "--"))
	}
	for _, m := range c.members {
		if _, err := m.do(line...); err != nil {
			return err
		}
	}
	return nil
}

// sample takes the digests of all members, with their libraries of functions, if they are at the
// same position before and after that; none otherwise.
func (c *Cluster) sample() ([]string, error) {
	before, err := c.level()
	if err != nil || before < 0 {
		return nil, err
	}
	var digests []string
	for _, m := range c.members {
		digest, err := m.digest()
		if err != nil {
			return nil, err
		}
		digests = append(digests, digest)
	}
	after, err := c.level()
	if err != nil || after != before {
		return nil, err
	}
	return digests, nil
}

// level is the position that all are at, of one history; -1 when they are not.
func (c *Cluster) level() (int64, error) {
	at, err := c.primary.status()
	if err != nil {
		return -1, err
	}
	for _, m := range c.replicas() {
		s, err := m.status()
		if err != nil {
			if m.isRedis() && strings.Contains(err.Error(), "LOADING") {
				return -1, nil
			}
			return -1, err
		}
		if !s.following() || s.position() != at.position() || s.history() != at.history() {
			return -1, nil
		}
	}
	return at.position(), nil
}

func allEqual(words []string) bool {
	for _, word := range words {
		if word != words[0] {
			return false
		}
	}
	return true
}

// describe tells of all members' part in replication.
func (c *Cluster) describe() string {
	var b strings.Builder
	for _, m := range c.members {
		s, err := m.status()
		if err != nil {
			fmt.Fprintf(&b, "%s: %v\n", m.name, err)
			continue
		}
		fmt.Fprintf(&b, "%s: %s, link %q, history %s at %d\n", m.name, s.fields["role"], s.fields["master_link_status"], s.history(), s.position())
	}
	return b.String()
}

// Report is what was done, the newest last, and what the servers print.
func (c *Cluster) Report() string {
	const shown = 120
	var b strings.Builder
	for _, event := range c.events[max(0, len(c.events)-shown):] {
		fmt.Fprintln(&b, event)
	}
	for _, m := range c.members {
		output := m.server.Load().Output()
		const longest = 6000
		fmt.Fprintf(&b, "---- %s, whose data are in %s\n%s\n", m.name, m.server.Load().Directory, output[max(0, len(output)-longest):])
	}
	return b.String()
}
