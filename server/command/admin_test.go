package command

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"kedis/server/execute"
)

func TestInfo(t *testing.T) {
	engine, _ := newTestEngine(t)
	c := newTestClient(t, engine)
	for _, protocol := range []string{"2", "3"} {
		c.Do("HELLO", protocol)
		lines := strings.Split(c.Do("INFO", "everything"), "\r\n")
		prefix := map[string]string{"2": "$", "3": "="}[protocol]
		if !strings.HasPrefix(lines[0], prefix) {
			t.Errorf("RESP%s: the reply begins with %q", protocol, lines[0])
		}
		var sections []string
		seen := map[string]bool{}
		for i, line := range lines[1:] {
			line = strings.TrimPrefix(line, "txt:")
			name, isSection := strings.CutPrefix(line, "# ")
			field, _, isField := strings.Cut(line, ":")
			switch {
			case isSection:
				sections = append(sections, name)
			case line == "":
			case !isField || seen[field]:
				t.Errorf("line %d is no field, or comes twice: %q", i+1, line)
			}
			seen[field] = true
		}
		want := []string{"Server", "Clients", "Memory", "Persistence", "Stats", "Replication", "CPU", "Modules", "Commandstats",
			"Errorstats", "Latencystats", "Cluster", "Keyspace", "Limits", "Tier", "Binlog", "RocksDB"}
		if !slices.Equal(sections, want) {
			t.Errorf("the sections are %q, want %q", sections, want)
		}
	}
}

func TestStatistics(t *testing.T) {
	engine, _ := newTestEngine(t)
	c := newTestClient(t, engine)
	c.Do("SET", "a", "1")
	c.Do("GET", "a")
	c.Do("GET", "b")
	c.Do("EXISTS", "a", "b", "c")
	c.Do("GET")
	c.Do("LPUSH", "a", "x")
	c.Do("NOTHING")
	c.Do("MULTI")
	c.Do("GET", "a")
	c.Do("INCR", "a")
	c.Do("EXEC")
	for name, want := range map[string]string{
		"keyspace_hits":       "3",
		"keyspace_misses":     "3",
		"total_error_replies": "3",
		"errorstat_ERR":       "count=2",
		"errorstat_WRONGTYPE": "count=1",
		"db0":                 "keys=1,expires=0,avg_ttl=0",
	} {
		if got := c.Info(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	for name, want := range map[string]string{
		"cmdstat_get":   `calls=3,.*,rejected_calls=1,failed_calls=0`,
		"cmdstat_lpush": `calls=1,.*,rejected_calls=0,failed_calls=1`,
		"cmdstat_incr":  `calls=1,.*`,
		"cmdstat_exec":  `calls=1,.*`,
	} {
		if got := c.Info(name); !regexp.MustCompile("^" + want + "$").MatchString(got) {
			t.Errorf("%s is %q, want %s", name, got, want)
		}
	}
	c.Do("CONFIG", "RESETSTAT")
	for name, want := range map[string]string{"keyspace_hits": "0", "total_error_replies": "0", "errorstat_ERR": "", "cmdstat_get": "",
		"latency_percentiles_usec_get": ""} {
		if got := c.Info(name); got != want {
			t.Errorf("after CONFIG RESETSTAT %s is %q, want %q", name, got, want)
		}
	}
}

func TestSlowlogAndSecrets(t *testing.T) {
	engine, _ := newTestEngine(t)
	c := newTestClient(t, engine)
	c.Set("slowlog-log-slower-than", "0")
	c.Do("SLOWLOG", "RESET")
	c.Do("CLIENT", "SETNAME", "me")
	c.Do("AUTH", "default", "guess")
	c.Do("HELLO", "2", "AUTH", "default", "guess", "SETNAME", "you")
	c.Do("CONFIG", "SET", "requirepass", "guess", "hz", "10")
	c.Do("MULTI")
	c.Do("SET", "key", "value")
	c.Do("EXEC")
	var shown []string
	for _, entry := range slices.Backward(engine.Slowlog.Latest(-1)) {
		shown = append(shown, fmt.Sprintf("%s %q", entry.Name, entry.Arguments))
	}
	want := []string{
		` ["SLOWLOG" "RESET"]`,
		`me ["CLIENT" "SETNAME" "me"]`,
		`me ["AUTH" "(redacted)" "(redacted)"]`,
		`you ["HELLO" "2" "AUTH" "(redacted)" "(redacted)" "SETNAME" "you"]`,
		`you ["CONFIG" "SET" "requirepass" "(redacted)" "hz" "10"]`,
		`you ["MULTI"]`,
		`you ["SET" "key" "value"]`,
	}
	if !slices.Equal(shown, want) {
		t.Errorf("the slow log holds\n%s\nwant\n%s", strings.Join(shown, "\n"), strings.Join(want, "\n"))
	}
}

// watcher is the peer of a session that gets what is pushed.
type watcher struct {
	execute.Nowhere
	lines []string
}

func (w *watcher) Send(b []byte, _ func() bool) { w.lines = append(w.lines, string(b)) }

func TestMonitorOrder(t *testing.T) {
	engine, _ := newTestEngine(t)
	w := new(watcher)
	monitor := &testClient{T: t, Engine: engine, Batch: engine.NewBatch(0), Session: execute.NewSession(w, true)}
	monitor.Do("MONITOR")
	w.lines = nil
	c := newTestClient(t, engine)
	for _, request := range []string{"SELECT 2", "MULTI", "SET a 1", "SELECT 3", "GET a", "EXEC", "CONFIG GET port", "AUTH x y"} {
		c.Do(strings.Fields(request)...)
	}
	var seen []string
	for _, line := range w.lines {
		_, line, _ = strings.Cut(strings.TrimSpace(line), "[")
		seen = append(seen, line)
	}
	want := []string{`2 ] "SELECT" "2"`, `2 ] "MULTI"`, `2 ] "SET" "a" "1"`, `3 ] "SELECT" "3"`, `3 ] "GET" "a"`, `3 ] "EXEC"`,
		`3 ] "AUTH" "(redacted)" "(redacted)"`}
	if !slices.Equal(seen, want) {
		t.Errorf("the monitor saw\n%s\nwant\n%s", strings.Join(seen, "\n"), strings.Join(want, "\n"))
	}
	monitor.Do("RESET")
	c.Do("PING")
	if len(w.lines) != len(want) {
		t.Errorf("after RESET it saw %q", w.lines[len(want):])
	}
}

func TestLatencyEvents(t *testing.T) {
	engine, _ := newTestEngine(t)
	c := newTestClient(t, engine)
	engine.NoteLatency("command", time.Second)
	if reply := c.Do("LATENCY", "LATEST"); reply != "*0\r\n" {
		t.Errorf("without a threshold there is %q", reply)
	}
	c.Set("latency-monitor-threshold", "100")
	engine.NoteLatency("command", 99*time.Millisecond)
	engine.NoteLatency("commit", 250*time.Millisecond)
	if reply := c.Do("LATENCY", "LATEST"); !regexp.MustCompile(`^\*1\r\n\*4\r\n\$6\r\ncommit\r\n:\d+\r\n:250\r\n:250\r\n$`).MatchString(reply) {
		t.Errorf("LATENCY LATEST: %q", reply)
	}
	if reply := c.Do("LATENCY", "DOCTOR"); !strings.Contains(reply, "1. commit: 1 times lately, 250 ms on average, 250 ms at worst") {
		t.Errorf("LATENCY DOCTOR: %s", reply)
	}
	if reply := c.Do("LATENCY", "RESET", "commit", "nothing"); reply != ":1\r\n" {
		t.Errorf("LATENCY RESET: %q", reply)
	}
}

func TestClientLine(t *testing.T) {
	engine, _ := newTestEngine(t)
	c := newTestClient(t, engine)
	engine.Clients.Add(c.Session)
	c.Do("HELLO", "3", "SETNAME", "me")
	c.Do("CLIENT", "SETINFO", "LIB-NAME", "lib")
	c.Do("CLIENT", "NO-TOUCH", "ON")
	c.Do("SELECT", "5")
	c.Do("WATCH", "a", "b")
	c.Do("MULTI")
	c.Do("SET", "key", "12345")
	line := string(describe(&Invocation{Engine: engine, Session: c.Session, Request: &Request{}}, nil, c.Session))
	want := regexp.MustCompile(`^id=1 addr= laddr= fd=-1 name=me age=\d+ idle=\d+ flags=xT db=5 sub=0 psub=0 ssub=0 multi=1 watch=2 qbuf=0 qbuf-free=0 ` +
		`argv-mem=0 multi-mem=11 rbs=0 rbp=0 obl=0 oll=0 omem=0 tot-mem=\d+ events=r cmd=set user=default redir=-1 resp=3 lib-name=lib lib-ver=$`)
	if !want.MatchString(line) {
		t.Errorf("%s\ndoes not match %s", line, want)
	}
	c.Do("RESET")
	line = string(describe(&Invocation{Engine: engine, Session: c.Session, Request: &Request{}}, nil, c.Session))
	if !regexp.MustCompile(` name= .* flags=N db=0 .* multi=-1 watch=0 .* cmd=reset .* resp=2 lib-name=lib `).MatchString(line) {
		t.Errorf("after RESET: %s", line)
	}
}

func TestShutdownWords(t *testing.T) {
	for words, good := range map[string]bool{"": true, "save": true, "NOSAVE": true, "now force": true, "save now force": true, "abort": true,
		"save save": true, "save nosave": false, "abort now": false, "abort save": false, "foo": false, "save foo": false} {
		var split [][]byte
		for _, word := range strings.Fields(words) {
			split = append(split, []byte(word))
		}
		if _, err := parseShutdown(split); (err == nil) != good {
			t.Errorf("SHUTDOWN %s: %v", words, err)
		}
	}
}
