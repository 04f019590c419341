package server

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"kedis/binlog"
	"kedis/internal/config"
	"kedis/internal/psync"
	"kedis/internal/resp"
	"kedis/replication"
	"kedis/server/command"
	"kedis/server/datadir"
)

// The steps of a full synchronization at which a steppingHost stops. During the last two of them
// clients are served, and the role can be changed.
const (
	stepNewLog       = "before the log is made"
	stepLogMade      = "when the log is made"
	stepExcluded     = "when clients are kept out"
	stepExchanged    = "when the data is exchanged"
	stepLogAdopted   = "when the log is exchanged, too"
	stepReadmitted   = "when clients are let in again"
	stepFormerLog    = "before the former log is removed"
	stepFormerIsGone = "when the former log is removed"
)

// steppingHost calls at with each step of the first full synchronization, on the goroutine that
// takes it.
type steppingHost struct {
	*datadir.Host
	at     func(step string)
	loaded atomic.Bool // the snapshot was taken in
}

func (h *steppingHost) NewLog(history binlog.History, at int64, database int) (*binlog.Log, uint64, error) {
	h.at(stepNewLog)
	log, directory, err := h.Host.NewLog(history, at, database)
	h.loaded.Store(true)
	h.at(stepLogMade)
	return log, directory, err
}

func (h *steppingHost) Exclude(ctx context.Context) func() {
	admit := h.Host.Exclude(ctx)
	if !h.loaded.CompareAndSwap(true, false) {
		return admit
	}
	h.at(stepExcluded)
	return func() {
		admit()
		h.at(stepReadmitted)
	}
}

func (h *steppingHost) AdoptLog(log *binlog.Log) {
	h.at(stepExchanged)
	h.Host.AdoptLog(log)
	h.at(stepLogAdopted)
}

func (h *steppingHost) RemoveFormerLogs() error {
	h.at(stepFormerLog)
	err := h.Host.RemoveFormerLogs()
	h.at(stepFormerIsGone)
	return err
}

// stringIn is a key "key" in a snapshot, with a value of one byte.
func stringIn(value string) string {
	const noChecksum = "\x00\x00\x00\x00\x00\x00\x00\x00"
	return "REDIS0010\xfe\x00\x00\x03key\x01" + value + "\xff" + noChecksum
}

// primaryID is the history of primaryWith.
var primaryID = strings.Repeat("b", 40)

// primaryWith is a primary with a snapshot at a position, behind which nothing comes.
func primaryWith(t *testing.T, snapshot string, position int64) (port int) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var conversations sync.WaitGroup
	conversations.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			conversations.Go(func() { answerReplica(conn, snapshot, position) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		conversations.Wait()
	})
	return listener.Addr().(*net.TCPAddr).Port
}

func answerReplica(conn net.Conn, snapshot string, position int64) {
	defer conn.Close()
	requests := resp.NewReader(bufio.NewReader(conn), 1<<20)
	for {
		args, _, err := requests.ReadRequest()
		if err != nil {
			return
		}
		answer := "+OK\r\n"
		switch {
		case string(args[0]) == "PSYNC" && string(args[1]) == primaryID:
			answer = "+CONTINUE\r\n"
		case string(args[0]) == "PSYNC":
			answer = fmt.Sprintf("+FULLRESYNC %s %d\r\n$%d\r\n%s", primaryID, position, len(snapshot), snapshot)
		case len(args) > 1 && string(args[1]) == "ACK":
			answer = ""
		}
		if _, err := io.WriteString(conn, answer); err != nil {
			return
		}
	}
}

// synchronizing is a server with key = 0 that takes key = 1 from a primary, and has come to a step
// of that.
type synchronizing struct {
	*running
	node *replication.Node
	goOn func()
}

// startSynchronizing starts one, and returns when it has come to a step. It waits there until goOn
// is called.
func startSynchronizing(t *testing.T, to string) *synchronizing {
	t.Helper()
	s := &synchronizing{}
	reached, released := make(chan struct{}), make(chan struct{})
	s.goOn = sync.OnceFunc(func() { close(released) })
	at := func(step string) {
		if step == to {
			close(reached)
			<-released
		}
	}
	s.running = startPrepared(t, func(r *running) {
		s.node = replication.New(replication.Options{Store: r.data.Store, Host: &steppingHost{Host: &datadir.Host{Directory: r.data, Engine: r.engine}, at: at},
			Config: r.config, Directory: r.config.Dir.Get(), Version: "test", Logger: hclog.NewNullLogger()})
		r.engine.SetReplication(s.node)
		if err := s.node.TakeRole(); err != nil {
			t.Fatal(err)
		}
	})
	s.node.Start(true)
	s.dial().want("+OK", "SET", "key", "0")
	port := primaryWith(t, stringIn("1"), s.data.Log().Position()) // so that either log has the position
	t.Cleanup(func() {
		if !s.node.Stop(patience) {
			t.Error("replication goes on")
		}
	})
	t.Cleanup(s.goOn)
	if _, err := s.node.Follow("127.0.0.1", port); err != nil {
		t.Fatal(err)
	}
	select {
	case <-reached:
	case <-time.After(patience):
		t.Fatalf("it was never %s", to)
	}
	return s
}

// linked waits until the stream of the primary is taken.
func (s *synchronizing) linked() {
	s.t.Helper()
	c := s.dial()
	eventually(s.t, "the link is up", func() bool { return c.field("master_link_status") == "up" })
}

// killed is a copy of the data directory as a kill -9 would leave it now.
func (s *synchronizing) killed() string {
	s.t.Helper()
	var failed error
	for range 10 { // a file may go while it is copied
		copied := filepath.Join(s.t.TempDir(), "data")
		if failed = os.CopyFS(copied, os.DirFS(s.config.Dir.Get())); failed == nil {
			return copied
		}
	}
	s.t.Fatal(failed)
	return ""
}

// valueIn starts a data directory, and returns the value of a key.
func valueIn(t *testing.T, directory, key string) string {
	t.Helper()
	c := config.New()
	if err := c.SetFlag("dir", directory); err != nil {
		t.Fatal(err)
	}
	data, err := datadir.Open(c, hclog.NewNullLogger())
	if err != nil {
		t.Fatalf("the next start: %v", err)
	}
	defer func() {
		if err := data.Close(); err != nil {
			t.Error(err)
		}
	}()
	engine := command.NewEngine(data.Store, c, data, hclog.NewNullLogger(), 1)
	if err := data.Recover(t.Context(), engine); err != nil {
		t.Fatalf("the next start: %v", err)
	}
	view := data.Store.View()
	defer view.Release()
	txn := data.Store.NewTxn()
	txn.ReadFrom(view)
	k, err := txn.DB(0).Lookup([]byte(key))
	if err != nil {
		t.Fatal(err)
	}
	return string(k.Value)
}

// TestKilledWhileAdopting kills a replica at each step of a full synchronization: it has what it
// had, or what came. From the exchange on, as soon as it lets somebody do so, it is promoted and
// written to before: what it has acknowledged is there.
func TestKilledWhileAdopting(t *testing.T) {
	for _, killedAt := range []string{stepNewLog, stepLogMade, stepExcluded, stepExchanged, stepLogAdopted, stepReadmitted, stepFormerLog, stepFormerIsGone} {
		t.Run(killedAt, func(t *testing.T) {
			s := startSynchronizing(t, killedAt)
			promoted := killedAt == stepReadmitted || killedAt == stepFormerLog || killedAt == stepFormerIsGone
			if promoted {
				if err := s.node.Promote(); err != nil {
					t.Fatal(err)
				}
				s.dial().want("+OK", "SET", "own", "2")
			}
			copied := s.killed()
			switch got := valueIn(t, copied, "key"); {
			case promoted && got != "1", got != "0" && got != "1":
				t.Errorf("key = %q", got)
			}
			if got := valueIn(t, copied, "own"); promoted && got != "2" {
				t.Errorf("a write was acknowledged, and is lost: own = %q", got)
			}
			s.goOn()
			if !promoted {
				s.linked()
				s.dial().want(`"1"`, "GET", "key")
			}
		})
	}
}

// TestPromotionRemovesTheFormerLog promotes a replica before its link has brought to the disk which
// log the data belongs to.
func TestPromotionRemovesTheFormerLog(t *testing.T) {
	s := startSynchronizing(t, stepReadmitted)
	if err := s.node.Promote(); err != nil {
		t.Fatal(err)
	}
	s.goOn()
	if logs, err := os.ReadDir(filepath.Join(s.config.Dir.Get(), "binlog")); err != nil || len(logs) != 1 || logs[0].Name() != "2" {
		t.Errorf("there are the logs %v, %v", logs, err)
	}
}

// TestFeedThatBeginsInTheExchange has a replica ask for all data when they are exchanged and the
// log is not: it isn't told the former log's history, of which the new data is not.
func TestFeedThatBeginsInTheExchange(t *testing.T) {
	s := startSynchronizing(t, stepExchanged)
	here, there := net.Pipe()
	lines := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(there).ReadString('\n')
		lines <- line
		there.Close()
	}()
	served := make(chan struct{})
	go func() {
		defer close(served)
		s.node.Serve(here, psync.Replica{Address: "replica", EOF: true, Resumes: true, ID: "?", From: -1, Heard: func() {}})
	}()
	select {
	case line := <-lines:
		lines <- line
	case <-time.After(100 * time.Millisecond): // it may wait
	}
	s.goOn()
	<-served
	if line := <-lines; line != "" && !strings.HasPrefix(line, "+FULLRESYNC "+primaryID) {
		t.Errorf("the replica is told %q", line)
	}
	s.linked()
}
