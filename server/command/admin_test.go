package command

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// info returns a field of INFO.
func (c *testClient) info(name string) string {
	c.t.Helper()
	for line := range strings.Lines(c.do("INFO", "everything")) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+":"); ok {
			return value
		}
	}
	return ""
}

// set changes an option.
func (c *testClient) set(option, value string) {
	c.t.Helper()
	if reply := c.do("CONFIG", "SET", option, value); reply != "+OK\r\n" {
		c.t.Fatalf("CONFIG SET %s %s: %s", option, value, reply)
	}
}

func TestInfo(t *testing.T) {
	engine, _ := newTestEngine(t)
	c := newTestClient(t, engine)
	for _, protocol := range []string{"2", "3"} {
		c.do("HELLO", protocol)
		lines := strings.Split(c.do("INFO", "everything"), "\r\n")
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
			"Errorstats", "Latencystats", "Cluster", "Keyspace", "Tier", "Binlog", "RocksDB"}
		if !slices.Equal(sections, want) {
			t.Errorf("the sections are %q, want %q", sections, want)
		}
	}
}

func TestStatistics(t *testing.T) {
	engine, _ := newTestEngine(t)
	c := newTestClient(t, engine)
	c.do("SET", "a", "1")
	c.do("GET", "a")
	c.do("GET", "b")
	c.do("EXISTS", "a", "b", "c")
	c.do("GET")
	c.do("LPUSH", "a", "x")
	c.do("NOTHING")
	c.do("MULTI")
	c.do("GET", "a")
	c.do("INCR", "a")
	c.do("EXEC")
	for name, want := range map[string]string{
		"keyspace_hits":       "3",
		"keyspace_misses":     "3",
		"total_error_replies": "3",
		"errorstat_ERR":       "count=2",
		"errorstat_WRONGTYPE": "count=1",
		"db0":                 "keys=1,expires=0,avg_ttl=0",
	} {
		if got := c.info(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	for name, want := range map[string]string{
		"cmdstat_get":   `calls=3,.*,rejected_calls=1,failed_calls=0`,
		"cmdstat_lpush": `calls=1,.*,rejected_calls=0,failed_calls=1`,
		"cmdstat_incr":  `calls=1,.*`,
		"cmdstat_exec":  `calls=1,.*`,
	} {
		if got := c.info(name); !regexp.MustCompile("^" + want + "$").MatchString(got) {
			t.Errorf("%s is %q, want %s", name, got, want)
		}
	}
	c.do("CONFIG", "RESETSTAT")
	for name, want := range map[string]string{"keyspace_hits": "0", "total_error_replies": "0", "errorstat_ERR": "", "cmdstat_get": "",
		"latency_percentiles_usec_get": ""} {
		if got := c.info(name); got != want {
			t.Errorf("after CONFIG RESETSTAT %s is %q, want %q", name, got, want)
		}
	}
}

func TestErrorCodesAreBounded(t *testing.T) {
	var errors errorCounts
	for i := range 1000 {
		errors.add(fmt.Sprintf("CODE%d made up", i))
	}
	errors.add("nothing")
	errors.add(strings.Repeat("x", 100) + " too long for a code")
	codes, sum := 0, int64(0)
	errors.each(func(_ string, count int64) {
		codes++
		sum += count
	})
	if codes != mostErrorCodes+1 || sum != 1002 || errors.sum() != 1002 {
		t.Errorf("%d codes, %d errors, %d in all", codes, sum, errors.sum())
	}
}

func TestSlowlogAndSecrets(t *testing.T) {
	engine, _ := newTestEngine(t)
	c := newTestClient(t, engine)
	c.set("slowlog-log-slower-than", "0")
	c.do("SLOWLOG", "RESET")
	c.do("CLIENT", "SETNAME", "me")
	c.do("AUTH", "default", "guess")
	c.do("HELLO", "2", "AUTH", "default", "guess", "SETNAME", "you")
	c.do("CONFIG", "SET", "requirepass", "guess", "hz", "10")
	c.do("MULTI")
	c.do("SET", "key", "value")
	c.do("EXEC")
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
	nowhere
	lines []string
}

func (w *watcher) Send(b []byte) { w.lines = append(w.lines, string(b)) }

func TestMonitorOrder(t *testing.T) {
	engine, _ := newTestEngine(t)
	w := new(watcher)
	monitor := &testClient{t, engine, engine.NewBatch(0), NewSession(w, true)}
	monitor.do("MONITOR")
	w.lines = nil
	c := newTestClient(t, engine)
	for _, request := range []string{"SELECT 2", "MULTI", "SET a 1", "SELECT 3", "GET a", "EXEC", "CONFIG GET port", "AUTH x y"} {
		c.do(strings.Fields(request)...)
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
	monitor.do("RESET")
	c.do("PING")
	if len(w.lines) != len(want) {
		t.Errorf("after RESET it saw %q", w.lines[len(want):])
	}
}

func TestLatencyEvents(t *testing.T) {
	engine, _ := newTestEngine(t)
	c := newTestClient(t, engine)
	engine.noteLatency("command", time.Second)
	if reply := c.do("LATENCY", "LATEST"); reply != "*0\r\n" {
		t.Errorf("without a threshold there is %q", reply)
	}
	c.set("latency-monitor-threshold", "100")
	engine.noteLatency("command", 99*time.Millisecond)
	engine.noteLatency("commit", 250*time.Millisecond)
	if reply := c.do("LATENCY", "LATEST"); !regexp.MustCompile(`^\*1\r\n\*4\r\n\$6\r\ncommit\r\n:\d+\r\n:250\r\n:250\r\n$`).MatchString(reply) {
		t.Errorf("LATENCY LATEST: %q", reply)
	}
	if reply := c.do("LATENCY", "DOCTOR"); !strings.Contains(reply, "1. commit: 1 times lately, 250 ms on average, 250 ms at worst") {
		t.Errorf("LATENCY DOCTOR: %s", reply)
	}
	if reply := c.do("LATENCY", "RESET", "commit", "nothing"); reply != ":1\r\n" {
		t.Errorf("LATENCY RESET: %q", reply)
	}
}

func TestPauseNeverGetsMilder(t *testing.T) {
	var p pause
	mode := func() pauseMode { return pauseMode(p.mode.Load()) }
	later := time.Now().Add(time.Hour)
	p.begin(pauseWrites, later)
	p.begin(pauseEverything, time.Now())
	if mode() != pauseEverything || !p.end.Equal(later) {
		t.Errorf("mode %d until %v, want everything until %v", mode(), p.end, later)
	}
	p.begin(pauseWrites, later.Add(time.Hour))
	if mode() != pauseEverything || !p.end.Equal(later.Add(time.Hour)) {
		t.Errorf("mode %d until %v", mode(), p.end)
	}
	p.over(later) // the timer of the shorter pause
	if mode() != pauseEverything {
		t.Error("a timer that no longer counts has ended the pause")
	}
	p.finish()
	if mode() != pauseNothing {
		t.Error("the pause goes on")
	}
}

func TestPauseHolds(t *testing.T) {
	engine, _ := newTestEngine(t)
	c := newTestClient(t, engine)
	holds := func(mode pauseMode, request string) bool {
		engine.pause.mode.Store(int32(mode))
		defer engine.pause.mode.Store(int32(pauseNothing))
		args := words(strings.Fields(request)...)
		command, _ := engine.Table.Lookup(args)
		return engine.pause.holds(c.session, command)
	}
	for request, writes := range map[string]bool{"GET a": false, "SET a 1": true, "PFCOUNT a": true, "PUBLISH a b": true, "SORT a": true, "SORT_RO a": false,
		"SORT a STORE b": true, "CLIENT UNPAUSE": false, "EXEC": false} {
		if holds(pauseWrites, request) != writes || !holds(pauseEverything, request) {
			t.Errorf("%s: a pause of writes holds it: %v, of everything: %v", request, !writes, holds(pauseEverything, request))
		}
	}
	c.do("MULTI")
	c.do("SET", "a", "1")
	if !holds(pauseWrites, "EXEC") {
		t.Error("EXEC that writes is not held")
	}
}

func TestClientLine(t *testing.T) {
	engine, _ := newTestEngine(t)
	c := newTestClient(t, engine)
	engine.Clients.Add(c.session)
	c.do("HELLO", "3", "SETNAME", "me")
	c.do("CLIENT", "SETINFO", "LIB-NAME", "lib")
	c.do("CLIENT", "NO-TOUCH", "ON")
	c.do("SELECT", "5")
	c.do("WATCH", "a", "b")
	c.do("MULTI")
	c.do("SET", "key", "12345")
	line := string((&Context{Engine: engine, Session: c.session}).describe(nil, c.session))
	want := regexp.MustCompile(`^id=1 addr= laddr= fd=-1 name=me age=\d+ idle=\d+ flags=xT db=5 sub=0 psub=0 ssub=0 multi=1 watch=2 qbuf=0 qbuf-free=0 ` +
		`argv-mem=0 multi-mem=11 rbs=0 rbp=0 obl=0 oll=0 omem=0 tot-mem=\d+ events=r cmd=set user=default redir=-1 resp=3 lib-name=lib lib-ver=$`)
	if !want.MatchString(line) {
		t.Errorf("%s\ndoes not match %s", line, want)
	}
	c.do("RESET")
	line = string((&Context{Engine: engine, Session: c.session}).describe(nil, c.session))
	if !regexp.MustCompile(` name= .* flags=N db=0 .* multi=-1 watch=0 .* cmd=reset .* resp=2 lib-name=lib `).MatchString(line) {
		t.Errorf("after RESET: %s", line)
	}
}

func TestSaves(t *testing.T) {
	engine, _ := newTestEngine(t)
	c := newTestClient(t, engine)
	if err := engine.Config.SetFlag("dir", t.TempDir()); err != nil {
		t.Fatal(err)
	}
	if !engine.saves.begin() {
		t.Fatal("a checkpoint is being made")
	}
	for _, request := range [][]string{{"SAVE"}, {"BGSAVE"}} {
		if reply := c.do(request...); reply != "-ERR Background save already in progress\r\n" {
			t.Errorf("%s while one is made: %q", request, reply)
		}
	}
	if got := c.info("rdb_bgsave_in_progress"); got != "1" {
		t.Errorf("rdb_bgsave_in_progress is %s", got)
	}
	if err := engine.makeCheckpoint(); err != nil {
		t.Fatal(err)
	}
	c.do("SET", "key", "value")
	if got := c.info("rdb_changes_since_last_save"); got != "1" {
		t.Errorf("rdb_changes_since_last_save is %s", got)
	}
	if reply := c.do("BGSAVE"); reply != "+Background saving started\r\n" {
		t.Errorf("BGSAVE: %q", reply)
	}
	engine.saves.running.Wait()
	if reply := c.do("SAVE"); reply != "+OK\r\n" {
		t.Errorf("SAVE: %q", reply)
	}
	for name, want := range map[string]string{"rdb_saves": "3", "rdb_last_bgsave_status": "ok", "rdb_bgsave_in_progress": "0",
		"rdb_changes_since_last_save": "0"} {
		if got := c.info(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if err := engine.Config.SetFlag("checkpoint-dir", "/dev/null/nothing"); err != nil {
		t.Fatal(err)
	}
	if reply := c.do("SAVE"); !strings.HasPrefix(reply, "-ERR the checkpoint could not be made: ") {
		t.Errorf("SAVE to nowhere: %q", reply)
	}
	if got := c.info("rdb_last_bgsave_status"); got != "err" {
		t.Errorf("rdb_last_bgsave_status is %s", got)
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

func TestMemoryDoctor(t *testing.T) {
	engine, _ := newTestEngine(t)
	c := newTestClient(t, engine)
	c.do("MEMORY", "PURGE") // of what other tests have left
	if reply := c.do("MEMORY", "DOCTOR"); !strings.Contains(reply, "Nothing is wrong") {
		t.Errorf("MEMORY DOCTOR of a small server: %s", reply)
	}
	engine.machineMemory = 1 << 20
	if reply := c.do("MEMORY", "DOCTOR"); !strings.Contains(reply, "may take") {
		t.Errorf("MEMORY DOCTOR of a machine that is too small: %s", reply)
	}
}
