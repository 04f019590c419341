package execute

import (
	"strings"
	"syscall"
	"testing"
)

// remote is the peer of a client with an address.
type remote struct {
	Nowhere
	address string
}

func (r remote) RemoteAddress() string { return r.address }

func TestDebugIsForThoseWhoMay(t *testing.T) {
	const here, v6, elsewhere = "127.0.0.1:1000", "[::1]:1000", "192.0.2.1:1000"
	for _, c := range []struct {
		option  string
		allowed []string
		refused []string
	}{
		{"no", nil, []string{here, v6, elsewhere}},
		{"local", []string{here, v6}, []string{elsewhere}},
		{"yes", []string{here, v6, elsewhere}, nil},
	} {
		engine, _ := newTestEngine(t)
		if err := engine.Config.SetFlag("enable-debug-command", c.option); err != nil {
			t.Fatal(err)
		}
		client := newTestClient(t, engine)
		ask := func(address string) string {
			client.session.Peer = remote{address: address}
			return client.do("DEBUG", "ERROR", "reached")
		}
		for _, address := range c.allowed {
			if reply := ask(address); reply != "-reached\r\n" {
				t.Errorf("%s: %s got %q", c.option, address, reply)
			}
		}
		for _, address := range c.refused {
			if reply := ask(address); !strings.HasPrefix(reply, "-ERR DEBUG command not allowed. ") {
				t.Errorf("%s: %s got %q", c.option, address, reply)
			}
		}
	}
}

// TestProtectedOptions asks from three places, under each setting of enable-protected-configs. The
// refusal is that of redis-server for its own protected options.
func TestProtectedOptions(t *testing.T) {
	const refusal = "-ERR CONFIG SET failed (possibly related to argument 'checkpoint-dir') - can't set protected config\r\n"
	here, elsewhere := "127.0.0.1:1", "192.0.2.1:1"
	for _, c := range []struct{ option, address, want string }{
		{"no", here, refusal}, {"no", elsewhere, refusal},
		{"local", here, "+OK\r\n"}, {"local", elsewhere, refusal},
		{"yes", here, "+OK\r\n"}, {"yes", elsewhere, "+OK\r\n"},
	} {
		engine, _ := newTestEngine(t)
		if err := engine.Config.SetFlag("enable-protected-configs", c.option); err != nil {
			t.Fatal(err)
		}
		client := newTestClient(t, engine)
		client.session.Peer = remote{address: c.address}
		if reply := client.do("CONFIG", "SET", "timeout", "7", "checkpoint-dir", "/elsewhere"); reply != c.want {
			t.Errorf("%s: %s got %q", c.option, c.address, reply)
		}
		set := c.want != refusal
		if (engine.Config.CheckpointDir.Get() == "/elsewhere") != set || (engine.Config.Timeout.Get() == 7) != set {
			t.Errorf("%s: %s has set something", c.option, c.address)
		}
	}
}

// TestWritesOnAFullDisk asks while the log takes only what doesn't make the data larger.
func TestWritesOnAFullDisk(t *testing.T) {
	const refusal = "-MISCONF Errors writing to the log: no space left on device\r\n"
	engine, log := newTestEngine(t)
	client := newTestClient(t, engine)
	client.do("MSET", "a", "1", "b", "2", "c", "3", "d", "4")
	log.Full = syscall.ENOSPC
	for _, c := range []struct{ request, want string }{
		{"SET a 2", refusal}, {"RPUSH l 1", refusal}, {"GET a", "$1\r\n1\r\n"}, {"DEL a", ":1\r\n"}, {"UNLINK b", ":1\r\n"},
		{"MULTI", "+OK\r\n"}, {"DEL c", "+QUEUED\r\n"}, {"EXEC", "*1\r\n:1\r\n"}, {"FLUSHALL", "+OK\r\n"}, {"DBSIZE", ":0\r\n"},
	} {
		if reply := client.do(strings.Fields(c.request)...); reply != c.want {
			t.Errorf("%s: %q", c.request, reply)
		}
	}
	log.Fail = syscall.ENOSPC
	if reply := client.do("DEL", "a"); reply != refusal {
		t.Errorf("DEL, when the log has no room at all: %q", reply)
	}
}

// TestMonitorKeepsOffKeys: what a monitor may do, and what not, by itself and in a transaction
// (compared with redis-server 7.0).
func TestMonitorKeepsOffKeys(t *testing.T) {
	engine, _ := newTestEngine(t)
	c := newTestClient(t, engine)
	c.session.Become(KindMonitor)
	const refused = "-ERR Replica can't interact with the keyspace\r\n"
	for _, step := range [][2]string{{"PING", "+PONG\r\n"}, {"GET k", refused}, {"PUBLISH c m", refused}, {"WATCH k", "+OK\r\n"}, {"MULTI", "+OK\r\n"},
		{"PING", "+QUEUED\r\n"}, {"SET k v", refused}, {"EXEC", "-EXECABORT Transaction discarded because of previous errors.\r\n"},
		{"MULTI", "+OK\r\n"}, {"PING", "+QUEUED\r\n"}, {"EXEC", "*1\r\n+PONG\r\n"}, {"RESET", "+RESET\r\n"}, {"GET k", "$-1\r\n"}} {
		if reply := c.do(strings.Fields(step[0])...); reply != step[1] {
			t.Errorf("%s: %q, want %q", step[0], reply, step[1])
		}
	}
}
