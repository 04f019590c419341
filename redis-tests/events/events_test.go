// Package events compares what is told of keys with what redis-server tells: keyspace
// notifications, for every command.
//
// It imports the standard library and its neighbours in redis-tests, nothing of Kedis.
package events

import (
	"bufio"
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"kedis/redis-tests/launch"
	"kedis/redis-tests/resp"
)

//go:embed requests.txt
var requests string

// withoutEvents are the commands on keys that leave no events, and whose keys can't be asked for
// here.
var withoutEvents = map[string]string{
	"migrate": "is sent to another server; see redis-tests/migrate",
	"unwatch": "has no keys",

	"hexpire":      "isn't in 7.0; hash_expiry.txt has its events, from Redis 8",
	"hpexpire":     "isn't in 7.0; hash_expiry.txt has its events, from Redis 8",
	"hexpireat":    "isn't in 7.0; hash_expiry.txt has its events, from Redis 8",
	"hpexpireat":   "isn't in 7.0; hash_expiry.txt has its events, from Redis 8",
	"httl":         "isn't in 7.0; hash_expiry.txt has its events, from Redis 8",
	"hpttl":        "isn't in 7.0; hash_expiry.txt has its events, from Redis 8",
	"hexpiretime":  "isn't in 7.0; hash_expiry.txt has its events, from Redis 8",
	"hpexpiretime": "isn't in 7.0; hash_expiry.txt has its events, from Redis 8",
	"hpersist":     "isn't in 7.0; hash_expiry.txt has its events, from Redis 8",
	"hgetdel":      "isn't in 7.0; hash_expiry.txt has its events, from Redis 8",
	"hgetex":       "isn't in 7.0; hash_expiry.txt has its events, from Redis 8",
	"hsetex":       "isn't in 7.0; hash_expiry.txt has its events, from Redis 8",
	"digest":       "isn't in 7.0; newer.txt has its events",
	"delex":        "isn't in 7.0; newer.txt has its events",
	"delifeq":      "isn't in 7.0; newer.txt has its events",
	"msetex":       "isn't in 7.0; newer.txt has its events",
	"increx":       "isn't in 7.0; newer.txt has its events",
	"xdelex":       "isn't in 7.0; newer.txt has its events",
	"xackdel":      "isn't in 7.0; newer.txt has its events",
	"fcall":        "leaves the events of what its function calls, as eval does",
	"fcall_ro":     "leaves the events of what its function calls, as eval does",

	"ssubscribe": "has channels", "sunsubscribe": "has channels", "spublish": "has channels",
}

// server is a server with one that listens to its events.
type server struct {
	*resp.Connection
	listener *resp.Connection
	marks    int
}

// everyEvent asks for all that there is.
const everyEvent = "KEAnm"

func listen(t *testing.T, s *launch.Server) *server {
	t.Helper()
	l := &server{Connection: s.MustDial(t), listener: s.MustDial(t)}
	l.must(t, "config", "set", "notify-keyspace-events", everyEvent)
	if _, err := l.listener.Must("psubscribe", "*"); err != nil {
		t.Fatal(err)
	}
	return l
}

func (s *server) must(t *testing.T, words ...string) resp.Reply {
	t.Helper()
	reply, err := s.Must(words...)
	if err != nil {
		t.Fatal(err)
	}
	return reply
}

// run sends a request and returns its reply, and what the listener was told meanwhile.
func (s *server) run(t *testing.T, words []string) (reply string, events []string) {
	t.Helper()
	s.marks++
	mark := fmt.Sprint("mark ", s.marks)
	s.Queue(words...)
	if !slices.Contains(queueing, strings.ToLower(words[0])) {
		s.Queue("publish", "end", mark)
	}
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	answer, err := s.Read()
	if err != nil {
		t.Fatalf("%s: %v", resp.Line(words), err)
	}
	if slices.Contains(queueing, strings.ToLower(words[0])) {
		return answer.String(), nil
	}
	if published, err := s.Read(); err != nil || published.IsError() || published.Is("QUEUED") {
		return answer.String(), nil
	}
	return answer.String(), s.until(t, mark)
}

// queueing are the commands behind which a mark would be queued.
var queueing = []string{"multi"}

// until returns the messages up to the mark.
func (s *server) until(t *testing.T, mark string) (events []string) {
	t.Helper()
	for {
		message, err := s.listener.Read()
		if err != nil {
			t.Fatal(err)
		}
		channel, text := string(message.Elements[2].Text), string(message.Elements[3].Text)
		switch {
		case channel != "end":
			events = append(events, channel+" "+text)
		case text == mark:
			return events
		}
	}
}

// blocks are the parts of the requests that begin with empty databases.
func blocks(t *testing.T) (all [][][]string) {
	t.Helper()
	lines := bufio.NewScanner(strings.NewReader(requests))
	fresh := true
	for lines.Scan() {
		line := lines.Text()
		switch {
		case strings.HasPrefix(line, "#"):
		case line == "":
			fresh = true
		default:
			words, err := resp.SplitLine(line)
			if err != nil {
				t.Fatal(err)
			}
			if fresh {
				all, fresh = append(all, nil), false
			}
			all[len(all)-1] = append(all[len(all)-1], words)
		}
	}
	return all
}

// TestEventsOfEveryCommand compares replies and events of all requests, with all events and with
// some.
func TestEventsOfEveryCommand(t *testing.T) {
	redis, kedis := launch.Pair(t)
	oracle, tested := listen(t, redis), listen(t, kedis)
	for _, s := range []*server{oracle, tested} {
		s.must(t, "debug", "set-active-expire", "0") // what has expired goes when a command finds it
	}
	for _, classes := range []string{everyEvent, "K$z", "Egx", "Km", "En", "KElshd", "A", ""} {
		t.Run(classes, func(t *testing.T) {
			for _, s := range []*server{oracle, tested} {
				s.must(t, "config", "set", "notify-keyspace-events", classes)
			}
			compareAll(t, oracle, tested)
		})
	}
}

func compareAll(t *testing.T, oracle, tested *server) {
	for _, block := range blocks(t) {
		for _, s := range []*server{oracle, tested} {
			s.must(t, "select", "0")
			if _, events := s.run(t, []string{"flushall"}); events != nil {
				t.Errorf("FLUSHALL told of %q", events)
			}
		}
		for len(block) > 0 {
			together := 1
			for together < len(block) && block[together][0] == "+" {
				block[together] = block[together][1:]
				together++
			}
			compare(t, oracle, tested, block[:together])
			block = block[together:]
		}
	}
}

// chance are the commands whose replies may differ.
var chance = []string{"randomkey", "debug", "memory", "keys", "ttl", "pttl", "spop", "sunion",
	"xinfo", "xpending", "xclaim", "xautoclaim"} // of idle times

func compare(t *testing.T, oracle, tested *server, requests [][]string) {
	t.Helper()
	var got, want []string
	var lines []string
	for _, words := range requests {
		if words[0] == "@wait" {
			time.Sleep(30 * time.Millisecond)
			continue
		}
		wantReply, wanted := oracle.run(t, words)
		reply, told := tested.run(t, words)
		if strings.HasPrefix(wantReply, "-") || strings.HasPrefix(reply, "-") {
			wanted, told = slices.DeleteFunc(wanted, isMiss), slices.DeleteFunc(told, isMiss)
		}
		want, got = append(want, wanted...), append(got, told...)
		lines = append(lines, resp.Line(words))
		if reply != wantReply && !slices.Contains(chance, strings.ToLower(words[0])) {
			t.Errorf("%s was answered %s, by redis-server %s", resp.Line(words), reply, wantReply)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s told of\n\t%s\nand redis-server of\n\t%s", strings.Join(lines, "; "), strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

// isMiss reports whether an event is that of a missing key. A request that fails leaves nothing, in
// Redis it may have missed keys before.
func isMiss(event string) bool { return strings.Contains(event, "keymiss") }

// TestEveryCommandIsHere finds commands on keys that the requests lack.
func TestEveryCommandIsHere(t *testing.T) {
	asked := map[string]bool{}
	for _, block := range blocks(t) {
		for _, words := range block {
			asked[words[0]] = true
			if len(words) > 1 {
				asked[words[0]+"|"+words[1]] = true
			}
		}
	}
	connection := launch.ForTest(t, launch.MustUnderTest(t)).MustDial(t)
	reply, err := connection.Must("command")
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range reply.Elements {
		lack(t, command, asked)
	}
}

func lack(t *testing.T, command resp.Reply, asked map[string]bool) {
	t.Helper()
	name, first := string(command.Elements[0].Text), string(command.Elements[3].Text)
	specifications := command.Elements[8].Elements
	if (first != "0" || len(specifications) > 0) && !asked[name] && withoutEvents[name] == "" {
		t.Errorf("%s has keys, and requests.txt doesn't ask for its events", name)
	}
	for _, subcommand := range command.Elements[9].Elements {
		lack(t, subcommand, asked)
	}
}
