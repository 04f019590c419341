package replication

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"kedis/binlog"
	"kedis/internal/config"
	"kedis/internal/metrics"
	"kedis/internal/psync"
	"kedis/internal/resp"
	"kedis/storage"
	"kedis/storage/engine"
)

const (
	idA = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	idB = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
	idC = "cccccccccccccccccccccccccccccccccccccccc"
)

func TestSharedHistory(t *testing.T) {
	h := binlog.History{ID: idC, Ancestors: []binlog.Ancestor{{ID: idA, Left: 10}, {ID: idB, Left: 20}}}
	for _, c := range []struct {
		id       string
		position int64
		want     bool
	}{
		{idC, 5, true}, {idC, 1000, true},
		{idB, 20, true}, {idB, 21, false},
		{idA, 10, true}, {idA, 11, false},
		{"?", 0, false},
	} {
		if got := shared(h, c.id, c.position); got != c.want {
			t.Errorf("%.1s at %d: %v", c.id, c.position, got)
		}
	}
}

// TestPollingOutlivesADeadline reads without waiting when the time is over within which something
// had to come, as it is while a primary never pauses.
func TestPollingOutlivesADeadline(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	primary, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer primary.Close()
	conn, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	socket := &polledSocket{Conn: conn, link: &link{}, raw: raw, poll: true}
	s := &source{link: socket.link, conn: socket, socket: socket}
	if err := conn.SetReadDeadline(time.Now().Add(-time.Second)); err != nil {
		t.Fatal(err)
	}
	if n, err := s.Read(make([]byte, 10)); n != 0 || err != errIdle {
		t.Fatalf("%d bytes, %v", n, err)
	}
}

// TestStates finds states that nothing leads to, and such that do not lead back to the first.
func TestStates(t *testing.T) {
	reached := map[State]bool{Connect: true}
	for from, all := range next {
		if !slices.Contains(all, Connect) {
			t.Errorf("%d doesn't lead back to Connect", from)
		}
		for _, to := range all {
			reached[to] = true
		}
	}
	for s := Connect; s <= Connected; s++ {
		if !reached[s] || strings.HasPrefix(s.String(), "State(") {
			t.Errorf("state %d: reached %v, named %s", s, reached[s], s)
		}
	}
}

func TestNoWayBetweenStates(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a move that isn't in the table was made")
		}
	}()
	l := new(link)
	l.set(Connected)
}

func node(t *testing.T, directory, configured string) *Node {
	t.Helper()
	c := config.New()
	if err := c.SetFlag("replicaof", configured); err != nil {
		t.Fatal(err)
	}
	return New(Options{Config: c, Directory: directory, Logger: hclog.NewNullLogger()})
}

func roleOf(t *testing.T, directory, configured string) string {
	t.Helper()
	n := node(t, directory, configured)
	to, err := n.loadRole()
	if err != nil {
		t.Fatal(err)
	}
	if shown := n.Config.ReplicaOf.String(); (to == nil) != (shown == "") {
		t.Fatalf("the role is %v, and the configuration says %q", to, shown)
	}
	if to == nil {
		return "primary"
	}
	return to.String()
}

func TestRoleIsRemembered(t *testing.T) {
	directory := t.TempDir()
	if got := roleOf(t, directory, ""); got != "primary" {
		t.Fatal(got)
	}
	if got := roleOf(t, directory, "::1 7000"); got != "[::1]:7000" {
		t.Fatal(got)
	}
	n := node(t, directory, "")
	if _, err := n.loadRole(); err != nil {
		t.Fatal(err)
	}
	if err := n.saveRole(&target{"example", 7001}); err != nil {
		t.Fatal(err)
	}
	if got := roleOf(t, directory, ""); got != "example:7001" {
		t.Errorf("after REPLICAOF: %s", got)
	}
	if got := roleOf(t, directory, "other 7002"); got != "other:7002" {
		t.Errorf("after the configuration was changed: %s", got)
	}
	n = node(t, directory, "other 7002")
	if _, err := n.loadRole(); err != nil {
		t.Fatal(err)
	}
	if err := n.saveRole(nil); err != nil {
		t.Fatal(err)
	}
	if got := roleOf(t, directory, "other 7002"); got != "primary" {
		t.Errorf("after REPLICAOF NO ONE: %s", got)
	}
	for _, to := range []target{{"two words", 7003}, {"a\vb", 7003}, {"", 7003}, {"example", 70000}, {"example", -1}} {
		if err := n.saveRole(&to); err == nil {
			t.Errorf("%q is remembered", to)
		}
	}
	if got := roleOf(t, directory, "other 7002"); got != "primary" {
		t.Errorf("after roles that can't be: %s", got)
	}
}

// TestKilledWhileTheRoleWasSaved: a start removes what is left of files that were being written.
func TestKilledWhileTheRoleWasSaved(t *testing.T) {
	directory := t.TempDir()
	for _, name := range []string{"role.17.tmp", "sentinel-epoch.17.tmp", "other.17.tmp"} {
		if err := os.WriteFile(filepath.Join(directory, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := node(t, directory, "").TakeRole(); err != nil {
		t.Fatal(err)
	}
	if left, err := filepath.Glob(filepath.Join(directory, "*")); err != nil || len(left) != 1 || filepath.Base(left[0]) != "other.17.tmp" {
		t.Errorf("left are %q, %v", left, err)
	}
}

// slowHost is one in which a link that begins waits.
type slowHost struct {
	Host
	began chan struct{}
	admit chan struct{}
}

func (h *slowHost) SetReplica(bool, bool) {}
func (h *slowHost) ChangePrimary()        {}
func (h *slowHost) RefuseWrites(error)    {}
func (h *slowHost) Exclude(context.Context) func() {
	h.began <- struct{}{}
	<-h.admit
	return func() {}
}

// loggedHost is one that has a log.
type loggedHost struct {
	Host
	log *binlog.Log
}

func (h *loggedHost) Log() *binlog.Log { return h.log }

func (h *loggedHost) ForgetParted() error { return nil }

// TestReplicasAskAnewWhenABranchFails: the log may be in the new history already, when what failed
// was its sync. A replica that is fed on would take what follows for the former history's.
func TestReplicasAskAnewWhenABranchFails(t *testing.T) {
	for name, branch := range map[string]func(n *Node) error{
		"the primary's history": func(n *Node) error { return (&link{node: n}).goOn(idB, 0) },
		"a new history":         (*Node).BeginHistory,
	} {
		log, err := binlog.Create(binlog.Options{Directory: t.TempDir()}, binlog.History{ID: idA}, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
		n := node(t, t.TempDir(), "")
		n.Store, n.Host = &storage.Store{Store: new(engine.Store)}, &loggedHost{log: log}
		conn, replica := net.Pipe()
		defer replica.Close()
		f := &feed{node: n, conn: conn, cancel: func() {}}
		n.feeds[f] = struct{}{}
		if err := branch(n); !errors.Is(err, binlog.ErrClosed) {
			t.Errorf("%s in a log that is closed: %v", name, err)
		}
		if !f.ending.Load() {
			t.Errorf("%s: the replica is fed on", name)
		}
	}
}

// TestReadersPassByWhoWaitsForTheDisk asks what reactors ask while a role changes: that may take as
// long as the disk does.
func TestReadersPassByWhoWaitsForTheDisk(t *testing.T) {
	log, err := binlog.Create(binlog.Options{Directory: t.TempDir()}, binlog.History{ID: idA}, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	n := node(t, t.TempDir(), "")
	n.Host = &loggedHost{log: log}
	n.roles.Lock()
	defer n.roles.Unlock()
	answered := make(chan error)
	go func() {
		n.Role(resp.NewWriter(2))
		n.Info(&metrics.Fields{})
		n.Acknowledged(0)
		answered <- n.Sendable()
	}()
	select {
	case err := <-answered:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("a reactor would wait")
	}
	if err := log.Close(); err != nil {
		t.Error(err)
	}
}

// TestLag: a replica that doesn't get the stream yet has no lag. A Redis says nothing while it
// takes a snapshot.
func TestLag(t *testing.T) {
	log, err := binlog.Create(binlog.Options{Directory: t.TempDir()}, binlog.History{ID: idA}, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	n := node(t, t.TempDir(), "")
	n.Host = &loggedHost{log: log}
	f := &feed{node: n, client: psync.Replica{Address: "127.0.0.1", Port: 7000}}
	n.feeds[f] = struct{}{}
	f.heard.Store(time.Now().Add(-time.Hour).UnixMilli())
	for state, want := range map[feedState]string{
		feedBegins: "state=wait_bgsave,offset=0,lag=0\r\n", feedSnapshot: "state=send_bulk,offset=0,lag=0\r\n",
		feedAwaitsAck: "state=send_bulk,offset=0,lag=0\r\n", feedOnline: "state=online,offset=0,lag=36",
	} {
		f.set(state)
		info := metrics.Info{{Name: "Replication", Write: n.Info}}.Append(nil)
		if !bytes.Contains(info, []byte("slave0:ip=127.0.0.1,port=7000,"+want)) {
			t.Errorf("not %s in %s", want, info)
		}
	}
}

// TestOneLinkAtATime follows, is a primary for a moment and follows again, while the first link has
// not ended: two would make and remove the same log.
func TestOneLinkAtATime(t *testing.T) {
	n := node(t, t.TempDir(), "")
	h := &slowHost{began: make(chan struct{}), admit: make(chan struct{})}
	n.Host = h
	close(n.recovered) // as Start does
	n.roles.Lock()
	n.follow(target{"127.0.0.1", 1})
	n.roles.Unlock()
	<-h.began
	n.roles.Lock()
	n.leaveFor(nil)
	n.follow(target{"127.0.0.1", 2})
	n.roles.Unlock()
	select {
	case <-h.began:
		t.Error("a link begins beside another one")
	case <-time.After(50 * time.Millisecond):
	}
	n.roles.Lock()
	n.leaveFor(nil)
	n.roles.Unlock()
	close(h.admit)
	go func() {
		for range h.began {
		}
	}()
	n.running.Wait()
	close(h.began)
}

// TestNoLinkBehindTheStop follows when the server stops. The role is remembered.
func TestNoLinkBehindTheStop(t *testing.T) {
	directory := t.TempDir()
	n := node(t, directory, "")
	h := &slowHost{began: make(chan struct{}, 1)}
	n.Host = h
	if err := n.TakeRole(); err != nil {
		t.Fatal(err)
	}
	close(n.recovered) // as Start does
	if !n.Stop(time.Minute) {
		t.Fatal("something goes on")
	}
	if changed, err := n.Follow("127.0.0.1", 1); err != nil || !changed {
		t.Fatalf("%v, %v", changed, err)
	}
	if n.link.ctx.Err() == nil {
		t.Error("nobody ends the link")
	}
	<-n.link.done
	if got := roleOf(t, directory, ""); got != "127.0.0.1:1" {
		t.Errorf("the role is %s", got)
	}
}

// TestNoLinkBeforeRecovery takes up the role of a replica, whose data is never recovered.
func TestNoLinkBeforeRecovery(t *testing.T) {
	n := node(t, t.TempDir(), "127.0.0.1 1")
	h := &slowHost{began: make(chan struct{}, 1), admit: make(chan struct{})}
	n.Host = h
	if err := n.TakeRole(); err != nil {
		t.Fatal(err)
	}
	if n.link == nil {
		t.Error("the node says that it is a primary")
	}
	select {
	case <-h.began:
		t.Error("a link began before recovery")
	case <-time.After(50 * time.Millisecond):
	}
	n.roles.Lock()
	n.leaveFor(nil)
	n.roles.Unlock()
	close(h.admit)
	n.running.Wait()
}

// TestStopOnADiskThatDoesNotAnswer: who holds the roles waits for the disk, and so does what runs.
func TestStopOnADiskThatDoesNotAnswer(t *testing.T) {
	for name, begin := range map[string]func(n *Node, answer <-chan struct{}){
		"roles": func(n *Node, answer <-chan struct{}) {
			n.roles.Lock()
			go func() {
				<-answer
				n.roles.Unlock()
			}()
		},
		"running": func(n *Node, answer <-chan struct{}) { n.running.Go(func() { <-answer }) },
	} {
		n, answer := node(t, t.TempDir(), ""), make(chan struct{})
		begin(n, answer)
		if n.Stop(time.Millisecond) {
			t.Errorf("%s: the stop says that nothing goes on", name)
		}
		close(answer)
		<-n.stop
		n.running.Wait()
	}
}
