package command

import (
	"fmt"
	"testing"

	"kedis/server/execute"
)

// TestLoadBesideEvaluationStays: a script that SCRIPT LOAD brings stays, though EVAL has brought it
// while it was compiled.
func TestLoadBesideEvaluationStays(t *testing.T) {
	engine, _ := newTestEngine(t)
	s := &keptBy(engine).scripts
	digits := scriptDigest([]byte("return 1"))
	var compiled [2]*knownScript
	for i := range compiled {
		var err error
		if compiled[i], err = s.prepare(string(digits[:]), []byte("return 1")); err != nil {
			t.Fatal(err)
		}
	}
	s.put(compiled[0], false)
	if known := s.put(compiled[1], true); known != compiled[0] || known.element != nil || s.used.Len() != 0 {
		t.Errorf("it may go: %v, %d may", known.element, s.used.Len())
	}
}

// TestReadOnlyScriptsSeeOneMoment: a script that goes to a worker reads of a key that it has not
// declared what was committed, though others are writing to it.
func TestReadOnlyScriptsSeeOneMoment(t *testing.T) {
	e, _ := newTestEngine(t)
	c, other := newTestClient(t, e), newTestClient(t, e)
	const members = 20000
	for from := 0; from < members; from += 1000 {
		add := []string{"sadd", "set"}
		for i := range 1000 {
			add = append(add, fmt.Sprintf("member:%d", from+i))
		}
		c.Do(add...)
	}
	c.Do("srandmember", "set") // its order is in memory
	for _, line := range []string{"return #redis.call('smembers','set')", "for i = 1, 500 do redis.call('smembers','set') end return redis.call('scard','set')"} {
		request := c.Batch.Read(c.Session, words("eval_ro", line, "0"))
		c.Batch.Tick()
		if outcome := c.Batch.Execute(c.Session, request); outcome != execute.Waiting {
			t.Fatalf("the outcome is %d", outcome)
		}
		if err := c.Batch.Commit(); err != nil {
			t.Fatal(err)
		}
		c.Batch.Clear()
		other.Batch.Tick()
		if outcome := other.Batch.Execute(other.Session, other.Batch.Read(other.Session, words("sadd", "set", line))); outcome != execute.Done {
			t.Fatalf("SADD: the outcome is %d", outcome)
		}
		e.Work(c.Session, request)
		if reply, want := string(c.Session.Reply.Bytes()), fmt.Sprintf(":%d\r\n", members); reply != want {
			t.Errorf("%s: %q, want %q", line, reply, want)
		}
		c.Session.Reply.Reset()
		if err := other.Batch.Commit(); err != nil {
			t.Fatal(err)
		}
		other.Batch.Clear()
		other.Session.Reply.Reset()
		other.Do("srem", "set", line)
	}
}
