package failover

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"kedis/redis-tests/launch"
	"kedis/redis-tests/resp"
)

// sentinels are three that watch a group, and authenticate as a user of theirs.
type sentinels []*launch.Server

const (
	sentinelQuorum   = 2
	sentinelPassword = "watch"
)

// watch has Sentinels watch a group, whose servers were started with --sentinel-quorum.
func (g *group) watch() {
	g.t.Helper()
	for _, s := range append(slices.Clone(g.replicas), g.primary) {
		g.do(s, "ACL", "SETUSER", "sentinel", "on", ">"+sentinelPassword, "allchannels", "+@all")
	}
	for range 3 {
		g.sentinels = append(g.sentinels, startSentinel(g.t, g.primary))
	}
}

func startSentinel(t *testing.T, primary *launch.Server) *launch.Server {
	t.Helper()
	directory := t.TempDir()
	file := filepath.Join(directory, "sentinel.conf")
	text := fmt.Sprintf("sentinel monitor it 127.0.0.1 %d %d\nsentinel down-after-milliseconds it 3000\nsentinel failover-timeout it 10000\n"+
		"sentinel auth-user it sentinel\nsentinel auth-pass it %s\n", primary.Port, sentinelQuorum, sentinelPassword)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	server, err := launch.Program{Line: append(launch.MustOracle(t).Line, file, "--sentinel")}.Start(directory)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { launch.End(t, server) })
	return server
}

// knows is what a Sentinel says of the primary.
func (g *group) knows(sentinel *launch.Server) map[string]string {
	g.t.Helper()
	c, err := resp.Dial(sentinel.Address, patience)
	if err != nil {
		g.t.Fatal(err)
	}
	defer c.Close()
	reply, err := c.Do("SENTINEL", "MASTER", "it")
	if err != nil {
		g.t.Fatal(err)
	}
	fields, words := map[string]string{}, reply.Strings()
	for i := 0; i+1 < len(words); i += 2 {
		fields[words[i]] = words[i+1]
	}
	return fields
}

// agreed waits until all Sentinels say something of the primary.
func (g *group) agreed(what string, holds func(primary map[string]string) bool) {
	g.t.Helper()
	for _, s := range g.sentinels {
		for deadline := time.Now().Add(2 * time.Minute); !holds(g.knows(s)); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(deadline) {
				g.t.Fatalf("it never came that Sentinels know %s: %v", what, g.knows(s))
			}
		}
	}
}

// ready waits until Sentinels would exchange the primary.
func (g *group) ready() {
	g.t.Helper()
	if g.sentinels == nil {
		g.watch()
	}
	g.agreed("the replicas and each other", func(primary map[string]string) bool {
		return primary["flags"] == "master" && primary["num-other-sentinels"] == "2" && primary["num-slaves"] == strconv.Itoa(len(g.replicas)) &&
			primary["port"] == strconv.Itoa(g.primary.Port)
	})
}

// elected waits for the primary that Sentinels have chosen; clients go there as soon as the first
// of them says so.
func (g *group) elected() {
	g.t.Helper()
	formerly := strconv.Itoa(g.primary.Port)
	another := func(primary map[string]string) bool { return primary["port"] != formerly }
	first := g.sentinels[0]
	g.agreed("another primary", func(primary map[string]string) bool {
		if another(primary) && first != nil {
			first = nil
			address := "127.0.0.1:" + primary["port"]
			g.crowd.address.Store(&address)
		}
		return another(primary)
	})
	at := slices.IndexFunc(g.replicas, func(s *launch.Server) bool { return s.Address == *g.crowd.address.Load() })
	if at < 0 {
		g.t.Fatalf("Sentinels have chosen %s, which is no replica", *g.crowd.address.Load())
	}
	g.primary, g.replicas[at] = g.replicas[at], g.primary
}

// sentinelFailover has Sentinel exchange a primary that is alive.
func sentinelFailover(g *group, _ *rand.Rand) {
	g.ready()
	c, err := resp.Dial(g.sentinels[0].Address, patience)
	if err != nil {
		g.t.Fatal(err)
	}
	defer c.Close()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		reply, err := c.Do("SENTINEL", "FAILOVER", "it")
		switch {
		case err != nil:
			g.t.Fatal(err)
		case !reply.IsError():
			g.elected()
			return
		case time.Now().After(deadline):
			g.t.Fatalf("Sentinel doesn't take the order: %s", reply)
		}
	}
}

// sentinelFindsDead kills the primary; Sentinels find out, and have it follow when it is back.
func sentinelFindsDead(g *group, _ *rand.Rand) {
	g.ready()
	former := g.primary
	former.Kill()
	g.elected()
	again, err := former.RestartInPlace()
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { launch.End(g.t, again) })
	g.do(again, "ACL", "SETUSER", "sentinel", "on", ">"+sentinelPassword, "allchannels", "+@all")
	g.replace(former, again)
}
