package port

import (
	"slices"
	"strings"
	"syscall"
	"testing"

	"kedis/redis-tests/launch"
	"kedis/redis-tests/resp"
)

// library is the source of a library with one function.
func library(name, function, does string) string {
	return "#!lua name=" + name + "\nredis.register_function('" + function + "', function(keys, args) " + does + " end)"
}

// TestLibraries moves libraries of functions, those of the snapshot and what the stream changes,
// both ways between Kedis and Redis; verify tells what differs.
func TestLibraries(t *testing.T) {
	for _, way := range []struct {
		name     string
		from, to launch.Program
	}{{"ToRedis", launch.MustUnderTest(t), launch.MustOracle(t)}, {"ToKedis", launch.MustOracle(t), launch.MustUnderTest(t)}} {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			from, to := start(t, way.from), start(t, way.to)
			c, d := from.MustDial(t), to.MustDial(t)
			do(t, c, "FUNCTION", "LOAD", library("stays", "one", "return 1"))
			do(t, c, "FUNCTION", "LOAD", library("goes", "two", "return 2"))
			do(t, c, "FUNCTION", "LOAD", library("changes", "three", "return 3"))
			do(t, c, "SET", "key", "1")
			do(t, d, "FUNCTION", "LOAD", library("changes", "other", "return 0"))
			p := startTool(t, t.TempDir(), port(from, to, "--until", "forever")...)
			p.says("has caught up")
			do(t, c, "FUNCTION", "DELETE", "goes")
			do(t, c, "MULTI")
			do(t, c, "FUNCTION", "LOAD", "REPLACE", library("changes", "three", "return redis.call('incr', keys[1])"))
			do(t, c, "FUNCTION", "LOAD", library("comes", "four", "return redis.call('set', keys[1], 'four')"))
			do(t, c, "FCALL", "four", "1", "called")
			do(t, c, "EXEC")
			do(t, c, "FCALL", "three", "1", "key")
			reaches(t, d, "key", "2")
			reaches(t, d, "called", "four")
			p.signal(syscall.SIGINT)
			p.ends(0)
			sameLibraries(t, c, d)
			if output := startTool(t, t.TempDir(), verify(from, to)...).ends(0); !strings.Contains(output, "are the same") {
				t.Errorf("said %s", output)
			}
			do(t, d, "FUNCTION", "DELETE", "stays")
			do(t, d, "FUNCTION", "LOAD", "REPLACE", library("comes", "four", "return 5"))
			do(t, c, "FUNCTION", "DELETE", "changes")
			want := []string{`library "changes" is at the target only`, `library "comes" has another source`, `library "stays" is missing at the target`}
			output := startTool(t, t.TempDir(), verify(from, to)...).ends(1)
			for _, line := range want {
				if !strings.Contains(output, line) {
					t.Errorf("%q isn't told: %s", line, output)
				}
			}
			if lines := slices.Collect(strings.Lines(startTool(t, t.TempDir(), verify(from, to, "--db", "0")...).ends(0))); slices.ContainsFunc(lines,
				func(line string) bool { return strings.HasPrefix(line, "library") }) {
				t.Errorf("libraries were compared beside keys of one database: %q", lines)
			}
		})
	}
}

func sameLibraries(t *testing.T, c, d *resp.Connection) {
	t.Helper()
	if ours, theirs := launch.Libraries(t, c), launch.Libraries(t, d); ours != theirs || ours == "" {
		t.Errorf("the libraries are\n%s\nand\n%s", ours, theirs)
	}
}

// TestLibraryConflicts leaves the target's own libraries as they are, or doesn't begin.
func TestLibraryConflicts(t *testing.T) {
	from, to := start(t, launch.MustUnderTest(t)), start(t, launch.MustOracle(t))
	c, d := from.MustDial(t), to.MustDial(t)
	do(t, c, "FUNCTION", "LOAD", library("both", "one", "return 'source'"))
	do(t, c, "FUNCTION", "LOAD", library("moved", "two", "return 'source'"))
	do(t, d, "FUNCTION", "LOAD", library("both", "one", "return 'target'"))
	if output := startTool(t, t.TempDir(), port(from, to, "--on-conflict", "fail")...).ends(6); !strings.Contains(output, `"both"`) {
		t.Errorf("said %s", output)
	}
	p := startTool(t, t.TempDir(), port(from, to, "--on-conflict", "skip", "--until", "forever")...)
	p.says("has caught up")
	do(t, c, "FUNCTION", "LOAD", "REPLACE", library("both", "one", "return 'again'"))
	do(t, c, "FUNCTION", "DELETE", "moved")
	do(t, c, "SET", "end", "1")
	reaches(t, d, "end", "1")
	p.signal(syscall.SIGINT)
	p.ends(0)
	if got := do(t, d, "FCALL", "one", "0"); string(got.Text) != "target" {
		t.Errorf("the target's library answers %s", got)
	}
	if reply, err := d.Do("FCALL", "two", "0"); err != nil || !reply.IsError() {
		t.Errorf("what was deleted answers %s, %v", reply, err)
	}
}

// TestClusterLibraries moves libraries to every master of a cluster.
func TestClusterLibraries(t *testing.T) {
	from := start(t, launch.MustUnderTest(t))
	first, second := startCluster(t)
	c := from.MustDial(t)
	do(t, c, "FUNCTION", "LOAD", library("first", "one", "return 1"))
	p := startTool(t, t.TempDir(), port(from, first, "--until", "forever")...)
	p.says("has caught up")
	do(t, c, "FUNCTION", "LOAD", library("second", "two", "return 2"))
	do(t, c, "FUNCTION", "DELETE", "first")
	do(t, c, "FUNCTION", "LOAD", library("third", "three", "return 3"))
	until(t, "the last library", func() bool {
		reply, err := second.MustDial(t).Do("FUNCTION", "LIST", "LIBRARYNAME", "third")
		return err == nil && len(reply.Elements) == 1
	})
	p.signal(syscall.SIGINT)
	p.ends(0)
	sameLibraries(t, c, first.MustDial(t))
	sameLibraries(t, c, second.MustDial(t))
}
