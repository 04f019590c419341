package migrate

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"kedis/redis-tests/launch"
	"kedis/redis-tests/resp"
)

// TestImportProlonged imports an AOF in which lives were prolonged, after the time at which they
// would have ended without.
func TestImportProlonged(t *testing.T) {
	s := launch.ForTest(t, launch.MustOracle(t), "--appendonly", "yes")
	c := s.MustDial(t)
	source := &source{server: s, c: c}
	for _, when := range []string{"early", "preamble"} { // only commands, or an RDB file before them
		call(t, c, "SET", "prolonged:"+when, "x", "PX", "5000")
		call(t, c, "SET", "persisted:"+when, "x", "PX", "5000")
		call(t, c, "SET", "ends:"+when, "x", "PX", "5000")
		call(t, c, "INCR", "counter:"+when)
		call(t, c, "PEXPIRE", "counter:"+when, "5000")
		if when == "preamble" {
			source.rewrite(t)
		}
		call(t, c, "INCR", "counter:"+when)
		call(t, c, "PEXPIRE", "prolonged:"+when, "1000000")
		call(t, c, "PEXPIRE", "counter:"+when, "1000000")
		call(t, c, "PERSIST", "persisted:"+when)
	}
	for call(t, c, "EXISTS", "ends:early", "ends:preamble") != ":0" {
		time.Sleep(20 * time.Millisecond)
	}
	incremental, err := filepath.Glob(filepath.Join(s.Directory, "appendonlydir", "*.aof"))
	if err != nil || len(incremental) != 1 {
		t.Fatalf("%q, %v", incremental, err)
	}
	want := digest(t, c)
	for _, program := range []launch.Program{launch.MustUnderTest(t), launch.MustOracle(t)} {
		target := launch.ForTest(t, program)
		d := target.MustDial(t)
		succeeds(t, "import", filepath.Join(s.Directory, "appendonlydir"), "--to", target.Address)
		for deadline := time.Now().Add(10 * time.Second); digest(t, d) != want; time.Sleep(20 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("the digests differ")
			}
		}
		for _, key := range []string{"prolonged:early", "prolonged:preamble", "counter:preamble"} {
			reply, err := d.Must("PTTL", key)
			if ttl, ok := reply.Integer(); err != nil || !ok || ttl < 900_000 || ttl > 1_000_000 {
				t.Errorf("%s lives for another %s ms (%v)", key, reply, err)
			}
		}
	}
}

// TestImportConditions imports an AOF in which expiries were given because they come later, or
// earlier, than others.
func TestImportConditions(t *testing.T) {
	s := launch.ForTest(t, launch.MustOracle(t), "--appendonly", "yes")
	c := s.MustDial(t)
	call(t, c, "SET", "later", "x", "EX", "600")
	call(t, c, "EXPIRE", "later", "63072000", "GT")
	call(t, c, "SET", "earlier", "x", "EX", "63072000")
	call(t, c, "EXPIRE", "earlier", "600", "LT")
	for _, program := range []launch.Program{launch.MustUnderTest(t), launch.MustOracle(t)} {
		target := launch.ForTest(t, program)
		succeeds(t, "import", filepath.Join(s.Directory, "appendonlydir"), "--to", target.Address)
		for _, key := range []string{"later", "earlier"} {
			if got, want := call(t, target.MustDial(t), "PEXPIRETIME", key), call(t, c, "PEXPIRETIME", key); got != want {
				t.Errorf("%s expires at %s, and not at %s (Redis: %v)", key, got, want, program.IsRedis)
			}
		}
	}
}

// TestImportProlongedFields does the same with fields of a hash: their times were over long ago.
func TestImportProlongedFields(t *testing.T) {
	var aof []byte
	for _, line := range []string{
		"HSET hash prolonged 1 persisted 1 ends 1 other 1", "HPEXPIREAT hash 1000 FIELDS 3 prolonged persisted ends",
		"HPEXPIREAT hash 4102444800000 FIELDS 1 prolonged", "HPERSIST hash FIELDS 1 persisted",
	} {
		aof = resp.AppendRequest(aof, strings.Fields(line)...)
	}
	file := filepath.Join(t.TempDir(), "fields.aof")
	if err := os.WriteFile(file, aof, 0o640); err != nil {
		t.Fatal(err)
	}
	target := launch.ForTest(t, launch.MustUnderTest(t))
	succeeds(t, "import", file, "--to", target.Address)
	got := call(t, target.MustDial(t), "HPEXPIRETIME", "hash", "FIELDS", "4", "prolonged", "persisted", "ends", "other")
	if want := "[:4102444800000 :-1 :-2 :-1]"; got != want {
		t.Errorf("the fields' times are %s, and not %s", got, want)
	}
}

// TestImportSetsSeveral imports MSETEX, also to a server that doesn't know it: a key whose life was
// prolonged is there.
func TestImportSetsSeveral(t *testing.T) {
	var aof []byte
	for _, line := range []string{"MSETEX 2 prolonged 1 ends 2 NX PXAT 1000", "PEXPIREAT prolonged 4102444800000", "MSETEX 1 stays 3"} {
		aof = resp.AppendRequest(aof, strings.Fields(line)...)
	}
	file := filepath.Join(t.TempDir(), "several.aof")
	if err := os.WriteFile(file, aof, 0o640); err != nil {
		t.Fatal(err)
	}
	for _, program := range []launch.Program{launch.MustUnderTest(t), launch.MustOracle(t)} {
		target := launch.ForTest(t, program)
		succeeds(t, "import", file, "--to", target.Address)
		c := target.MustDial(t)
		got := call(t, c, "MGET", "prolonged", "ends", "stays") + call(t, c, "PEXPIRETIME", "prolonged")
		if want := `["1" nil "3"]:4102444800000`; got != want {
			t.Errorf("the target has %s, and not %s (Redis: %v)", got, want, program.IsRedis)
		}
	}
}

// TestImportAgain kills the tool, or the target, while it imports, and does it again: nothing is
// there twice.
func TestImportAgain(t *testing.T) {
	s := newSource(t, "--aof-use-rdb-preamble", "no")
	for i := range 200 {
		call(t, s.c, "RPUSH", "pushed", strconv.Itoa(i))
		call(t, s.c, "INCR", "counted")
		call(t, s.c, "APPEND", "appended"+strconv.Itoa(i), "x")
	}
	call(t, s.c, "SAVE")
	s.digest = digest(t, s.c)
	for _, file := range []struct{ name, path, rate string }{{"RDB", s.rdb, "100keys"}, {"AOF", s.aof, "1000keys"}} {
		for _, target := range []struct {
			name    string
			program launch.Program
		}{{"Kedis", launch.MustUnderTest(t)}, {"Redis", launch.MustOracle(t)}} {
			for _, victim := range []string{"Tool", "Target"} {
				t.Run(file.name+target.name+victim, func(t *testing.T) {
					t.Parallel()
					var options []string
					if target.program.IsRedis {
						options = []string{"--appendonly", "yes"}
					}
					to := launch.ForTest(t, target.program, options...)
					kill(t, to, victim, "import", file.path, "--to", to.Address, "--rate", file.rate)
					if victim == "Target" {
						again, err := to.RestartInPlace()
						if err != nil {
							t.Fatal(err)
						}
						t.Cleanup(func() { launch.End(t, again) })
						to = again
					}
					if n := call(t, to.MustDial(t), "DBSIZE"); n == ":0" {
						t.Error("nothing was there when it was killed")
					}
					succeeds(t, "import", file.path, "--to", to.Address)
					if got := digest(t, to.MustDial(t)); got != s.digest {
						t.Errorf("the digest is %s, expected %s", got, s.digest)
					}
					succeeds(t, "verify", "--from", s.server.Address, "--to", to.Address)
				})
			}
		}
	}
}

// kill runs the tool, and kills it, or the target, when that has some keys.
func kill(t *testing.T, to *launch.Server, victim string, args ...string) {
	t.Helper()
	binary, err := launch.Binary()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(binary, args...)
	var output bytes.Buffer
	command.Stderr = &output
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	d := to.MustDial(t)
	for deadline := time.Now().Add(30 * time.Second); len(call(t, d, "DBSIZE")) < 4; time.Sleep(time.Millisecond) { // :100
		if time.Now().After(deadline) {
			t.Fatalf("the keys don't come: %s", &output)
		}
	}
	if victim == "Target" {
		to.Kill()
	} else if err := command.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	err = command.Wait()
	if code := command.ProcessState.ExitCode(); victim == "Target" && code != 5 || err == nil {
		t.Errorf("exit code %d: %s", code, &output)
	}
	if victim == "Tool" {
		awaitAlone(t, d)
	}
}

// alone is what INFO shows to the only client.
var alone = regexp.MustCompile(`connected_clients:1\D`)

// awaitAlone returns when the target has executed what a killed tool had sent: it may still do so
// when the next import has begun.
func awaitAlone(t *testing.T, c *resp.Connection) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !alone.MatchString(call(t, c, "INFO", "clients")); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the connections of the killed tool don't end")
		}
	}
}

// TestImportMovesBetweenDatabases maps the databases that MOVE and COPY name in an AOF.
func TestImportMovesBetweenDatabases(t *testing.T) {
	request := func(words ...string) string { return string(resp.AppendRequest(nil, words...)) }
	path := filepath.Join(t.TempDir(), "moves.aof")
	content := request("SELECT", "0") + request("MSET", "a", "1", "b", "2", "c", "3", "d", "4") + request("MOVE", "a", "1") +
		request("COPY", "b", "copy", "DB", "1") + request("MOVE", "c", "2") + request("COPY", "d", "copy", "DB", "2")
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	server := launch.ForTest(t, launch.MustUnderTest(t))
	c := server.MustDial(t)
	call(t, c, "SELECT", "6")
	call(t, c, "MSET", "a", "own", "copy", "own") // gives way
	succeeds(t, "import", path, "--to", server.Address, "--db-map", "0:5,1:6")
	var got []string
	for database := range 8 {
		call(t, c, "SELECT", strconv.Itoa(database))
		for _, key := range []string{"a", "b", "c", "d", "copy"} {
			if value := call(t, c, "GET", key); strings.HasPrefix(value, `"`) {
				got = append(got, strconv.Itoa(database)+key+value)
			}
		}
	}
	if text := strings.Join(got, " "); text != `5b"2" 5d"4" 6a"1" 6copy"2"` {
		t.Error(text)
	}
}

// TestImportStreams brings an AOF with a stream and its groups into a Redis and into a Kedis.
func TestImportStreams(t *testing.T) {
	s := launch.ForTest(t, launch.MustOracle(t), "--appendonly", "yes")
	c := s.MustDial(t)
	for i := range 20 {
		call(t, c, "XADD", "stream", "*", "field", strconv.Itoa(i))
	}
	call(t, c, "XGROUP", "CREATE", "stream", "group", "0")
	call(t, c, "XREADGROUP", "GROUP", "group", "reader", "COUNT", "5", "STREAMS", "stream", ">")
	aof := filepath.Join(s.Directory, "appendonlydir")
	redis, kedis := launch.ForTest(t, launch.MustOracle(t)), launch.ForTest(t, launch.MustUnderTest(t))
	for _, target := range []*launch.Server{redis, kedis} {
		succeeds(t, "import", aof, "--to", target.Address)
		if got, want := digest(t, target.MustDial(t)), digest(t, c); got != want {
			t.Errorf("the digest is %s, expected %s", got, want)
		}
	}
}
