package replication

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"kedis/redis-tests/launch"
)

// syncs is how many replicas a server has sent all data, and how many went on where they were.
func syncs(t *testing.T, s *launch.Server) (full, partial int) {
	t.Helper()
	number := func(field string) int {
		n, err := strconv.Atoi(info(t, s, field))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	return number("sync_full"), number("sync_partial_ok")
}

// idle sends what moves the position and changes no data.
func idle(t *testing.T, s *launch.Server) {
	t.Helper()
	c := s.MustDial(t)
	defer c.Close()
	before, _ := position(t, s)
	for range 10 {
		do(t, c, "PUBLISH", "__sentinel__:hello", "127.0.0.1,26379,…")
	}
	do(t, c, "SELECT", "3")
	do(t, c, "MULTI")
	do(t, c, "PUBLISH", "channel", "one")
	do(t, c, "PUBLISH", "channel", "other")
	do(t, c, "EXEC")
	do(t, c, "WAIT", "9", "1") // which asks the replicas
	if after, _ := position(t, s); after == before {
		t.Fatalf("the position stays at %d", before)
	}
}

// parted is a primary with two replicas of which the first was promoted; the primary and the other
// replica have more of the former history.
type parted struct {
	former, promoted, other, behind *launch.Server // behind follows other
	full                            int            // synchronizations that the promoted one had served
}

func part(t *testing.T, program, promoted launch.Program) *parted {
	t.Helper()
	p := &parted{former: launch.ForTest(t, program), promoted: launch.ForTest(t, promoted), other: launch.ForTest(t, program), behind: launch.ForTest(t, program)}
	// A key that the former primary removes after the promotion, being slow, would be data in its
	// tail.
	w := newWriter(t, p.former, seeded(t))
	w.lasting = true
	w.write(t, 200)
	for _, replica := range []*launch.Server{p.promoted, p.other} {
		follow(t, replica, p.former.Port)
		converge(t, p.former, replica)
	}
	follow(t, p.behind, p.other.Port)
	converge(t, p.former, p.behind)
	idle(t, p.former)
	converge(t, p.former, p.promoted)
	do(t, p.promoted.MustDial(t), "REPLICAOF", "NO", "ONE")
	p.full, _ = syncs(t, p.promoted)
	return p
}

// TestIdleTailIsCut has servers go on behind a promoted one that lack nothing but what changes no
// data. What follows them goes on, too. They do after a kill, and can be promoted themselves.
func TestIdleTailIsCut(t *testing.T) {
	program := launch.MustUnderTest(t)
	for name, promoted := range map[string]launch.Program{"Kedis": program, "Redis": launch.MustOracle(t)} {
		t.Run(name, func(t *testing.T) {
			p := part(t, program, promoted)
			idle(t, p.former)
			converge(t, p.former, p.behind)
			full, _ := syncs(t, p.other)
			newWriter(t, p.promoted, seeded(t)).write(t, 50)
			for _, s := range []*launch.Server{p.former, p.other} {
				follow(t, s, p.promoted.Port)
			}
			for _, s := range []*launch.Server{p.former, p.other, p.behind} {
				converge(t, p.promoted, s)
				equal(t, p.promoted, s)
			}
			if now, partial := syncs(t, p.promoted); now != p.full || partial < 2 {
				t.Errorf("the promoted one sent all data %d times, and before %d; %d went on", now, p.full, partial)
			}
			if now, _ := syncs(t, p.other); now != full {
				t.Errorf("a replica of a replica took all data")
			}
			logs(t, p.former, "the end of the log is cut off")
			p.former.Kill()
			former, err := p.former.Restart()
			if err != nil {
				t.Fatal(err)
			}
			defer launch.End(t, former)
			newWriter(t, p.promoted, seeded(t)).write(t, 50)
			converge(t, p.promoted, former)
			equal(t, p.promoted, former)
			if now, _ := syncs(t, p.promoted); now != p.full {
				t.Error("the former primary took all data after it was killed")
			}
		})
	}
}

// TestTailWithDataIsNotCut: what a former primary has written is not thrown away but by a full
// synchronization.
func TestTailWithDataIsNotCut(t *testing.T) {
	program := launch.MustUnderTest(t)
	p := part(t, program, program)
	idle(t, p.former)
	do(t, p.former.MustDial(t), "SET", "only here", "1")
	idle(t, p.former)
	follow(t, p.former, p.promoted.Port)
	converge(t, p.promoted, p.former)
	equal(t, p.promoted, p.former)
	if now, _ := syncs(t, p.promoted); now != p.full+1 {
		t.Errorf("the promoted one sent all data %d times, and before %d", now, p.full)
	}
	logs(t, p.former, "the server has written since it and its primary parted")
}

// kept is what a server keeps of what no primary has: a log, and the requests in it.
func kept(t *testing.T, s *launch.Server) (directory, requests string) {
	t.Helper()
	logs(t, s, "what the server has written since it and its primary parted is kept")
	directories, err := filepath.Glob(filepath.Join(s.Directory, "parted", "*"))
	if err != nil || len(directories) != 1 {
		t.Fatalf("kept are %q, %v", directories, err)
	}
	from := strings.Split(filepath.Base(directories[0]), "-")[1]
	dumped, err := exec.Command(launch.MustUnderTest(t).Line[0], "binlog", "dump", "--from", from, directories[0]).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, dumped)
	}
	return directories[0], string(dumped)
}

// TestStrangers: a server that is sent to one which never had to do with it takes its data, and
// keeps nothing of its own.
func TestStrangers(t *testing.T) {
	for name, program := range map[string]launch.Program{"Kedis": launch.MustUnderTest(t), "Redis": launch.MustOracle(t)} {
		t.Run(name, func(t *testing.T) {
			primary, s := launch.ForTest(t, program), launch.ForTest(t, launch.MustUnderTest(t))
			do(t, primary.MustDial(t), "SET", "other", "1")
			do(t, s.MustDial(t), "SET", "only here", "1")
			follow(t, s, primary.Port)
			converge(t, primary, s)
			equal(t, primary, s)
			if directories, err := filepath.Glob(filepath.Join(s.Directory, "parted", "*")); err != nil || len(directories) > 0 {
				t.Errorf("kept are %q, %v", directories, err)
			}
		})
	}
}

// TestPrimaryThatTellsNothing: a replica whose user may not ask for histories has nothing of its
// own to keep, however often it takes all data.
func TestPrimaryThatTellsNothing(t *testing.T) {
	primary := launch.ForTest(t, launch.MustOracle(t), "--repl-backlog-size", "16kb", "--repl-diskless-sync-delay", "0")
	c := primary.MustDial(t)
	do(t, c, "ACL", "SETUSER", "replica", "on", ">password", "+psync", "+replconf", "+ping")
	p := newProxy(t, primary.Address)
	replica := launch.ForTest(t, launch.MustUnderTest(t), "--masteruser", "replica", "--masterauth", "password")
	follow(t, replica, p.port)
	converge(t, primary, replica)
	for round := range 2 {
		do(t, c, "SET", "by the stream", strconv.Itoa(round))
		converge(t, primary, replica)
		before, _ := syncs(t, primary)
		p.redirect("127.0.0.1:1")
		for i := range 20 {
			do(t, c, "SET", "key"+strconv.Itoa(i), strings.Repeat(strconv.Itoa(round), 10_000))
		}
		p.redirect(primary.Address)
		converge(t, primary, replica)
		equal(t, primary, replica)
		if full, _ := syncs(t, primary); full == before {
			t.Fatal("the replica didn't take all data")
		}
	}
	logs(t, replica, "the primary doesn't tell its histories")
	if directories, err := filepath.Glob(filepath.Join(replica.Directory, "parted", "*")); err != nil || len(directories) > 0 {
		t.Errorf("kept are %q, %v", directories, err)
	}
}

// TestTailOfAPurgedLog: what is left is kept when the log doesn't go back to where the histories
// parted.
func TestTailOfAPurgedLog(t *testing.T) {
	promoted := launch.ForTest(t, launch.MustUnderTest(t))
	former := launch.ForTest(t, launch.MustUnderTest(t), "--binlog-segment-size", "1mb", "--binlog-retention-size", "0", "--generation-bytes", "256kb")
	c := former.MustDial(t)
	do(t, c, "SET", "key", "1")
	follow(t, promoted, former.Port)
	converge(t, former, promoted)
	do(t, promoted.MustDial(t), "REPLICAOF", "NO", "ONE")
	parted, _ := position(t, former)
	for value, purged := strings.Repeat("x", 100_000), int64(0); purged <= parted; {
		do(t, c, "SET", "large", value)
		_, text, _ := strings.Cut(string(do(t, c, "INFO", "everything").Text), "binlog_first_position:")
		text, _, _ = strings.Cut(text, "\r")
		var err error
		if purged, err = strconv.ParseInt(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	do(t, c, "SET", "only here", "1")
	follow(t, former, promoted.Port)
	converge(t, promoted, former)
	equal(t, promoted, former)
	if _, tail := kept(t, former); !strings.Contains(tail, `"SET" "only here" "1"`) {
		t.Errorf("what is kept is %.1000q", tail)
	}
}

// TestHistoryThatOthersKnow: of two histories that ended where a server is, it goes on in the one
// that its new primary has as far. The primary was behind when the first was left.
func TestHistoryThatOthersKnow(t *testing.T) {
	random, program := seeded(t), launch.MustUnderTest(t)
	former, promoted, other := launch.ForTest(t, program), launch.ForTest(t, program), launch.ForTest(t, program)
	toPromoted, toOther := newProxy(t, former.Address), newProxy(t, former.Address)
	newWriter(t, former, random).write(t, 200)
	for replica, p := range map[*launch.Server]*proxy{promoted: toPromoted, other: toOther} {
		follow(t, replica, p.port)
		converge(t, former, replica)
	}
	const nowhere = "127.0.0.1:1"
	toPromoted.redirect(nowhere)
	newWriter(t, former, random).write(t, 200)
	converge(t, former, other)
	former = restarted(t, former)
	toOther.redirect(former.Address)
	until(t, other, "master_replid", info(t, former, "master_replid"))
	toOther.redirect(nowhere)
	toPromoted.redirect(former.Address)
	newWriter(t, former, random).write(t, 200)
	converge(t, former, promoted)
	do(t, promoted.MustDial(t), "REPLICAOF", "NO", "ONE")
	follow(t, other, promoted.Port)
	converge(t, promoted, other)
	equal(t, promoted, other)
	if full, _ := syncs(t, promoted); full > 0 {
		t.Error("a replica took all data")
	}
}

// TestKilledWhileCutting kills a former primary while it cuts its log.
func TestKilledWhileCutting(t *testing.T) {
	program, random := launch.MustUnderTest(t), seeded(t)
	p := part(t, program, program)
	former, promoted := p.former, p.promoted
	for range 4 * rounds() {
		idle(t, former)
		if _, err := former.MustDial(t).Do("REPLICAOF", "127.0.0.1", strconv.Itoa(promoted.Port)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(random.IntN(20_000)) * time.Microsecond)
		former.Kill()
		restarted, err := former.Restart()
		if err != nil {
			t.Fatal(err)
		}
		defer launch.End(t, restarted)
		converge(t, promoted, restarted)
		equal(t, promoted, restarted)
		if now, _ := syncs(t, promoted); now != p.full {
			t.Fatal("a former primary that was killed took all data")
		}
		// They change roles: p.other follows the one that is to be left, so that what it says is in
		// the log.
		follow(t, p.other, promoted.Port)
		converge(t, promoted, p.other)
		do(t, restarted.MustDial(t), "REPLICAOF", "NO", "ONE")
		former, promoted = promoted, restarted
		p.full, _ = syncs(t, promoted)
	}
}

// TestPublishWithoutReplicas: a message that nobody else gets is not in the log.
func TestPublishWithoutReplicas(t *testing.T) {
	s := launch.ForTest(t, launch.MustUnderTest(t))
	c := s.MustDial(t)
	do(t, c, "SET", "a", "1")
	before, _ := position(t, s)
	for _, words := range [][]string{{"PUBLISH", "c", "m"}, {"MULTI"}, {"PUBLISH", "c", "m"}, {"PUBLISH", "c", "m"}, {"EXEC"}} {
		do(t, c, words...)
	}
	if after, _ := position(t, s); after != before {
		t.Errorf("the position went from %d to %d", before, after)
	}
}

// TestPublishToRedis: a Redis that follows a Kedis delivers its messages.
func TestPublishToRedis(t *testing.T) {
	primary, replica := launch.ForTest(t, launch.MustUnderTest(t)), launch.ForTest(t, launch.MustOracle(t))
	follow(t, replica, primary.Port)
	converge(t, primary, replica)
	listener := replica.MustDial(t)
	do(t, listener, "SUBSCRIBE", "c")
	do(t, primary.MustDial(t), "PUBLISH", "c", "hello")
	message, err := listener.Read()
	if err != nil || !slices.Equal(message.Strings(), []string{"message", "c", "hello"}) {
		t.Errorf("the message is %s, %v", message, err)
	}
}

// TestPromotedAfterHalfASnapshot: a server that is promoted before it has its primary's data goes
// on with its own, and isn't parted from anybody.
func TestPromotedAfterHalfASnapshot(t *testing.T) {
	primary := newFalsePrimary(t)
	s := launch.ForTest(t, launch.MustUnderTest(t), "--masterauth", "secret")
	c := s.MustDial(t)
	do(t, c, "SET", "own", "1")
	follow(t, s, primary.port)
	d := primary.accept()
	d.reach(stepSnapshot)
	notes := func() int {
		found, err := filepath.Glob(filepath.Join(s.Directory, "binlog", "*.parted"))
		if err != nil {
			t.Fatal(err)
		}
		return len(found)
	}
	eventually(t, "it is noted that the data may be replaced", func() bool { return notes() == 1 })
	do(t, c, "REPLICAOF", "NO", "ONE")
	if notes() != 0 {
		t.Error("the note is there though the server is a primary")
	}
}
