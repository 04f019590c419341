package replication

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"kedis/redis-tests/launch"
)

const (
	greatest = "9223372036854775807"
	least    = "-9223372036854775808"
)

// TestNonsensicalAcknowledgements has a replica acknowledge what it can't have. It is left, and
// WAIT doesn't count it.
func TestNonsensicalAcknowledgements(t *testing.T) {
	primary := launch.ForTest(t, launch.MustUnderTest(t))
	c := primary.MustDial(t)
	for _, says := range [][]string{{greatest}, {"-1"}, {least}, {"9223372036854775808"}, {"x"}, {"0", "FACK", greatest}, {"0", "FACK", "-1"}} {
		r := attach(t, primary)
		r.takeSnapshot()
		do(t, c, "INCR", "n")
		r.say(append([]string{"REPLCONF", "ACK"}, says...)...)
		r.ended()
		expect(t, c, ":0", "WAIT", "1", "20")
	}
}

// TestNonsensicalPositions asks for the stream from where it can't be: all data come.
func TestNonsensicalPositions(t *testing.T) {
	primary := launch.ForTest(t, launch.MustUnderTest(t))
	for _, from := range []string{greatest, least, "0", "1000000"} {
		r := &scripted{t: t, conn: dial(t, primary)}
		r.reader = newDialogue(t, r.conn).reader
		r.say("REPLCONF", "capa", "eof", "capa", "psync2")
		r.line("+OK")
		r.say("PSYNC", info(t, primary, "master_replid"), from)
		r.line("+FULLRESYNC ")
	}
}

// TestFailoverToNowhere has the only replica say that it is where nobody can be: it isn't failed
// over to, and the primary starts again.
func TestFailoverToNowhere(t *testing.T) {
	for _, place := range [][2]string{{"127.0.0.1", "70000"}, {"127.0.0.1", "-1"}, {"two words", "7000"}, {"\v", "7000"}} {
		primary := launch.ForTest(t, launch.MustUnderTest(t))
		c := primary.MustDial(t)
		r := &scripted{t: t, conn: dial(t, primary)}
		r.reader = newDialogue(t, r.conn).reader
		r.say("REPLCONF", "capa", "eof", "capa", "psync2", "ip-address", place[0], "listening-port", place[1])
		r.line("+OK")
		r.say("PSYNC", "?", "-1")
		r.line("+FULLRESYNC ")
		r.takeSnapshot()
		r.say("REPLCONF", "ACK", info(t, primary, "master_repl_offset"))
		online(t, primary, 1)
		reply, err := c.Do("FAILOVER", "TO", place[0], place[1], "FORCE", "TIMEOUT", "10")
		if err != nil || string(reply.Text) != "ERR FAILOVER target HOST and PORT is not a replica." {
			t.Errorf("%q: %s, %v", place, reply, err)
		}
		expect(t, c, "+OK", "FAILOVER", "TIMEOUT", "200")
		for deadline := time.Now().Add(30 * time.Second); info(t, primary, "master_failover_state") != "no-failover"; {
			if time.Now().After(deadline) {
				t.Fatalf("%q: the failover goes on", place)
			}
			r.say("REPLCONF", "ACK", info(t, primary, "master_repl_offset"))
			time.Sleep(time.Millisecond)
		}
		expect(t, c, "+OK", "SET", "key", "1")
		if role := do(t, c, "ROLE"); !strings.Contains(role.String(), "master") {
			t.Errorf("%q: %s", place, role)
		}
		primary.Kill()
		again, err := primary.Restart()
		if err != nil {
			t.Fatalf("%q: %v", place, err)
		}
		t.Cleanup(func() { launch.End(t, again) })
		expect(t, again.MustDial(t), strconv.Quote("1"), "GET", "key")
		again.Kill()
	}
}
