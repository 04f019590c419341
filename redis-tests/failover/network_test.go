package failover

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"kedis/redis-tests/launch"
)

// network is a bridge of this machine, and network namespaces that are connected by it, each with
// one server. A cut is one-way: the sender is given a wrong hardware address for the receiver, so
// that what it sends is lost without a word.
type network struct {
	t       *testing.T
	name    string
	subnet  string
	members int
	cuts    []cut
}

type cut struct{ namespace, address string }

var networks atomic.Int32

// newNetwork skips the test where networks can't be made.
func newNetwork(t *testing.T) *network {
	t.Helper()
	process, number := os.Getpid(), networks.Add(1)
	n := &network{t: t, name: fmt.Sprintf("kf%d-%d", process%100000, number), subnet: fmt.Sprintf("10.%d.%d.", 100+process%100, number)}
	t.Cleanup(func() {
		for member := range n.members {
			_ = exec.Command("ip", "netns", "del", n.namespace(member)).Run()
		}
		_ = exec.Command("ip", "link", "del", n.name).Run()
	})
	for _, line := range []string{"link add " + n.name + " type bridge", "addr add " + n.subnet + "1/24 dev " + n.name, "link set " + n.name + " up"} {
		if output, err := ip(line); err != nil {
			launch.Skip(t, "ip %s: %v %s: cut links aren't tested", line, err, output)
		}
	}
	return n
}

func ip(line string) ([]byte, error) {
	return exec.Command("ip", strings.Fields(line)...).CombinedOutput()
}

func (n *network) must(line string) {
	n.t.Helper()
	if output, err := ip(line); err != nil {
		n.t.Fatalf("ip %s: %v %s", line, err, output)
	}
}

func (n *network) namespace(member int) string { return fmt.Sprintf("%s-%d", n.name, member) }
func (n *network) address(member int) string   { return fmt.Sprintf("%s%d", n.subnet, 2+member) }

// join has a program run in a namespace of its own.
func (n *network) join(p launch.Program) launch.Program {
	n.t.Helper()
	member := n.members
	n.members++
	space, link := n.namespace(member), n.namespace(member)
	n.must("netns add " + space)
	n.must("link add " + link + " master " + n.name + " type veth peer name eth0 netns " + space)
	n.must("link set " + link + " up")
	n.must("-n " + space + " addr add " + n.address(member) + "/24 dev eth0")
	n.must("-n " + space + " link set eth0 up")
	n.must("-n " + space + " link set lo up")
	p.Line, p.Host = slices.Concat([]string{"ip", "netns", "exec", space}, p.Line), n.address(member)
	return p
}

// cut has what one server sends to another be lost.
func (n *network) cut(from, to *launch.Server) {
	n.t.Helper()
	for member := range n.members {
		if n.address(member) == place(from)[0] {
			c := cut{n.namespace(member), place(to)[0]}
			n.must("-n " + c.namespace + " neigh replace " + c.address + " lladdr 02:00:00:00:00:01 nud permanent dev eth0")
			n.cuts = append(n.cuts, c)
		}
	}
}

// heal ends all cuts.
func (n *network) heal() {
	n.t.Helper()
	for _, c := range n.cuts {
		n.must("-n " + c.namespace + " neigh del " + c.address + " dev eth0")
	}
	n.cuts = nil
}
