package command

import (
	"errors"
	"strings"
	"testing"

	"kedis/internal/resp"
	"kedis/storage"
)

// notHere is a script that a Redis before 7.0 takes, which puts it into a function, and sends to
// its replicas.
const notHere = "return 1 end function another() return 2"

// TestScriptsOfAStream: what a primary sends has no scripts in it, by whatever name, and no
// transaction of them. Their bodies alone change nothing, and needn't be ones that can be loaded.
func TestScriptsOfAStream(t *testing.T) {
	for _, script := range [][]string{
		{"EVAL", "return redis.call('set', KEYS[1], math.random())", "1", "key"},
		{"evalsha", strings.Repeat("0", 40), "0"},
		{"EVAL"},
	} {
		for _, before := range [][][]string{{}, {{"SET", "other", "1"}}, {{"MULTI"}, {"SET", "other", "1"}}} {
			s := newStream(t)
			for _, line := range before {
				if err := s.apply(line...); err != nil {
					t.Fatal(err)
				}
			}
			err := s.apply(script...)
			if err == nil || !strings.Contains(err.Error(), "lua-replicate-commands") || errors.Is(err, storage.ErrDiverged) {
				t.Errorf("%q behind %q: %v", script, before, err)
			}
			if err := s.Commit(); err != nil {
				t.Fatal(err)
			}
			if at := s.engine.Store.Position(); at != 0 {
				t.Errorf("%q behind %q: the log has come to %d", script, before, at)
			}
		}
	}
	s := newStream(t)
	for _, line := range [][]string{{"SCRIPT", "FLUSH"}, {"SCRIPT", "LOAD", notHere}, {"SCRIPT", "LOAD", "return 1"}, {"SET", "behind", "it"}} {
		if err := s.apply(line...); err != nil {
			t.Error(err)
		}
	}
	if err := s.Commit(); err != nil {
		t.Fatal(err)
	}
	c := newTestClient(t, s.engine)
	if reply := c.Do("GET", "behind"); reply != "$2\r\nit\r\n" {
		t.Errorf("what comes behind a script that can't be loaded: %q", reply)
	}
	if reply := c.Do("SCRIPT", "LOAD", notHere); !strings.HasPrefix(reply, "-ERR Error compiling script") {
		t.Errorf("a client's script that can't be loaded: %q", reply)
	}
	if reply := c.Do("EVALSHA", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db", "0"); reply != ":1\r\n" {
		t.Errorf("a script that was loaded: %q", reply)
	}
}

// TestScriptsOfAFile: an append-only file of a Redis up to 4 has scripts, and the bodies of all.
func TestScriptsOfAFile(t *testing.T) {
	e, _ := newTestEngine(t)
	f := e.NewFileApplier(0)
	defer f.Close()
	line := words("EVAL", "return redis.call('set', KEYS[1], '1')", "1", "key")
	if err := f.Apply(line, resp.AppendRequest(nil, line...)); err != nil {
		t.Fatal(err)
	}
	if err := f.Commit(); err != nil {
		t.Fatal(err)
	}
	if reply := newTestClient(t, e).Do("GET", "key"); reply != "$1\r\n1\r\n" {
		t.Errorf("the key is %q", reply)
	}
}
