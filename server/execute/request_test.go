package execute

import (
	"fmt"
	"strings"
	"testing"

	"kedis/storage"
)

// describeRequest lists what is known of a request: the effective flags that matter to locks, the
// keys with their locks' stripes, and what is prefetched.
func describeRequest(e *Engine, r *Request) string {
	if err := r.refusal(); err != nil {
		return strings.TrimSpace(err.Error())
	}
	var d strings.Builder
	if r.flags&Write != 0 {
		d.WriteString("writes ")
	}
	for _, k := range r.keys {
		database := r.database
		if k.elsewhere {
			database = int(k.database)
		}
		fmt.Fprintf(&d, "%s@%d ", r.Args[k.Index], database)
		if want := e.Store.Stripe(database, r.Args[k.Index]); k.stripe != want {
			fmt.Fprintf(&d, "(stripe %d instead of %d) ", k.stripe, want)
		}
	}
	if r.prefetches() {
		var upcoming storage.Prefetch
		r.prefetch(&upcoming)
		fmt.Fprintf(&d, "prefetch %s", upcoming.Key)
		switch upcoming.Access {
		case storage.AccessElement:
			fmt.Fprintf(&d, " element %s", upcoming.Element)
		case storage.AccessEach:
			fmt.Fprintf(&d, " step %d", upcoming.Step)
		case storage.AccessFirst:
			d.WriteString(" first")
		case storage.AccessLast:
			d.WriteString(" last")
		}
	}
	return strings.TrimSpace(d.String())
}

var requestDescriptions = []struct{ request, want string }{
	{"GET a", "a@2 prefetch a"},
	{"get a", "a@2 prefetch a"},
	{"SET a 1", "writes a@2 prefetch a"},
	{"PING", ""},
	{"PUBLISH c m", ""},
	{"MGET a b c", "a@2 b@2 c@2 prefetch a step 1"},
	{"MSET a 1 b 2", "writes a@2 b@2 prefetch a step 2"},
	{"HGET h f", "h@2 prefetch h element f"},
	{"ZADD z 1 m", "writes z@2 prefetch z element m"},
	{"SMOVE s d m", "writes s@2 d@2 prefetch s element m"},
	{"LPOP l", "writes l@2 prefetch l first"},
	{"SINTERCARD 2 a b", "a@2 b@2"},
	{"SINTERCARD x a b", ""}, // the command says what is wrong
	{"OBJECT ENCODING a", "a@2"},
	{"SORT a", "a@2 prefetch a"},
	{"SORT a STORE b", "writes a@2 b@2 prefetch a"},
	{"COPY a b DB 5", "writes a@2 b@2 b@5 prefetch a"},
	{"MOVE a 3", "writes a@2 a@3 prefetch a"},
	{"GET", "ERR wrong number of arguments for 'get' command"},
	{"CONFIG", "ERR wrong number of arguments for 'config' command"},
	{"NONE a b", "ERR unknown command 'NONE', with args beginning with: 'a' 'b'"},
	{"CONFIG NONE", "ERR unknown subcommand 'NONE'. Try CONFIG HELP."},
}

// TestRequests reads requests one after another into the same memory: nothing of one may be left in
// the next.
func TestRequests(t *testing.T) {
	engine, _ := newTestEngine(t)
	reader := requestReader{table: engine.Table, store: engine.Store}
	for _, test := range requestDescriptions {
		r := reader.read(2, words(strings.Split(test.request, " ")...))
		if got := describeRequest(engine, r); got != test.want {
			t.Errorf("%s: %q, want %q", test.request, got, test.want)
		}
		reader.recycle(r)
	}
	if len(reader.free) != 1 {
		t.Errorf("%d requests for one at a time", len(reader.free))
	}
}

// TestRequestElsewhere executes a request on another database than the one that was selected when
// it was read, as behind SELECT.
func TestRequestElsewhere(t *testing.T) {
	engine, _ := newTestEngine(t)
	r := read(engine, NewSession(Nowhere{}, true), "COPY", "a", "b", "DB", "5")
	r.locate(engine.Store, 7)
	if got, want := describeRequest(engine, r), "writes a@7 b@7 b@5 prefetch a"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestClone: a clone refers to nothing of the request that it was made of.
func TestClone(t *testing.T) {
	engine, _ := newTestEngine(t)
	reader := requestReader{table: engine.Table, store: engine.Store}
	args := words("MSET", "a", "1", "b", "2")
	r := reader.read(2, args)
	clone := r.Clone()
	want := describeRequest(engine, clone)
	for _, word := range args {
		clear(word)
	}
	reader.recycle(r)
	reader.read(3, words("MGET", "x", "y"))
	if got := describeRequest(engine, clone); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestRequestsCostNothing reads requests into memory that was used before.
func TestRequestsCostNothing(t *testing.T) {
	engine, _ := newTestEngine(t)
	reader := requestReader{table: engine.Table, store: engine.Store}
	pipeline := [][][]byte{words("GET", "a"), words("MSET", "a", "1", "b", "2"), words("LPUSH", "l", "x"), words("CONFIG", "GET", "x")}
	var requests []*Request
	once := func() {
		for _, args := range pipeline {
			requests = append(requests, reader.read(0, args))
		}
		for _, r := range requests {
			reader.recycle(r)
		}
		requests = requests[:0]
	}
	once()
	once()
	if allocations := testing.AllocsPerRun(100, once); allocations > 0 {
		t.Errorf("%v allocations", allocations)
	}
}
