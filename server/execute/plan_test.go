package execute

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestLocksInAnotherDatabase: COPY and MOVE wait for whoever has the key that they write to.
func TestLocksInAnotherDatabase(t *testing.T) {
	engine, _ := newTestEngine(t)
	client := newTestClient(t, engine)
	client.do("SET", "k", "v")
	stripe := engine.Store.Stripe(3, []byte("k"))
	const somebody = 99
	engine.Locks.TryExclusive(stripe, somebody)
	for _, command := range []string{"COPY k k DB 3", "MOVE k 3"} {
		outcome := client.batch.Execute(client.session, client.batch.Read(client.session, words(strings.Split(command, " ")...)))
		if outcome != Waiting || client.session.Wait().Cause != ForLock || client.session.Wait().Stripe != stripe {
			t.Errorf("%q: outcome %d, which doesn't wait for the lock", command, outcome)
		}
		if err := client.batch.Commit(); err != nil {
			t.Fatal(err)
		}
		client.batch.Clear()
	}
	engine.Locks.ReleaseExclusive(stripe, somebody)
	if reply := client.do("MOVE", "k", "3"); reply != ":1\r\n" {
		t.Errorf("MOVE: %q", reply)
	}
}

// TestSortPlans: what SORT needs depends on its words.
func TestSortPlans(t *testing.T) {
	engine, _ := newTestEngine(t)
	client := newTestClient(t, engine)
	for command, want := range map[string]string{
		"SORT k":                              "1 shared",
		"SORT k ALPHA LIMIT 0 5":              "1 shared",
		"SORT k BY nosort GET #":              "1 shared",
		"SORT k STORE l":                      "2 exclusive",
		"SORT k BY w_*":                       "1 shared, walk",
		"SORT k GET w_*->f":                   "1 shared, walk",
		"SORT k BY STORE":                     "1 shared",
		"SORT k BY w_* STORE l":               "2 exclusive, worker",
		"MULTI; SORT k BY w_* STORE l; EXEC":  "2 exclusive",
		"SORT_RO k BY w_*":                    "1 shared, walk",
		"SORT k BY w_* GET":                   "1 shared",
		"MULTI; SORT k BY w_*; EXEC":          "1 shared, walk",
		"MULTI; SORT k BY w_*; SET l v; EXEC": "2 exclusive",
		"MULTI; KEYS *; SET l v; EXEC":        "1 exclusive, walk, everything",
	} {
		if got := planOf(t, client, command); got != want {
			t.Errorf("%q: %s, want %s", command, got, want)
		}
	}
}

// TestSortStoresBesideOthers: a SORT that follows patterns and stores waits for nobody but who has
// what it sorts and where it stores; in a transaction it sees what that has written before, and
// waits for who has a key that it reads.
func TestSortStoresBesideOthers(t *testing.T) {
	engine, _ := newTestEngine(t)
	client := newTestClient(t, engine)
	for _, request := range []string{"RPUSH k a b c", "MSET w_a 3 w_b 1 w_c 2 v_a A v_b B v_c C"} {
		client.do(strings.Split(request, " ")...)
	}
	stripe := engine.Store.Stripe(0, []byte("w_a"))
	if stripe == engine.Store.Stripe(0, []byte("k")) || stripe == engine.Store.Stripe(0, []byte("l")) {
		t.Fatal("the keys have a lock in common")
	}
	const somebody = 99
	engine.Locks.TryExclusive(stripe, somebody)
	if reply := client.do(strings.Split("SORT k BY w_* GET v_* STORE l", " ")...); reply != ":3\r\n" {
		t.Errorf("SORT: %q", reply)
	}
	engine.Locks.ReleaseExclusive(stripe, somebody)
	if reply := client.do("LRANGE", "l", "0", "-1"); reply != "*3\r\n$1\r\nB\r\n$1\r\nC\r\n$1\r\nA\r\n" {
		t.Errorf("LRANGE: %q", reply)
	}
	for _, request := range []string{"MULTI", "SET w_b 9", "SORT k BY w_* GET w_* STORE k", "LRANGE k 0 -1"} {
		client.do(strings.Split(request, " ")...)
	}
	engine.Locks.TryExclusive(stripe, somebody)
	outcome := client.batch.Execute(client.session, client.batch.Read(client.session, words("EXEC")))
	if outcome != Waiting || client.session.Wait().Cause != ForLock || client.session.Wait().Stripe != stripe {
		t.Errorf("EXEC doesn't wait for the key that has a weight: outcome %d", outcome)
	}
	if err := client.batch.Commit(); err != nil {
		t.Fatal(err)
	}
	client.batch.Clear()
	engine.Locks.ReleaseExclusive(stripe, somebody)
	if reply := client.do("EXEC"); !strings.HasSuffix(reply, "*3\r\n$1\r\n2\r\n$1\r\n3\r\n$1\r\n9\r\n") {
		t.Errorf("EXEC: %q", reply)
	}
}

// planOf describes what the last of some commands needs.
func planOf(t *testing.T, client *testClient, commands string) string {
	t.Helper()
	all := strings.Split(commands, "; ")
	for _, command := range all[:len(all)-1] {
		client.do(strings.Split(command, " ")...)
	}
	b, request := client.batch, read(client.engine, client.session, strings.Split(all[len(all)-1], " ")...)
	if err := b.admit(client.session, request); err != nil {
		t.Fatal(err)
	}
	if err := b.makePlan(b.prepare(client.session, request)); err != nil {
		t.Fatal(err)
	}
	description := fmt.Sprintf("%d shared", len(b.plan.locks))
	if slices.ContainsFunc(b.plan.locks, func(w wantedLock) bool { return w.exclusive }) {
		description = fmt.Sprintf("%d exclusive", len(b.plan.locks))
	}
	if b.plan.Walk {
		description += ", walk"
	}
	if b.plan.Worker {
		description += ", worker"
	}
	if b.plan.Everything {
		description += ", everything"
	}
	client.session.EndTransaction()
	return description
}
