package crash

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"kedis/redis-tests/launch"
)

// TestSyncedBeforeTheReply: with appendfsync always the log is synced, with what a write has
// brought, before the client is answered. The kernel's calls tell; that they do is shown by a
// server that syncs each second.
func TestSyncedBeforeTheReply(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		launch.Skip(t, "%v: the order of syncs and replies isn't tested", err)
	}
	if output, err := exec.Command(strace, "-o", os.DevNull, "true").CombinedOutput(); err != nil {
		launch.Skip(t, "strace: %v %s: the order of syncs and replies isn't tested", err, output)
	}
	const writes = 30
	for _, one := range []struct {
		fsync string
		holds func(early int) bool
	}{
		{"always", func(early int) bool { return early == 0 }},
		{"everysec", func(early int) bool { return early > 0 }},
	} {
		t.Run(one.fsync, func(t *testing.T) {
			t.Parallel()
			calls := callsOf(t, strace, writes, "--appendfsync", one.fsync)
			replies, early := repliesAheadOfSync(calls)
			if replies != writes || !one.holds(early) {
				t.Errorf("of %d writes %d are answered, %d of them ahead of the sync; the calls are\n%s", writes, replies, early, strings.Join(calls, "\n"))
			}
		})
	}
}

// callsOf has a server increment a number so many times, and returns its calls that write and sync,
// in the order in which they began and, those that took longer, ended. The server is the test's own
// child, and strace is done when it has ended (-D).
func callsOf(t *testing.T, strace string, writes int, options ...string) []string {
	t.Helper()
	program, output := launch.MustUnderTest(t), filepath.Join(t.TempDir(), "calls")
	program.Line = slices.Concat([]string{strace, "-D", "-f", "-y", "-o", output, "-e", "trace=write,writev,sendto,sendmsg,pwrite64,pwritev,fsync,fdatasync"}, program.Line)
	server := launch.ForTest(t, program, options...)
	connection := server.MustDial(t)
	for i := range writes {
		if reply, err := connection.Do("incr", "number"); err != nil || reply.String() != fmt.Sprint(":", i+1) {
			t.Fatalf("INCR answers %s (%v)", reply, err)
		}
	}
	if err := server.Shutdown(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(output)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

// What a line of strace is: PID NAME(DESCRIPTOR<FILE>, … = RESULT. A call during which others go on
// stands in two lines: PID NAME(DESCRIPTOR<FILE>, … <unfinished ...>, and PID <... NAME resumed>) =
// RESULT.
var (
	replyLine   = regexp.MustCompile(`^\d+ +(write|writev|sendto|sendmsg)\(\d+<(socket|TCP):[^>]*>.*":\d+\\r\\n"`)
	recordLine  = regexp.MustCompile(`^\d+ +p?writev?(64)?\(\d+<[^>]*/binlog/[^>]*\.log>`)
	syncLine    = regexp.MustCompile(`^(\d+) +f(data)?sync\(\d+<[^>]*/binlog/[^>]*\.log>(\) += 0| <unfinished)`)
	resumedLine = regexp.MustCompile(`^(\d+) +<\.\.\. f(data)?sync resumed>\) += 0`)
)

// repliesAheadOfSync counts replies, and those since whose record no sync of the log has begun and
// ended.
func repliesAheadOfSync(calls []string) (replies, early int) {
	synced := false
	running := map[string]bool{} // syncs, by thread, and whether a record came since they began
	for _, call := range calls {
		switch {
		case replyLine.MatchString(call):
			replies++
			if !synced {
				early++
			}
			synced = false
		case recordLine.MatchString(call):
			synced = false
			for thread := range running {
				running[thread] = true
			}
		case syncLine.MatchString(call):
			if strings.Contains(call, "<unfinished") {
				running[syncLine.FindStringSubmatch(call)[1]] = false
			} else {
				synced = true
			}
		case resumedLine.MatchString(call):
			thread := resumedLine.FindStringSubmatch(call)[1]
			if late, known := running[thread]; known && !late {
				synced = true
			}
			delete(running, thread)
		}
	}
	return replies, early
}
