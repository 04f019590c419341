package command

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"kedis/server/enginetest"
)

// letters are members that chance picks.
var letters = regexp.MustCompile(`\b[a-f]( [a-f])*\b`)

func TestSetEffects(t *testing.T) {
	checkEffects(t, letters, []effectCase{
		{"", "SADD s x y", "SADD s x y"},
		{"SADD s x", "SADD s x", ""},
		{"SADD s x y", "SREM s x z", "SREM s x z"},
		{"SADD s x", "SREM s z", ""},
		{"SADD s x y", "SMOVE s z x", "SMOVE s z x"},
		{"SADD s x y", "SMOVE s s x", ""},
		{"SADD s x", "SMOVE s z y", ""},
		{"SADD s a b c d e f", "SPOP s", "SREM s *"},
		{"SADD s a", "SPOP s", "SREM s *"},
		{"SADD s a b c d e f", "SPOP s 3", "SREM s *"},
		{"SADD s a b c d e f", "SPOP s 6", "DEL s"},
		{"SADD s a b c d e f", "SPOP s 0", ""},
		{"", "SPOP s", ""},
		{"SADD s a b c d e f", "SRANDMEMBER s 3", ""},
		{"SADD s x y; SADD z y", "SINTERSTORE w s z", "SINTERSTORE w s z"},
		{"SADD s x y; SADD z y", "SUNIONSTORE s s z", "SUNIONSTORE s s z"},
		{"SADD s x", "SDIFFSTORE w s s", ""},
		{"SADD w x", "SDIFFSTORE w s", "SDIFFSTORE w s"},
		{"SET w x", "SUNIONSTORE w s", "SUNIONSTORE w s"},
		{"SADD s x y; SADD z y", "SUNION s z", ""},
	})
}

// TestLargeSetsLeaveTheReactor: what touches many members runs on a worker, and its log is in
// pieces.
func TestLargeSetsLeaveTheReactor(t *testing.T) {
	engine, log := newTestEngine(t)
	client := newTestClient(t, engine)
	const members = 48000
	sadd := []string{"SADD", "s"}
	for i := range members {
		sadd = append(sadd, "member"+strconv.Itoa(i))
	}
	for _, c := range []struct{ command, reply string }{
		{strings.Join(sadd, " "), ":48000\r\n"},
		{"SUNIONSTORE d s", ":48000\r\n"},
		{"SINTER s none", "*0\r\n"},
		{"SDIFFSTORE e s none", ":48000\r\n"},
		{"SINTERSTORE e s d e", ":48000\r\n"},
		{"SINTERCARD 2 s d LIMIT 47999", ":47999\r\n"},
		{"SDIFF s d", "*0\r\n"},
		{"SPOP d 47000", "*47000\r\n"},
		{"SPOP e 1500", "*1500\r\n"},
		{"SCARD d", ":1000\r\n"},
		{"SCARD e", ":46500\r\n"},
		{"SUNIONSTORE e" + strings.Repeat(" d", 45), ":1000\r\n"},
		{"SINTERCARD 3 s d e", ":1000\r\n"}, // which is not large
	} {
		before := engine.Statistics.Offloads.Load()
		reply := client.Do(strings.Split(c.command, " ")...)
		if !strings.HasPrefix(reply, c.reply) {
			t.Fatalf("%.40q: %.100q, want %q", c.command, reply, c.reply)
		}
		worked := engine.Statistics.Offloads.Load() - before
		small := strings.HasPrefix(c.command, "SCARD") || c.command == "SINTER s none" || c.command == "SINTERCARD 3 s d e"
		if worked != 1 && !small {
			t.Errorf("%.40q ran on the reactor", c.command)
		}
	}
	removed := 0
	for _, request := range enginetest.Requests(t, log.Content) {
		if words := strings.Count(request, " ") + 1; strings.HasPrefix(request, "SREM") {
			removed += words - 2
			if words > 2+removalSize {
				t.Errorf("an effect of %d words", words)
			}
		}
	}
	if removed != 47000+1500 {
		t.Errorf("the log removes %d members", removed)
	}
	replica, _ := newTestEngine(t)
	if err := replica.NewLogApplier().Replay(0, log.Content, log.Position(), time.Now()); err != nil {
		t.Fatal(err)
	}
	if got, want := newTestClient(t, replica).Do("SMEMBERS", "e"), client.Do("SMEMBERS", "e"); got != want {
		t.Errorf("the replica has another set: %d bytes, want %d", len(got), len(want))
	}
}
