package migrate

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kedis/redis-tests/launch"
	"kedis/redis-tests/resp"
)

const (
	firstLibrary  = "#!lua name=first\nredis.register_function{function_name='one', callback=function(keys) return redis.call('incr', keys[1]) end, description='counts'}"
	secondLibrary = "#!lua name=second\nlocal t = {'a \"quoted\" word'}\nredis.register_function('two', function() return t[1] end)"
)

// TestLibraries brings libraries of functions through files of each format, into servers and data
// directories.
func TestLibraries(t *testing.T) {
	for _, program := range []launch.Program{launch.MustUnderTest(t), launch.MustOracle(t)} {
		server := launch.ForTest(t, program)
		c := server.MustDial(t)
		if program.IsRedis {
			call(t, c, "CONFIG", "SET", "repl-diskless-sync-delay", "0")
		}
		call(t, c, "FUNCTION", "LOAD", firstLibrary)
		call(t, c, "FUNCTION", "LOAD", secondLibrary)
		call(t, c, "SET", "key", "1")
		want := launch.Libraries(t, c)
		same := func(what string, d *resp.Connection) {
			t.Helper()
			if got := launch.Libraries(t, d); got != want {
				t.Errorf("%s: the libraries are\n%s\nand should be\n%s", what, got, want)
			}
			call(t, d, "FCALL", "one", "1", "key")
			if got := call(t, d, "GET", "key"); got != `"2"` {
				t.Errorf("%s: the function has counted to %s", what, got)
			}
		}
		directory := t.TempDir()
		file := func(name string) string { return filepath.Join(directory, name) }
		succeeds(t, "export", "--from", server.Address, file("all.rdb"))
		succeeds(t, "export", "--from", server.Address, "--format", "resp", file("all.resp"))
		succeeds(t, "export", "--from", server.Address, "--format", "json", file("all.json"))
		if output := succeeds(t, "export", "--from", server.Address, "--prefix", "k", file("some.rdb")); !strings.Contains(output, "skipped: 2, libraries of functions") {
			t.Error(output)
		}
		same("an RDB file in Redis", loaded(t, file("all.rdb")))
		same("commands in Redis", piped(t, file("all.resp")))
		if text, err := os.ReadFile(file("all.json")); err != nil || strings.Count(string(text), `{"library":"#!lua name=`) != 2 {
			t.Errorf("JSON: %s %v", text, err)
		}
		if program.IsRedis { // its file is as Kedis's
			to := launch.ForTest(t, launch.MustUnderTest(t))
			succeeds(t, "import", file("all.rdb"), "--to", to.Address)
			same("an RDB file of Redis", to.MustDial(t))
			continue
		}
		for _, name := range []string{"all.rdb", "all.resp"} {
			to := launch.ForTest(t, launch.MustUnderTest(t))
			succeeds(t, "import", file(name), "--to", to.Address)
			same(name+" in Kedis", to.MustDial(t))
			succeeds(t, "import", "--dir", file(name+".data"), file(name))
			filled, d := served(t, file(name+".data"))
			same(name+" in a data directory", d)
			call(t, d, "FUNCTION", "DELETE", "second")
			filled.Kill()
		}
		succeeds(t, "import", "--dir", file("exported"), file("all.rdb"))
		succeeds(t, "export", "--dir", file("exported"), file("again.rdb"))
		same("an RDB file of a data directory", loaded(t, file("again.rdb")))
	}
}

// TestLibrariesOfAOF imports the changes of libraries that an AOF has.
func TestLibrariesOfAOF(t *testing.T) {
	source := launch.ForTest(t, launch.MustOracle(t), "--appendonly", "yes", "--appendfsync", "always")
	c := source.MustDial(t)
	call(t, c, "FUNCTION", "LOAD", firstLibrary)
	call(t, c, "FUNCTION", "LOAD", secondLibrary)
	dump := string(mustText(t, c, "FUNCTION", "DUMP"))
	call(t, c, "FUNCTION", "DELETE", "first")
	call(t, c, "FUNCTION", "RESTORE", dump, "REPLACE")
	call(t, c, "FUNCTION", "LOAD", "REPLACE", strings.Replace(secondLibrary, "word", "sentence", 1))
	call(t, c, "FCALL", "one", "1", "key")
	want := launch.Libraries(t, c)
	for _, program := range []launch.Program{launch.MustUnderTest(t), launch.MustOracle(t)} {
		to := launch.ForTest(t, program)
		succeeds(t, "import", filepath.Join(source.Directory, "appendonlydir"), "--to", to.Address)
		d := to.MustDial(t)
		if got := launch.Libraries(t, d); got != want {
			t.Errorf("the libraries are\n%s\nand should be\n%s", got, want)
		}
		if got := call(t, d, "GET", "key"); got != `"1"` {
			t.Errorf("the function has counted to %s", got)
		}
	}
	call(t, c, "FUNCTION", "FLUSH")
	to := launch.ForTest(t, launch.MustUnderTest(t))
	fails(t, 8, "--on-flush", "import", filepath.Join(source.Directory, "appendonlydir"), "--to", to.Address)
	succeeds(t, "import", filepath.Join(source.Directory, "appendonlydir"), "--to", to.Address, "--on-flush", "apply")
	if got := launch.Libraries(t, to.MustDial(t)); got != "" {
		t.Errorf("libraries are left: %s", got)
	}
}

func mustText(t *testing.T, c *resp.Connection, words ...string) []byte {
	t.Helper()
	reply, err := c.Must(words...)
	if err != nil {
		t.Fatal(err)
	}
	return reply.Text
}
