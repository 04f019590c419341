package replication

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"kedis/redis-tests/launch"
)

// watched is a primary with two replicas, and the Sentinels that watch them.
type watched struct {
	t         *testing.T
	servers   []*launch.Server
	sentinels []*launch.Server
}

// watch starts three servers, the first of them the primary, and so many Sentinels, which
// authenticate as a user of theirs.
func watch(t *testing.T, program launch.Program, sentinels int, options ...string) *watched {
	t.Helper()
	w := &watched{t: t}
	for range 3 {
		directory := t.TempDir()
		file := filepath.Join(directory, "kedis.conf")
		write(t, file, "replica-priority 100\nuser sentinel on >watch &* +@all\n")
		configured := program
		configured.Line = append(slices.Clone(program.Line), file)
		server, err := configured.Start(directory, options...)
		if err != nil {
			t.Fatal(err)
		}
		w.servers = append(w.servers, server)
		t.Cleanup(func() { launch.End(t, server) })
	}
	newWriter(t, w.servers[0], seeded(t)).write(t, 500)
	for _, replica := range w.servers[1:] {
		follow(t, replica, w.servers[0].Port)
		converge(t, w.servers[0], replica)
	}
	for range sentinels {
		w.sentinels = append(w.sentinels, startSentinel(t, w.servers[0].Port, sentinels/2+1))
	}
	for _, s := range w.sentinels {
		w.eventually("a Sentinel knows the replicas and the other Sentinels", func() bool {
			primary := w.primary(s)
			return primary["num-slaves"] == "2" && primary["num-other-sentinels"] == strconv.Itoa(sentinels-1) && primary["flags"] == "master"
		})
	}
	return w
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// startSentinel has it take a server for dead that is silent for three seconds: busy machines have
// fsyncs of one second.
func startSentinel(t *testing.T, primary, quorum int) *launch.Server {
	t.Helper()
	directory := t.TempDir()
	file := filepath.Join(directory, "sentinel.conf")
	write(t, file, fmt.Sprintf("sentinel monitor it 127.0.0.1 %d %d\nsentinel down-after-milliseconds it 3000\n"+
		"sentinel failover-timeout it 10000\nsentinel parallel-syncs it 1\nsentinel auth-user it sentinel\nsentinel auth-pass it watch\n", primary, quorum))
	redis := launch.MustOracle(t)
	server, err := launch.Program{Line: append(redis.Line, file, "--sentinel")}.Start(directory)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { launch.End(t, server) })
	return server
}

func (w *watched) eventually(what string, holds func() bool) {
	w.t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			for _, s := range w.sentinels {
				w.t.Logf("the Sentinel on port %d knows the primary %v", s.Port, w.primary(s))
			}
			w.t.Fatalf("after a minute it doesn't hold that %s", what)
		}
	}
}

// primary is what a Sentinel knows of the primary.
func (w *watched) primary(sentinel *launch.Server) map[string]string {
	w.t.Helper()
	c, err := sentinel.Dial()
	if err != nil {
		w.t.Fatal(err)
	}
	defer c.Close()
	words := do(w.t, c, "SENTINEL", "MASTER", "it").Strings()
	fields := map[string]string{}
	for i := 0; i+1 < len(words); i += 2 {
		fields[words[i]] = words[i+1]
	}
	return fields
}

// follows reports whether a Sentinel has seen a server as a replica of the primary. It leaves the
// role of the server alone from then on.
func (w *watched) follows(sentinel, server, primary *launch.Server) bool {
	w.t.Helper()
	c, err := sentinel.Dial()
	if err != nil {
		w.t.Fatal(err)
	}
	defer c.Close()
	for _, replica := range do(w.t, c, "SENTINEL", "REPLICAS", "it").Elements {
		words := replica.Strings()
		has := func(field, value string) bool {
			at := slices.Index(words, field)
			return at >= 0 && words[at+1] == value
		}
		if has("port", strconv.Itoa(server.Port)) {
			return has("role-reported", "slave") && has("master-port", strconv.Itoa(primary.Port))
		}
	}
	return false
}

// follower tells whether a server is a replica of the one on a port. A Sentinel that has given it
// another role closes the connections of its clients; who asks then, asks again.
func (w *watched) follower(s *launch.Server, port string) bool {
	w.t.Helper()
	c, err := s.Dial()
	if err != nil {
		w.t.Fatal(err)
	}
	defer c.Close()
	reply, err := c.Do("INFO", "replication")
	return err == nil && strings.Contains(string(reply.Text), "\r\nmaster_port:"+port+"\r\n")
}

// elected waits until all Sentinels and servers agree on another primary than a former one.
func (w *watched) elected(former *launch.Server) (primary *launch.Server) {
	w.t.Helper()
	w.eventually("the Sentinels have another primary", func() bool {
		for _, s := range w.sentinels {
			if p := w.primary(s); p["port"] == strconv.Itoa(former.Port) || p["flags"] != "master" {
				return false
			}
		}
		return true
	})
	port := w.primary(w.sentinels[0])["port"]
	for _, s := range w.servers {
		if strconv.Itoa(s.Port) == port {
			primary = s
		}
	}
	if primary == nil {
		w.t.Fatalf("the Sentinels' primary is on port %s", port)
	}
	if role := info(w.t, primary, "role"); role != "master" {
		w.t.Fatalf("the Sentinels' primary is a %s", role)
	}
	for _, s := range w.servers {
		if s != primary && s.Running() {
			w.eventually("the others follow it", func() bool { return w.follower(s, port) })
			w.noticed(s, primary)
		}
	}
	return primary
}

// noticed waits until all Sentinels know that a server follows the primary. One that doesn't gives
// it its role once more, and closes the connections of its clients; if it is promoted then, it is
// taken for a primary that came back, and made a replica again.
func (w *watched) noticed(s, primary *launch.Server) {
	w.t.Helper()
	for _, sentinel := range w.sentinels {
		w.eventually("the Sentinels know the replicas", func() bool { return w.follows(sentinel, s, primary) })
	}
}

// configured waits until a server's configuration file names its primary; 0 is none.
func (w *watched) configured(s *launch.Server, port int) {
	w.t.Helper()
	want := ""
	if port != 0 {
		want = fmt.Sprintf("replicaof 127.0.0.1 %d", port)
	}
	w.eventually("the role stands in the configuration file", func() bool {
		text, err := os.ReadFile(filepath.Join(s.Directory, "kedis.conf"))
		if err != nil {
			w.t.Fatal(err)
		}
		got := ""
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, "replicaof") {
				got = strings.TrimSpace(line)
			}
		}
		return got == want
	})
}

// TestSentinel kills a primary: Sentinel promotes one of its replicas and sends the other there;
// neither takes all data. The killed one comes back as a replica. Then roles change because
// somebody asks for it.
func TestSentinel(t *testing.T) {
	t.Parallel() // most of it is waiting for Sentinels
	sentinels := 3
	if testing.Short() {
		sentinels = 1
	}
	w := watch(t, launch.MustUnderTest(t), sentinels)
	first := w.servers[0]
	newWriter(t, first, seeded(t)).write(t, 500)
	c := first.MustDial(t)
	do(t, c, "SET", "acknowledged", "1")
	do(t, c, "WAIT", "2", "0")
	first.Kill()
	second := w.elected(first)
	if reply := do(t, second.MustDial(t), "GET", "acknowledged"); string(reply.Text) != "1" {
		t.Fatalf("the last write is lost: %q", reply.Text)
	}
	newWriter(t, second, seeded(t)).write(t, 500)
	for _, s := range w.servers[1:] {
		if s != second {
			converge(t, second, s)
			equal(t, second, s)
			w.configured(s, second.Port)
		}
	}
	w.configured(second, 0)
	// On a machine with too much to do Sentinels vote again before the first failover is through.
	// The first one promoted then has a history that the other doesn't share.
	if w.primary(w.sentinels[0])["config-epoch"] == "1" && strings.Contains(second.Output(), "a snapshot was sent") {
		t.Fatalf("a replica of the promoted one had to take all data")
	}
	if testing.Short() {
		return
	}

	first, err := first.RestartInPlace()
	if err != nil {
		t.Fatal(err)
	}
	defer launch.End(t, first)
	w.servers[0] = first
	w.eventually("the former primary follows", func() bool { return w.follower(first, strconv.Itoa(second.Port)) })
	w.noticed(first, second)
	newWriter(t, second, seeded(t)).write(t, 500)
	converge(t, second, first)
	equal(t, second, first)
	w.configured(first, second.Port)

	w.eventually("Sentinel takes the order", func() bool {
		reply, err := w.sentinels[0].MustDial(t).Do("SENTINEL", "FAILOVER", "it")
		if err != nil {
			t.Fatal(err)
		}
		return !reply.IsError()
	})
	third := w.elected(second)
	newWriter(t, third, seeded(t)).write(t, 500)
	for _, s := range w.servers {
		if s != third {
			converge(t, third, s)
			equal(t, third, s)
		}
	}
}

// TestSentinelWithIdleData has nobody write: what Sentinels publish on each server, and what
// primaries say to their replicas, is all that servers have of their own. No failover costs a
// snapshot then.
func TestSentinelWithIdleData(t *testing.T) {
	t.Parallel() // most of it is waiting for Sentinels
	sentinels := 3
	if testing.Short() {
		sentinels = 1
	}
	w := watch(t, launch.MustUnderTest(t), sentinels)
	first := w.servers[0]
	for _, s := range w.servers[1:] {
		converge(t, first, s)
	}
	first.Kill()
	second := w.elected(first)
	first, err := first.RestartInPlace()
	if err != nil {
		t.Fatal(err)
	}
	defer launch.End(t, first)
	w.servers[0] = first
	w.followed(second)
	if testing.Short() {
		return
	}
	w.eventually("Sentinel takes the order", func() bool {
		reply, err := w.sentinels[0].MustDial(t).Do("SENTINEL", "FAILOVER", "it")
		if err != nil {
			t.Fatal(err)
		}
		return !reply.IsError()
	})
	w.followed(w.elected(second))
}

// followed waits until all follow a primary, and finds out whether somebody had to take all data.
func (w *watched) followed(primary *launch.Server) {
	w.t.Helper()
	for _, s := range w.servers {
		if s != primary {
			w.eventually("it follows the primary", func() bool { return w.follower(s, strconv.Itoa(primary.Port)) })
			w.noticed(s, primary)
			converge(w.t, primary, s)
			equal(w.t, primary, s)
		}
	}
	for _, s := range w.servers {
		if full, _ := syncs(w.t, s); full > 0 {
			w.t.Errorf("the server on port %d has sent all data %d times", s.Port, full)
		}
	}
}
