package port

import (
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"kedis/redis-tests/launch"
)

// groupStreams makes streams with groups, of whose pending entries some are deleted and some
// trimmed away.
func groupStreams(t *testing.T, s *launch.Server) {
	t.Helper()
	c := s.MustDial(t)
	for i := range 250 {
		do(t, c, "XADD", "groups", strconv.Itoa(i+1)+"-1", "field", strconv.Itoa(i), "other", "value")
	}
	do(t, c, "XADD", "groups", "300-7", "without", "the", "others'", "fields")
	for _, words := range []string{
		"XGROUP CREATE groups first 0", "XGROUP CREATE groups second 5-1", "XGROUP CREATE groups idle $",
		"XGROUP CREATECONSUMER groups first lazy", "XREADGROUP GROUP first reader COUNT 30 STREAMS groups >",
		"XREADGROUP GROUP first another COUNT 20 STREAMS groups >", "XREADGROUP GROUP second only COUNT 150 STREAMS groups >",
		"XCLAIM groups first another 0 3-1 40-1 RETRYCOUNT 7 JUSTID", "XACK groups first 6-1 7-1 45-1", "XDEL groups 12-1 44-1 60-1 250-1",
		"XTRIM groups MAXLEN 240",
		// One that has nothing but a group, and one that is nothing.
		"XADD gone 1-1 a b", "XADD gone 2-2 a b", "XGROUP CREATE gone group 0", "XREADGROUP GROUP group reader STREAMS gone >", "XDEL gone 1-1 2-2",
		"PEXPIREAT gone 4102444800000", "XADD empty 1-1 a b", "XDEL empty 1-1",
	} {
		do(t, c, strings.Fields(words)...)
	}
}

// groupFacts is what XINFO STREAM FULL tells of some streams, without times and figures of memory.
func groupFacts(t *testing.T, s *launch.Server, keys ...string) string {
	t.Helper()
	var b strings.Builder
	c := s.MustDial(t)
	for _, key := range keys {
		fmt.Fprintln(&b, key, do(t, c, "PEXPIRETIME", key))
		facts, err := launch.DescribeStream(c, key)
		if err != nil {
			t.Fatal(err)
		}
		b.WriteString(facts)
	}
	return b.String()
}

// groupsArrived compares the streams of two servers.
func groupsArrived(t *testing.T, from, to *launch.Server) {
	t.Helper()
	keys := []string{"groups", "gone", "empty"}
	want, got := groupFacts(t, from, keys...), groupFacts(t, to, keys...)
	if !strings.Contains(want, "another") || !strings.Contains(want, "lazy") {
		t.Fatalf("the source has\n%s", want)
	}
	if got != want {
		t.Errorf("expected\n%s\ngot\n%s", want, got)
	}
	startTool(t, t.TempDir(), verify(from, to)...).ends(0)
}

// TestGroups moves groups with consumers and with entries that are pending and gone.
func TestGroups(t *testing.T) {
	for _, pair := range pairs {
		t.Run(pair.name, func(t *testing.T) {
			from, to := start(t, pair.from(t)), start(t, pair.to(t))
			groupStreams(t, from)
			startTool(t, t.TempDir(), port(from, to)...).ends(0)
			groupsArrived(t, from, to)
		})
	}
}

// TestGroupsInFiles has a file between the two.
func TestGroupsInFiles(t *testing.T) {
	from := start(t, launch.MustUnderTest(t))
	groupStreams(t, from)
	for _, format := range []string{"rdb", "resp"} {
		path := filepath.Join(t.TempDir(), "file")
		startTool(t, t.TempDir(), "export", path, "--from", from.Address, "--format", format).ends(0)
		for _, program := range []launch.Program{launch.MustUnderTest(t), launch.MustOracle(t)} {
			to := start(t, program)
			startTool(t, t.TempDir(), "import", path, "--to", to.Address).ends(0)
			groupsArrived(t, from, to)
		}
		directory := filepath.Join(t.TempDir(), "data")
		startTool(t, t.TempDir(), "import", path, "--dir", directory).ends(0)
		to, err := launch.MustUnderTest(t).Start(directory)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { launch.End(t, to) })
		groupsArrived(t, from, to)
	}
}

// oldStream is a file of Redis 6: a stream whose entries 2-1 and 3-1 are left, and a group with 1-1
// and 2-1 pending.
const oldStream = "524544495330303039" + "fe00" + "0f" + "03" + "6f6c64" + // REDIS0009, database 0, type 15, old
	"011000000000000000010000000000000001" + "33330000001400020101010101816102000103010001000181620204010201010100" +
	"0181620204010201020100018162020401ff" + "02" + "0301" + // two entries, the last 3-1
	"01" + "0167" + "0201" + // group g, behind 2-1
	"02" + "0000000000000001000000000000000101bc630fa2010000" + "01" + "0000000000000002000000000000000101bc630fa2010000" + "01" +
	"01" + "0163" + "01bc630fa2010000" + "02" + "00000000000000010000000000000001" + "00000000000000020000000000000001" + // consumer c
	"ff" + "0000000000000000"

// TestGroupsOfRedis6 imports a stream whose totals weren't counted: they become what Redis 7.0
// takes them for.
func TestGroupsOfRedis6(t *testing.T) {
	content, err := hex.DecodeString(oldStream)
	if err != nil {
		t.Fatal(err)
	}
	directory := t.TempDir()
	path := filepath.Join(directory, "dump.rdb")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	loaded, err := launch.MustOracle(t).Start(directory)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { launch.End(t, loaded) })
	for _, program := range []launch.Program{launch.MustUnderTest(t), launch.MustOracle(t)} {
		to := start(t, program)
		startTool(t, t.TempDir(), "import", path, "--to", to.Address).ends(0)
		if want, got := groupFacts(t, loaded, "old"), groupFacts(t, to, "old"); got != want {
			t.Errorf("expected\n%s\ngot\n%s", want, got)
		}
	}
}

// largeStream makes a stream that is too large to go whole, with groups like those of groupStreams:
// some of what is pending is deleted or trimmed away, and the last entries are.
func largeStream(t *testing.T, s *launch.Server) {
	t.Helper()
	c := s.MustDial(t)
	value := strings.Repeat("v", 100_000)
	for i := range 60 {
		do(t, c, "XADD", "large", strconv.Itoa(i+1)+"-1", "field", value+strconv.Itoa(i), "", "")
	}
	for _, words := range []string{
		"XGROUP CREATE large group 0", "XGROUP CREATE large idle 30-1 ENTRIESREAD 30", "XGROUP CREATECONSUMER large group lazy",
		"XREADGROUP GROUP group reader COUNT 10 STREAMS large >", "XREADGROUP GROUP group another COUNT 50 STREAMS large >", "XACK large group 7-1",
		"XCLAIM large group another 0 4-1 20-1 RETRYCOUNT 7 JUSTID", "XDEL large 2-1 5-1 30-1 59-1 60-1", "XTRIM large MAXLEN 52",
		"PEXPIREAT large 4102444800000",
	} {
		do(t, c, strings.Fields(words)...)
	}
}

// TestLargeStream moves it, and by a file of commands.
func TestLargeStream(t *testing.T) {
	arrived := func(from, to *launch.Server) {
		t.Helper()
		if want, got := groupFacts(t, from, "large"), groupFacts(t, to, "large"); got != want || !strings.Contains(want, "pending [2-1 reader 1]") {
			t.Errorf("expected\n%s\ngot\n%s", want, got)
		}
		if want, got := do(t, from.MustDial(t), "DEBUG", "DIGEST"), do(t, to.MustDial(t), "DEBUG", "DIGEST"); got.String() != want.String() {
			t.Errorf("a digest of %s, expected %s", got, want)
		}
		startTool(t, t.TempDir(), verify(from, to)...).ends(0)
	}
	for _, pair := range pairs {
		t.Run(pair.name, func(t *testing.T) {
			from, to := start(t, pair.from(t)), start(t, pair.to(t))
			largeStream(t, from)
			startTool(t, t.TempDir(), port(from, to)...).ends(0)
			arrived(from, to)
			path := filepath.Join(t.TempDir(), "file")
			startTool(t, t.TempDir(), "export", path, "--from", from.Address, "--format", "resp").ends(0)
			do(t, to.MustDial(t), "FLUSHALL")
			startTool(t, t.TempDir(), "import", path, "--to", to.Address).ends(0)
			arrived(from, to)
		})
	}
}

// TestVerifyGroups has a difference of each kind in what a stream has beside its entries.
func TestVerifyGroups(t *testing.T) {
	from, to := start(t, launch.MustOracle(t)), start(t, launch.MustUnderTest(t))
	groupStreams(t, from)
	tool := port(from, to)
	c := to.MustDial(t)
	for _, one := range []struct{ change, difference string }{
		{"XGROUP DESTROY groups idle", `group "idle" at the source only`},
		{"XGROUP CREATE groups more 0", `group "more" at the target only`},
		{"XGROUP SETID groups second 160-1 ENTRIESREAD 150", `group "second" with last-delivered-id 155-1 at the source and 160-1 at the target`},
		{"XGROUP SETID groups second 155-1 ENTRIESREAD 149", `group "second" with entries-read unknown at the source and 149 at the target`},
		{"XGROUP DELCONSUMER groups first lazy", `group "first" with other consumers`},
		{"XACK groups first 12-1", `group "first" with other pending entries`},
		{"XACK groups first 8-1", `group "first" with other pending entries`},
		{"XCLAIM groups first another 0 20-1 RETRYCOUNT 1 JUSTID", `group "first" with other pending entries`},
		{"XCLAIM groups second only 0 140-1 RETRYCOUNT 2 JUSTID", `group "second" with other pending entries`},
		{"XSETID groups 301-1", `last-generated-id 300-7 at the source and 301-1 at the target`},
		{"XSETID groups 300-7 ENTRIESADDED 999 MAXDELETEDID 250-1", `entries-added 251 at the source and 999 at the target`},
		{"XSETID groups 300-7 ENTRIESADDED 251 MAXDELETEDID 299-1", `max-deleted-entry-id 250-1 at the source and 299-1 at the target`},
	} {
		startTool(t, t.TempDir(), tool...).ends(0)
		do(t, c, strings.Fields(one.change)...)
		want := `0 "groups" has ` + one.difference + " (stream)"
		if got := listed(startTool(t, t.TempDir(), verify(from, to)...).ends(1)); !slices.Equal(got, []string{want}) {
			t.Errorf("%s: got %q, expected %q", one.change, got, want)
		}
	}
	// The same number of pending entries, with each consumer and together.
	startTool(t, t.TempDir(), tool...).ends(0)
	do(t, c, "XCLAIM", "groups", "first", "another", "0", "20-1", "RETRYCOUNT", "1", "JUSTID")
	do(t, c, "XCLAIM", "groups", "first", "reader", "0", "46-1", "RETRYCOUNT", "1", "JUSTID")
	want := []string{`0 "groups" has group "first" with other pending entries (stream)`}
	if got := listed(startTool(t, t.TempDir(), verify(from, to)...).ends(1)); !slices.Equal(got, want) {
		t.Errorf("another owner: got %q", got)
	}
}
