package migrate

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"kedis/redis-tests/launch"
)

// timesOf is what HPEXPIRETIME answers of the hashes in the files of newer servers.
func timesOf(t *testing.T, s *launch.Server) string {
	t.Helper()
	c := s.MustDial(t)
	var replies []string
	for _, key := range []string{"small", "long"} {
		for _, command := range [][]string{{"HPEXPIRETIME", key, "FIELDS", "3", "a", "b", "c"}, {"HMGET", key, "a", "c"}} {
			reply, err := c.Must(command...)
			if err != nil {
				t.Fatal(err)
			}
			replies = append(replies, reply.String())
		}
	}
	return strings.Join(replies, " ")
}

const timesWanted = `[:4102444800000 :4102444800000 :-1] ["1" "3"] [:4102444800000 :4102444800001 :-1] ["1" "3"]`

// TestFieldTimes brings the files of Redis 8 and Valkey 9 with fields that expire into a server, a
// data directory, and out again in each form; and to a Redis 7.0, which doesn't know times: it is
// told so, or asked to leave them out.
func TestFieldTimes(t *testing.T) {
	old := launch.ForTest(t, launch.MustOracle(t))
	for _, name := range []string{"redis8", "valkey9"} {
		file := filepath.Join("..", "..", "storage", "rdb", "testdata", name+".rdb")
		server := launch.ForTest(t, launch.MustUnderTest(t))
		succeeds(t, "import", "--to", server.Address, file)
		if got := timesOf(t, server); got != timesWanted {
			t.Errorf("%s: %s", name, got)
		}
		directory := filepath.Join(t.TempDir(), "data")
		succeeds(t, "import", "--dir", directory, file)
		filled := launch.ForTest(t, launch.MustUnderTest(t), "--dir", directory)
		if got := timesOf(t, filled); got != timesWanted {
			t.Errorf("%s, into a directory: %s", name, got)
		}
		succeeds(t, "verify", "--from", server.Address, "--to", filled.Address)

		out := filepath.Join(t.TempDir(), "out")
		succeeds(t, "export", "--from", server.Address, out+".rdb")
		succeeds(t, "export", "--from", server.Address, "--format", "json", out+".json")
		if json, err := os.ReadFile(out + ".json"); err != nil || !strings.Contains(string(json), `["a","1",4102444800000]`) || !strings.Contains(string(json), `["c","3"]`) {
			t.Errorf("%s: %.500s (%v)", name, json, err)
		}
		again := launch.ForTest(t, launch.MustUnderTest(t))
		succeeds(t, "import", "--to", again.Address, out+".rdb")
		succeeds(t, "verify", "--from", server.Address, "--to", again.Address)
		if _, err := again.MustDial(t).Must("HPEXPIREAT", "long", "4102444800002", "FIELDS", "1", "b"); err != nil {
			t.Fatal(err)
		}
		fails(t, 1, "fields that expire at other times", "verify", "--from", server.Address, "--to", again.Address, "--retry-after", "1ms")
		if _, err := again.MustDial(t).Must("HPERSIST", "long", "FIELDS", "2", "a", "b"); err != nil {
			t.Fatal(err)
		}
		fails(t, 1, "fields that expire on one side only", "verify", "--from", server.Address, "--to", again.Address, "--retry-after", "1ms")

		const unsupported = 8
		fails(t, unsupported, "--without-field-times", "import", "--to", old.Address, file)
		passedOver(t, old, file)
		succeeds(t, "import", "--to", old.Address, "--without-field-times", file)
		succeeds(t, "verify", "--from", server.Address, "--to", old.Address, "--without-field-times")
		fails(t, 1, "fields that expire on one side only", "verify", "--from", server.Address, "--to", old.Address, "--retry-after", "1ms")
		succeeds(t, "export", "--from", server.Address, "--without-field-times", out+"-plain.rdb")
		succeeds(t, "import", "--to", old.Address, out+"-plain.rdb")
		succeeds(t, "verify", "--from", server.Address, "--to", old.Address, "--without-field-times")
	}
}

// passedOver has hashes whose fields expire skipped: nothing of them is written, and the target's
// own stay.
func passedOver(t *testing.T, old *launch.Server, file string) {
	t.Helper()
	c := old.MustDial(t)
	call(t, c, "FLUSHALL")
	call(t, c, "HSET", "small", "own", "1")
	if output := succeeds(t, "import", "--to", old.Address, "--on-unsupported", "skip", file); !strings.Contains(output, "skipped: 2, keys of a type that isn't supported") {
		t.Error(output)
	}
	if got := call(t, c, "HGETALL", "small") + call(t, c, "HLEN", "long"); got != `["own" "1"]:0` {
		t.Errorf("of what was skipped there is %s", got)
	}
}

// TestMigrateFieldTimes brings hashes whose fields expire to newer servers by MIGRATE, each in the
// form that it knows, and back.
func TestMigrateFieldTimes(t *testing.T) {
	server := launch.ForTest(t, launch.MustUnderTest(t))
	for _, name := range []string{launch.Redis8, launch.Valkey9} {
		target := launch.ForTest(t, launch.MustNewerOracle(t, name))
		succeeds(t, "import", "--to", server.Address, filepath.Join("..", "..", "storage", "rdb", "testdata", name+".rdb"))
		hop := func(from, to *launch.Server, key string) {
			t.Helper()
			reply := call(t, from.MustDial(t), "MIGRATE", "127.0.0.1", strconv.Itoa(to.Port), key, "0", "60000")
			if left := call(t, from.MustDial(t), "EXISTS", key); reply != "+OK" || left != ":0" {
				t.Errorf("%s to and from %s: %s, %s is left", key, name, reply, left)
			}
		}
		for _, key := range []string{"small", "long"} {
			hop(server, target, key)
		}
		if got := timesOf(t, target); got != timesWanted {
			t.Errorf("on %s: %s", name, got)
		}
		for _, key := range []string{"small", "long"} {
			hop(target, server, key)
		}
		if got := timesOf(t, server); got != timesWanted {
			t.Errorf("back from %s: %s", name, got)
		}
	}
}
