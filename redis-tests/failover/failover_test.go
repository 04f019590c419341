package failover

import (
	"flag"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"kedis/redis-tests/launch"
	"kedis/redis-tests/seed"
)

var rounds = flag.Int("rounds", 0, "failovers of each kind; 0: a few")

// set-ups: with as many synchronous replicas as there are, nothing that was acknowledged is lost.
var setUps = []struct {
	name     string
	replicas int
}{{"OneReplica", 1}, {"TwoReplicas", 2}}

// group is a primary and its replicas.
type group struct {
	t        *testing.T
	network  *network // nil: all are on this machine's
	primary  *launch.Server
	replicas []*launch.Server
	sentinels
	crowd *crowd
}

func start(t *testing.T, replicas int, net *network, options ...string) *group {
	options = append([]string{"--synchronous-replicas", strconv.Itoa(replicas), "--synchronous-timeout", "1000", "--synchronous-reads", "yes", "--sentinel-quorum", strconv.Itoa(sentinelQuorum), "--sentinel-user", "sentinel"}, options...)
	g := &group{t: t, network: net}
	g.primary = g.launch(options)
	for range replicas {
		replica := g.launch(options)
		g.follow(replica, g.primary)
		g.replicas = append(g.replicas, replica)
	}
	g.crowd = newCrowd(g.primary.Address)
	return g
}

func (g *group) launch(options []string) *launch.Server {
	program := launch.MustUnderTest(g.t)
	if g.network != nil {
		program, options = g.network.join(program), append(options, "--protected-mode", "no")
	}
	return launch.ForTest(g.t, program, options...)
}

func (g *group) do(s *launch.Server, words ...string) string {
	g.t.Helper()
	c := s.MustDial(g.t)
	defer c.Close()
	reply, err := c.Must(words...)
	if err != nil {
		g.t.Fatalf("%q: %v", words, err)
	}
	return string(reply.Text)
}

func (g *group) follow(replica, primary *launch.Server) {
	g.t.Helper()
	g.do(replica, append([]string{"REPLICAOF"}, place(primary)...)...)
}

// place is a server's host and port.
func place(s *launch.Server) []string {
	host, port, _ := strings.Cut(s.Address, ":")
	return []string{host, port}
}

// eventually waits until a server's INFO has a line.
func (g *group) eventually(s *launch.Server, line string) {
	g.t.Helper()
	for deadline := time.Now().Add(time.Minute); !strings.Contains(g.do(s, "INFO", "replication"), line+"\r\n"); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			g.t.Fatalf("it never came that a server tells %s", line)
		}
	}
}

// settled waits until all replicas acknowledge.
func (g *group) settled() {
	g.t.Helper()
	g.eventually(g.primary, "synchronous_replicas_online:"+strconv.Itoa(len(g.replicas)))
}

// promote makes a replica the primary, and has the others follow it; the former primary is the
// caller's.
func (g *group) promote(random *rand.Rand) (former *launch.Server) {
	g.t.Helper()
	at := random.IntN(len(g.replicas))
	former, g.primary = g.primary, g.replicas[at]
	g.replicas[at] = former
	g.do(g.primary, "REPLICAOF", "NO", "ONE")
	g.crowd.address.Store(&g.primary.Address)
	for _, replica := range g.replicas {
		if replica != former {
			g.follow(replica, g.primary)
		}
	}
	return former
}

// replace puts another process in a server's place.
func (g *group) replace(was, is *launch.Server) {
	for i, replica := range g.replicas {
		if replica == was {
			g.replicas[i] = is
		}
	}
}

// The ways in which a primary is replaced.
var ways = map[string]func(g *group, random *rand.Rand){
	"Killed": func(g *group, random *rand.Rand) {
		g.primary.Kill()
		former := g.promote(random)
		again, err := former.Restart()
		if err != nil {
			g.t.Fatal(err)
		}
		g.t.Cleanup(func() { launch.End(g.t, again) })
		g.replace(former, again)
		g.follow(again, g.primary)
	},
	"Stopped": func(g *group, random *rand.Rand) { // some clients go on with it when it is back
		if err := launch.Freeze(g.primary.ProcessID()); err != nil {
			g.t.Fatal(err)
		}
		former := g.promote(random)
		time.Sleep(time.Duration(random.IntN(300)) * time.Millisecond)
		if err := syscall.Kill(former.ProcessID(), syscall.SIGCONT); err != nil {
			g.t.Fatal(err)
		}
		time.Sleep(time.Duration(random.IntN(300)) * time.Millisecond)
		g.follow(former, g.primary)
	},
	"Deposed": func(g *group, random *rand.Rand) { // it doesn't know
		former := g.promote(random)
		time.Sleep(time.Duration(random.IntN(300)) * time.Millisecond)
		g.follow(former, g.primary)
	},
	"SentinelFailover": sentinelFailover,
	"SentinelDown":     sentinelFindsDead,
	// Clients reach all servers; the primary and its replicas don't reach each other.
	"CutBothWays": func(g *group, random *rand.Rand) { g.replaceCut(random, true, true) },
	"CutOutgoing": func(g *group, random *rand.Rand) { g.replaceCut(random, true, false) },
	"CutIncoming": func(g *group, random *rand.Rand) { g.replaceCut(random, false, true) },
	"Asked": func(g *group, random *rand.Rand) {
		at := random.IntN(len(g.replicas))
		to := g.replicas[at]
		g.do(g.primary, append([]string{"FAILOVER", "TO"}, place(to)...)...)
		g.eventually(to, "role:master")
		g.eventually(g.primary, "master_failover_state:no-failover")
		g.primary, g.replicas[at] = to, g.primary
		g.crowd.address.Store(&g.primary.Address)
		for _, replica := range g.replicas {
			g.follow(replica, g.primary)
		}
	},
}

// replaceCut replaces a primary whose packets don't come to its replicas, or theirs not to it.
func (g *group) replaceCut(random *rand.Rand, outgoing, incoming bool) {
	former := g.primary
	for _, replica := range g.replicas {
		if outgoing {
			g.network.cut(former, replica)
		}
		if incoming {
			g.network.cut(replica, former)
		}
	}
	time.Sleep(time.Duration(random.IntN(1500)) * time.Millisecond) // longer than synchronous-timeout, or not
	g.promote(random)
	time.Sleep(time.Duration(random.IntN(300)) * time.Millisecond)
	g.network.heal()
	time.Sleep(time.Duration(random.IntN(300)) * time.Millisecond)
	g.follow(former, g.primary)
}

// TestNothingAcknowledgedIsLost replaces primaries in all ways, one after the other, and checks
// what clients have seen.
func TestNothingAcknowledgedIsLost(t *testing.T) {
	for _, setUp := range setUps {
		for name, replace := range ways {
			t.Run(setUp.name+name, func(t *testing.T) {
				t.Parallel()
				var net *network
				if strings.HasPrefix(name, "Cut") {
					net = newNetwork(t)
				}
				fewest := 2
				if strings.HasPrefix(name, "Sentinel") { // which takes seconds
					fewest = 1
				}
				run(t, setUp.replicas, net, max(*rounds, fewest), replace)
			})
		}
	}
}

// run replaces primaries in one way while clients work.
func run(t *testing.T, replicas int, net *network, rounds int, replace func(g *group, random *rand.Rand)) {
	s := seed.Of(t)
	random := rand.New(rand.NewPCG(s, 0))
	g := start(t, replicas, net)
	g.settled()
	snapshots := g.snapshots()
	g.crowd.begin(random)
	for range rounds {
		g.crowd.goesOn(t, 30+random.IntN(30))
		replace(g, random)
		g.settled()
	}
	g.crowd.goesOn(t, 30)
	g.crowd.end()
	g.crowd.readAll(t)
	if sent := g.snapshots() - snapshots; sent > 0 {
		t.Logf("%d snapshots were sent", sent)
		if strings.HasSuffix(t.Name(), "Asked") {
			t.Error("FAILOVER costs a snapshot")
		}
	}
	g.check()
}

// snapshots is how many the group's servers have sent.
func (g *group) snapshots() (sum int) {
	g.t.Helper()
	for _, s := range append(slices.Clone(g.replicas), g.primary) {
		_, rest, _ := strings.Cut(g.do(s, "INFO", "stats"), "\r\nsync_full:")
		digits, _, _ := strings.Cut(rest, "\r\n")
		full, err := strconv.Atoi(digits)
		if err != nil {
			g.t.Fatal(err)
		}
		sum += full
	}
	return sum
}

// check holds the history against the model.
func (g *group) check() {
	g.t.Helper()
	known, unknown := 0, 0
	for _, o := range g.crowd.history {
		if o.Output.(output).unknown {
			unknown++
		} else {
			known++
		}
	}
	g.t.Logf("%d operations, %d of unknown outcome", known, unknown)
	switch result, _ := porcupine.CheckOperationsVerbose(model, bounded(g.crowd.history), 2*time.Minute); result {
	case porcupine.Illegal:
		g.t.Error("what clients have seen is not what one server could have shown them")
	case porcupine.Unknown:
		g.t.Error("the history is too long to be checked")
	}
}

// TestModelCanFail: a lost write, a lost element and a torn transaction are found.
func TestModelCanFail(t *testing.T) {
	at := func(call int64, i input, text string) porcupine.Operation {
		return porcupine.Operation{Input: i, Call: call, Output: output{text: text}, Return: call + 1}
	}
	for name, history := range map[string][]porcupine.Operation{
		"lost write":     {at(0, input{set, "r", "v1"}, "OK"), at(10, input{get, "r", ""}, "")},
		"lost element":   {at(0, input{push, "l", "v1"}, "1"), at(10, input{push, "l", "v2"}, "1")},
		"torn":           {at(0, input{setBoth, "p", "v1"}, ""), at(10, input{getBoth, "p", ""}, "torn: v1,")},
		"seen by chance": {{Input: input{set, "r", "v1"}, Call: 0, Output: output{unknown: true}, Return: math.MaxInt64}, at(10, input{get, "r", ""}, "v1"), at(20, input{get, "r", ""}, "")},
		"only counted":   {{Input: input{push, "l", "v1"}, Call: 0, Output: output{unknown: true}, Return: math.MaxInt64}, at(10, input{push, "l", "v2"}, "2"), at(20, input{list, "l", ""}, "v2 ")},
	} {
		if porcupine.CheckOperations(model, bounded(history)) {
			t.Errorf("%s is not found", name)
		}
	}
}
