package access

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kedis/redis-tests/launch"
	"kedis/redis-tests/resp"
)

const secretName = "b840fc02d524045429941cc15f59e41cb7be6c52"

var renamed = []string{"--rename-command", "SET", secretName, "--rename-command", "CONFIG", "settings", "--rename-command", "FLUSHALL", "",
	"--rename-command", "EXPIRE", "later", "--rename-command", "settings", "options", "--rename-command", "XGROUP", "group"}

// TestRenamedCommands asks for commands by names that are theirs no longer, and by those that are.
func TestRenamedCommands(t *testing.T) {
	first, second := launch.Pair(t, renamed...)
	oracle, underTest := first.MustDial(t), second.MustDial(t)
	for _, line := range []string{
		"set k v", secretName + " k v", strings.ToUpper(secretName) + " k2 v EX 100", "flushall", "config get port", "settings get maxclients",
		"options get maxclients", "options", "options nosuch", secretName + " k", "get k", "later k 1000", "expire k 1", "ttl nosuch",
		"command info set", "command info " + secretName, "command getkeys " + secretName + " a b", "command getkeys set a b", "command info flushall",
		"command getkeys flushall x", "acl setuser u on nopass ~* +set +flushall", "acl setuser u +" + secretName, "acl dryrun u " + secretName + " k v",
		"acl dryrun u set k v", "acl getuser nosuch", "multi", secretName + " k w", "flushall", "exec", "multi", secretName + " k w", "later k 2000", "exec",
		`eval "return redis.call('set', 'k', 'x')" 0`, `eval "return redis.call('` + secretName + `', 'k', 'x')" 0`,
		`eval "return redis.call('flushall')" 0`, "get k", "group create s g $ MKSTREAM", "xgroup create s h $", "xinfo groups s", "command list filterby pattern flushall",
		"command list filterby pattern set", "command info xgroup|create", "command info group|create",
	} {
		words, err := resp.SplitLine(line)
		if err != nil {
			t.Fatal(err)
		}
		want, got := do(t, oracle, words...), do(t, underTest, words...)
		if want.String() != got.String() {
			t.Errorf("%s: %s, want %s", line, got, want)
		}
	}
}

// TestRenamedInLog finds the commands' own names in the log, which a start without the renames
// applies, and a replica that has none.
func TestRenamedInLog(t *testing.T) {
	program := launch.MustUnderTest(t)
	server, err := program.Start(t.TempDir(), renamed...)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { launch.End(t, server) }()
	replica := launch.ForTest(t, program)
	redis := launch.ForTest(t, launch.MustOracle(t))
	for _, follower := range []*launch.Server{replica, redis} {
		must(t, follower.MustDial(t), "replicaof", "127.0.0.1", strings.TrimPrefix(server.Address, "127.0.0.1:"))
	}
	c := server.MustDial(t)
	must(t, c, secretName, "k", "v")
	must(t, c, "later", "k", "1000")
	must(t, c, "multi")
	must(t, c, secretName, "l", "w")
	must(t, c, "group", "create", "s", "g", "$", "MKSTREAM")
	must(t, c, "exec")
	must(t, c, "eval", "redis.call('"+secretName+"', KEYS[1], 'x')", "1", "m")
	digest := must(t, c, "debug", "digest").String()
	same := func(of *launch.Server) bool {
		d, err := of.Dial()
		if err != nil {
			return false
		}
		defer d.Close()
		reply, err := d.Do("debug", "digest")
		return err == nil && reply.String() == digest
	}
	eventually(t, "a replica has the data", func() bool { return same(replica) })
	eventually(t, "a Redis that follows has the data", func() bool { return same(redis) })
	server.Kill()
	again, err := program.Start(server.Directory)
	if err != nil {
		t.Fatal(err)
	}
	defer launch.End(t, again)
	if !same(again) {
		t.Error("a start without the renames has other data")
	}
}

// TestRenamesThatCannotBe are refused at the start, with the line that they stand in.
func TestRenamesThatCannotBe(t *testing.T) {
	for lines, says := range map[string]string{
		"rename-command nosuch x":                       "kedis.conf:1: rename-command nosuch: there is no such command",
		"port 0\nrename-command get set":                "kedis.conf:2: rename-command get: there is a command set already",
		"rename-command get \"\"\nrename-command get x": "kedis.conf:2: rename-command get: there is no such command",
		"rename-command config|get x":                   "rename-command config|get: there is no such command",
		"rename-command get":                            "expected a command and its name, or \"\" for none, got 1 words",
		"rename-command get " + strings.Repeat("x", 72): "a name has less than 72 bytes",
	} {
		directory := t.TempDir()
		path := filepath.Join(directory, "kedis.conf")
		if err := os.WriteFile(path, []byte(lines+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		program := launch.MustUnderTest(t)
		program.Line = append(append([]string(nil), program.Line...), path)
		server, err := program.Start(directory)
		if err == nil {
			launch.End(t, server)
			t.Errorf("%q: it starts", lines)
		} else if !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %s", lines, err, says)
		}
	}
}
