package commandline

import (
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"kedis/redis-tests/launch"
	"kedis/redis-tests/resp"
)

const errLoading = "LOADING Redis is loading the dataset in memory"

// keysToLoad is how many records the log has that a start applies.
const keysToLoad = 1000

// killed leaves a data directory whose log has to be applied, and returns the digest of its data.
func killed(t *testing.T, directory string) (digest string) {
	t.Helper()
	s := start(t, directory, "--persist-interval", "1d")
	c := s.MustDial(t)
	for i := range keysToLoad {
		ask(t, c, "set", "key"+strconv.Itoa(i), "value")
	}
	digest = ask(t, c, "debug", "digest")
	s.Kill()
	return digest
}

// loadingServer starts a server that would need minutes to load, and connects to it.
func loadingServer(t *testing.T, directory string, options ...string) (*launch.Server, *resp.Connection) {
	t.Helper()
	s, err := program().Begin(directory, append(options, "--key-load-delay", "500000", "--persist-interval", "1d")...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { launch.End(t, s) })
	var c *resp.Connection
	// A start looks whether its port is free, which who connects at that moment may notice.
	waitFor(t, "the server listens", func() bool {
		var err error
		if c, err = resp.Dial(s.Address, time.Minute); err != nil {
			return false
		}
		if _, err = c.Do("ping"); err != nil {
			c.Close()
		}
		return err == nil
	})
	t.Cleanup(func() { c.Close() })
	return s, c
}

// answer returns a reply, errors included.
func answer(t *testing.T, c *resp.Connection, words ...string) string {
	t.Helper()
	reply, err := c.Do(words...)
	if err != nil {
		t.Fatalf("%q: %v", words, err)
	}
	return string(reply.Text)
}

func TestClientsOfALoadingServer(t *testing.T) {
	directory := t.TempDir()
	digest := killed(t, directory)
	s, c := loadingServer(t, directory)
	for _, request := range []string{"ping", "get key1", "set key1 x", "dbsize", "flushall", "save", "replicaof no one",
		"psync ? -1", "debug reload", "debug populate 1000000", "debug change-repl-id"} {
		words := strings.Fields(request)
		if got := answer(t, c, words...); got != errLoading {
			t.Errorf("%s: %s", request, got)
		}
	}
	for field, want := range map[string]string{"loading": "1", "async_loading": "0", "loading_rdb_used_mem": "0"} {
		if got := infoField(t, c, field); got != want {
			t.Errorf("INFO's %s is %s", field, got)
		}
	}
	for _, request := range []string{"select 0", "config get port", "client list", "role", "debug sleep 0", "debug digest", "watch key1"} {
		ask(t, c, strings.Fields(request)...)
	}
	total, loaded := integerField(t, c, "loading_total_bytes"), integerField(t, c, "loading_loaded_bytes")
	if total < keysToLoad*10 || loaded < 0 || loaded > total/2 {
		t.Errorf("%d of %d bytes are loaded", loaded, total)
	}
	if eta := integerField(t, c, "loading_eta_seconds"); eta < 1 {
		t.Errorf("it takes %d seconds more", eta)
	}
	if began := integerField(t, c, "loading_start_time"); began > time.Now().Unix() || began < time.Now().Add(-time.Hour).Unix() {
		t.Errorf("it began at %d", began)
	}
	if percent, err := strconv.ParseFloat(infoField(t, c, "loading_loaded_perc"), 64); err != nil || percent < 0 || percent > 50 {
		t.Errorf("%v percent are loaded (%v)", percent, err)
	}
	ask(t, c, "multi")
	if got := answer(t, c, "get", "key1"); got != errLoading {
		t.Errorf("GET in MULTI: %s", got)
	}
	if got := answer(t, c, "exec"); !strings.HasPrefix(got, "EXECABORT") {
		t.Errorf("EXEC: %s", got)
	}
	ask(t, c, "config", "set", "key-load-delay", "0")
	waitFor(t, "the server has loaded", func() bool { return answer(t, c, "ping") == "PONG" })
	if got := ask(t, c, "debug", "digest"); got != digest {
		t.Errorf("the digest is %s, and was %s", got, digest)
	}
	if got := infoField(t, c, "loading"); got != "0" || strings.Contains(ask(t, c, "info", "persistence"), "loading_") {
		t.Errorf("INFO after loading:\n%s", ask(t, c, "info", "persistence"))
	}
	stop(t, s)
}

func integerField(t *testing.T, c *resp.Connection, name string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(infoField(t, c, name), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestEndWhileLoading ends a server that would load for minutes, and starts it again.
func TestEndWhileLoading(t *testing.T) {
	directory := t.TempDir()
	digest := killed(t, directory)
	for name, end := range map[string]func(s *launch.Server, c *resp.Connection){
		"SIGTERM":  func(s *launch.Server, _ *resp.Connection) { signalTo(t, s.ProcessID(), syscall.SIGTERM) },
		"SIGINT":   func(s *launch.Server, _ *resp.Connection) { signalTo(t, s.ProcessID(), syscall.SIGINT) },
		"SHUTDOWN": func(_ *launch.Server, c *resp.Connection) { _, _ = c.Do("shutdown", "save") }, // the connection ends
		"kill -9":  func(s *launch.Server, _ *resp.Connection) { s.Kill() },
	} {
		s, c := loadingServer(t, directory)
		if got := answer(t, c, "ping"); got != errLoading {
			t.Fatalf("%s: PING: %s", name, got)
		}
		end(s, c)
		waitFor(t, name+" has ended the server", func() bool { return !s.Running() }) // within a minute, where loading takes eight
		if err := s.Shutdown(); err != nil && name != "kill -9" {
			t.Errorf("%s: %v", name, err)
		}
	}
	s := start(t, directory)
	if got := ask(t, s.MustDial(t), "debug", "digest"); got != digest {
		t.Errorf("the digest is %s, and was %s", got, digest)
	}
	stop(t, s)
}

// TestLoadingReplica restarts a replica, which says at once that it is one, and goes on when it has
// loaded.
func TestLoadingReplica(t *testing.T) {
	primary := start(t, t.TempDir())
	p := primary.MustDial(t)
	directory := t.TempDir()
	options := []string{"--replicaof", "127.0.0.1", strconv.Itoa(primary.Port), "--persist-interval", "1d"}
	replica := start(t, directory, options...)
	ask(t, p, "set", "key", "before")
	ask(t, p, "wait", "1", "0")
	for i := range keysToLoad {
		ask(t, p, "set", "key"+strconv.Itoa(i), "value")
	}
	if got := ask(t, p, "wait", "1", "0"); got != "1" {
		t.Fatalf("WAIT: %s", got)
	}
	replica.Kill()
	ask(t, p, "set", "key", "after")
	_, r := loadingServer(t, directory, options...)
	if role, link := infoField(t, r, "role"), infoField(t, r, "master_link_status"); role != "slave" || link != "down" {
		t.Errorf("a replica that is loading says that it is a %s, and its link %s", role, link)
	}
	if got := answer(t, r, "get", "key"); got != errLoading {
		t.Errorf("GET: %s", got)
	}
	ask(t, r, "config", "set", "key-load-delay", "0")
	if got := ask(t, p, "wait", "1", "0"); got != "1" {
		t.Errorf("WAIT: %s", got)
	}
	if got := ask(t, r, "get", "key"); got != "after" {
		t.Errorf("the key holds %q", got)
	}
	if full := infoField(t, p, "sync_full"); full != "1" {
		t.Errorf("%s full synchronizations", full)
	}
}
