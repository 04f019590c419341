package scripts

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kedis/redis-tests/launch"
)

var (
	rewrite      = flag.Bool("rewrite", false, "rewrite the expected replies from the oracle")
	rewriteKnown = flag.Bool("rewrite-known", false, "write the replies of the server under test as known differences where they aren't the oracle's;"+
		" meant for a server that behaves as Redis 7.2 does")
)

func TestOracle(t *testing.T) {
	forEachScript(t, func(t *testing.T, path string, script *Script) {
		program := oracleOf(t, script)
		if run(t, program, script, func(block *Block, got Shown) {
			if *rewrite {
				block.SetReplies(got.Lines)
			} else {
				compare(t, path, block, block.replies, got)
			}
		}); *rewrite {
			write(t, path, script)
		}
	})
}

func TestServerUnderTest(t *testing.T) {
	program := launch.MustUnderTest(t)
	forEachScript(t, func(t *testing.T, path string, script *Script) {
		if program.IsRedis && script.Oracle != "" {
			t.Skip("of another oracle")
		}
		run(t, program, script, func(block *Block, got Shown) {
			if *rewriteKnown && !slices.Equal(block.replies, got.Lines) {
				block.SetKnown(got.Lines)
			}
			expected := block.Expected(isOracle(program))
			compare(t, path, block, expected, got)
		})
		if *rewriteKnown {
			write(t, path, script)
		}
	})
}

func oracleOf(t *testing.T, script *Script) launch.Program {
	if script.Oracle == "" {
		return launch.MustOracle(t)
	}
	return launch.MustNewerOracle(t, script.Oracle)
}

// isOracle tells the oracle itself, on both sides, from a server that behaves as 7.2 does.
func isOracle(program launch.Program) bool {
	return slices.ContainsFunc(program.Line, func(word string) bool { return filepath.Base(word) == "redis-server" })
}

func forEachScript(t *testing.T, run func(t *testing.T, path string, script *Script)) {
	paths, err := filepath.Glob("*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no scripts (%v)", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(path, ".txt"), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			script, err := Parse(string(text))
			if err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			run(t, path, script)
		})
	}
}

// TestRequestsAreNoReplies: replies that an empty line parts from their requests are a block of
// their own, of requests that test nothing.
func TestRequestsAreNoReplies(t *testing.T) {
	forEachScript(t, func(t *testing.T, path string, script *Script) {
		for _, block := range script.Blocks {
			for _, request := range block.Requests {
				if len(request.Arguments) > 0 && strings.ContainsAny(request.Arguments[0][:min(1, len(request.Arguments[0]))], "+-:[{~") {
					t.Errorf("%s:%d: %s looks like a reply", path, block.Line, request.Text)
				}
			}
		}
	})
}

func run(t *testing.T, program launch.Program, script *Script, use func(block *Block, got Shown)) {
	t.Helper()
	runner := NewRunner(launch.ForTest(t, program, script.Options...))
	defer runner.Close()
	for i := range script.Blocks {
		block := &script.Blocks[i]
		got, err := runner.Run(block)
		if err != nil {
			t.Fatalf("line %d: %v", block.Line, err)
		}
		use(block, got)
	}
}

func compare(t *testing.T, path string, block *Block, want []string, got Shown) {
	t.Helper()
	if difference := got.Difference(want); difference != "" {
		t.Errorf("%s:%d: %s", path, block.Line, difference)
	}
}

func write(t *testing.T, path string, script *Script) {
	t.Helper()
	if err := os.WriteFile(path, []byte(script.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}
