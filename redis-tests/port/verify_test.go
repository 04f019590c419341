package port

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"kedis/redis-tests/launch"
)

// lines of a verify's output that name a difference.
func listed(output string) (lines []string) {
	for _, line := range strings.Split(output, "\n") {
		if len(line) > 2 && line[1] == ' ' && line[2] == '"' {
			lines = append(lines, line)
		}
	}
	slices.Sort(lines)
	return lines
}

// TestVerify has a difference of each kind, found by both ways of comparing: by digests that both
// servers compute, and by values that are read, where one doesn't allow DEBUG.
func TestVerify(t *testing.T) {
	for _, way := range []struct {
		name    string
		options []string
	}{{"Digests", nil}, {"Values", []string{"--enable-debug-command", "no"}}} {
		t.Run(way.name, func(t *testing.T) {
			from, to := start(t, launch.MustOracle(t), way.options...), start(t, launch.MustUnderTest(t))
			fill(t, from, 2500)
			startTool(t, t.TempDir(), port(from, to)...).ends(0)
			if output := startTool(t, t.TempDir(), verify(from, to)...).ends(0); !strings.Contains(output, "keys are the same") {
				t.Errorf("said %s", output)
			}
			c := to.MustDial(t)
			do(t, c, "DEL", "fill:string:17")
			do(t, c, "SET", "another", "1")
			do(t, c, "SET", "fill:string:18", "another")
			do(t, c, "DEL", "fill:set:10")
			do(t, c, "LPUSH", "fill:set:10", "a")
			do(t, c, "HSET", "large:hash", "field100", "another")
			do(t, c, "SREM", "large:set", "member100")
			do(t, c, "ZINCRBY", "large:zset", "0.001", "member100")
			do(t, c, "LSET", "large:list", "100", "another")
			do(t, c, "PERSIST", "fill:expiring:20")
			do(t, c, "EXPIRE", "fill:expiring:30", "90000")
			do(t, c, "EXPIRE", "fill:expiring:40", "100000") // within the tolerance
			want := []string{
				`0 "another" is at the target only`, `0 "fill:expiring:20" expires at`, `0 "fill:expiring:30" expires at`,
				`0 "fill:set:10" is a set at the source and a list at the target`, `0 "fill:string:17" is missing at the target`,
				`0 "fill:string:18" has another value (string)`, `0 "large:hash" has another value (hash)`, `0 "large:list" has another value (list)`,
				`0 "large:set" has another value (set)`, `0 "large:zset" has another value (zset)`,
			}
			got := listed(startTool(t, t.TempDir(), verify(from, to, "--tolerance", "60s")...).ends(1))
			if !slices.EqualFunc(got, want, strings.HasPrefix) {
				t.Errorf("got\n%s", strings.Join(got, "\n"))
			}
			if got := listed(startTool(t, t.TempDir(), verify(from, to, "--prefix", "large:")...).ends(1)); len(got) != 4 {
				t.Errorf("with a prefix: %q", got)
			}
			if got := listed(startTool(t, t.TempDir(), verify(from, to, "--tolerance", "20000s", "--match", "fill:expiring:30")...).ends(0)); len(got) > 0 {
				t.Errorf("with a tolerance: %q", got)
			}
			startTool(t, t.TempDir(), verify(from, to, "--db", "1")...).ends(0)
		})
	}
}

// TestVerifySample compares some keys, the same ones each time.
func TestVerifySample(t *testing.T) {
	from, to := start(t, launch.MustUnderTest(t)), start(t, launch.MustUnderTest(t))
	fill(t, from, 2000)
	all := len(listed(startTool(t, t.TempDir(), verify(from, to, "--prefix", "fill:string:")...).ends(1)))
	some := listed(startTool(t, t.TempDir(), verify(from, to, "--prefix", "fill:string:", "--sample", "10%")...).ends(1))
	again := listed(startTool(t, t.TempDir(), verify(from, to, "--prefix", "fill:string:", "--sample", "0.1")...).ends(1))
	if all != 2000 || len(some) < 100 || len(some) > 400 || !slices.Equal(some, again) {
		t.Errorf("%d of %d keys, then %d", len(some), all, len(again))
	}
	// What only the target has is found in a sample of what it has.
	back := listed(startTool(t, t.TempDir(), verify(to, from, "--prefix", "fill:string:", "--sample", "10%")...).ends(1))
	if len(back) != len(some) {
		t.Errorf("%d keys the other way, not %d", len(back), len(some))
	}
}

// TestVerifyLarge compares collections that are too large for DEBUG DIGEST-VALUE, which are read in
// pages.
func TestVerifyLarge(t *testing.T) {
	from, to := start(t, launch.MustOracle(t)), start(t, launch.MustUnderTest(t))
	fill(t, from, 11_000)
	startTool(t, t.TempDir(), port(from, to)...).ends(0)
	startTool(t, t.TempDir(), verify(from, to)...).ends(0)
	for _, s := range []*launch.Server{from, to} {
		if stats := string(do(t, s.MustDial(t), "INFO", "commandstats").Text); !strings.Contains(stats, "cmdstat_zscan") || !strings.Contains(stats, "cmdstat_debug") {
			t.Errorf("not compared in both ways: %s", stats)
		}
	}
	c := to.MustDial(t)
	do(t, c, "HSET", "large:hash", "field10500", "another")
	do(t, c, "SREM", "large:set", "member10500")
	do(t, c, "ZINCRBY", "large:zset", "0.001", "member10500")
	do(t, c, "LSET", "large:list", "10500", "another")
	if got := listed(startTool(t, t.TempDir(), verify(from, to)...).ends(1)); len(got) != 4 {
		t.Errorf("%q", got)
	}
}

// TestVerifyRenamed: a key of the target may come from any of three names, and with many keys the
// three are asked for in several batches.
func TestVerifyRenamed(t *testing.T) {
	from, to := start(t, launch.MustOracle(t)), start(t, launch.MustUnderTest(t))
	words := []string{"new:more", "x"}
	for i := range 500 {
		words = append(words, fmt.Sprintf("new:%d", i), "x")
	}
	set(t, from.MustDial(t), words[2:]...)
	set(t, to.MustDial(t), words...)
	got := listed(startTool(t, t.TempDir(), verify(from, to, "--rewrite-prefix", "old:=new:", "--rewrite-prefix", "former:=new:")...).ends(1))
	if want := []string{`0 "new:more" is at the target only`}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}
