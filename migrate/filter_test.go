package migrate

import (
	"strings"
	"testing"
)

// words makes the words of a command.
func words(text string) (args [][]byte) {
	for _, word := range strings.Fields(text) {
		args = append(args, []byte(word))
	}
	return args
}

// keysAt makes positions; a negative one is a key that is only read.
func keysAt(indexes ...int) (keys []KeyPosition) {
	for _, index := range indexes {
		keys = append(keys, KeyPosition{max(index, -index), index < 0})
	}
	return keys
}

// TestFilterCommand has keys that begin with a: moved, and called b: at the target.
func TestFilterCommand(t *testing.T) {
	o := FilterOptions{DBMap: []string{"0:3,1:1"}, Prefix: []string{"a:"}, Exclude: []string{"*:no"}, RewritePrefix: []string{"a:=b:"}}
	f, err := o.Filter()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		command string
		keys    []KeyPosition
		want    string // "" is nothing, "!" an error
	}{
		{"SET a:1 v", keysAt(1), "SET b:1 v"},
		{"SET x:1 v", keysAt(1), ""},
		{"SET a:no v", keysAt(1), ""},
		{"DEL x:1 a:1 a:2 a:no", keysAt(1, 2, 3, 4), "DEL b:1 b:2"},
		{"MSET x:1 v a:1 w", keysAt(1, 3), "MSET b:1 w"},
		{"MSET x:1 v a:1", keysAt(1, 3), "!"},
		{"RENAME a:1 a:2", keysAt(1, 2), "RENAME b:1 b:2"},
		{"RENAME a:1 x:2", keysAt(1, 2), "DEL b:1"},
		{"RENAME x:1 a:2", keysAt(1, 2), "!"},
		{"SUNIONSTORE x:1 a:1", keysAt(1, -2), ""},
		{"SUNIONSTORE a:1 x:1", keysAt(1, -2), "!"},
		{"SMOVE a:1 x:1 m", keysAt(1, 2), "SREM b:1 m"},
		{"SMOVE x:1 a:1 m", keysAt(1, 2), "SADD b:1 m"},
		{"LMOVE a:1 x:1 RIGHT LEFT", keysAt(1, 2), "RPOP b:1"},
		{"LMOVE x:1 a:1 RIGHT LEFT", keysAt(1, 2), "!"},
	} {
		got, err := f.Command(0, words(c.command), c.keys)
		shown := ""
		switch {
		case err != nil:
			shown = "!"
		case got != nil:
			var all []string
			for _, word := range got.Args {
				all = append(all, string(word))
			}
			if shown = strings.Join(all, " "); got.Database != 3 {
				t.Errorf("%s: in database %d", c.command, got.Database)
			}
			for _, key := range got.Keys {
				if !strings.HasPrefix(all[key.Index], "b:") {
					t.Errorf("%s: key %q", c.command, all[key.Index])
				}
			}
		}
		if shown != c.want {
			t.Errorf("%s: got %q, want %q (%v)", c.command, shown, c.want, err)
		}
	}
	for command, code := range map[string]int{
		"SET a:1 v": 0, "MOVE a:1 5": 0, "MOVE x:1 0": 0, "COPY a:1 x:1 DB 0": 0, "COPY a:1 a:2": 0, "COPY a:1 a:2 DB 5": 0,
		"MOVE a:1 0": ExitUnsupported, "COPY x:1 a:1 REPLACE DB 1": ExitUnsupported,
	} {
		keys := keysAt(1)
		if strings.HasPrefix(command, "COPY") {
			keys = keysAt(-1, 2)
		}
		if got, err := f.Command(2, words(command), keys); got != nil || ExitCode(err) != code {
			t.Errorf("database 2, %s: %v, %v", command, got, err)
		}
	}
}

func TestFilterOptions(t *testing.T) {
	for _, o := range []FilterOptions{{DB: []string{"x"}}, {DBMap: []string{"0"}}, {DBMap: []string{"0:-1"}}, {DBMap: []string{"0:3,1:3"}},
		{DB: []string{"3"}, DBMap: []string{"0:3"}}, {RewritePrefix: []string{"ab"}},
		{RewritePrefix: []string{"a:b:c"}}} {
		if _, err := o.Filter(); ExitCode(err) != ExitUsage {
			t.Errorf("%+v: %v", o, err)
		}
	}
	o := FilterOptions{RewritePrefix: []string{"old:new"}}
	f, err := o.Filter()
	if err != nil {
		t.Fatal(err)
	}
	if got := f.Rename([]byte("older")); string(got) != "newer" {
		t.Errorf("got %q", got)
	}
	if got := f.Origins([]byte("newer")); len(got) != 2 { // as it is, and renamed
		t.Errorf("origins: %q", got)
	}
	if got := f.Origins([]byte("older")); len(got) != 0 {
		t.Errorf("origins: %q", got)
	}
}

func TestSlot(t *testing.T) {
	// From the specification: the check value of CRC-16/XMODEM, and the rule of the first braces.
	if got := slotOf([]byte("123456789")); got != 0x31c3 {
		t.Errorf("slot %#x", got)
	}
	if slotOf([]byte("{user}.a")) != slotOf([]byte("user")) || slotOf([]byte("{}.a")) == slotOf([]byte("{}.b")) {
		t.Error("tags")
	}
	for slot, tag := range slotTags() {
		if slotOf([]byte("x{"+tag+"}")) != slot {
			t.Fatalf("slot %d: %q", slot, tag)
		}
	}
}

func TestParseLimit(t *testing.T) {
	l, err := ParseLimit("20MB/s,5000keys")
	if err != nil || l.Bytes != 20<<20 || l.Keys != 5000 {
		t.Errorf("%+v, %v", l, err)
	}
	for _, text := range []string{"20", "x", "-1MB", "5 parsecs"} {
		if _, err := ParseLimit(text); ExitCode(err) != ExitUsage {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestMalformed has commands of a stream that have too few words.
func TestMalformed(t *testing.T) {
	conflicts := &Conflicts{own: map[ownKey]struct{}{}}
	target := &Target{options: TargetOptions{Conflicts: conflicts}, facts: facts{"redis_version": "7.0.15"}}
	s := &stream{port: &port{PortOptions: PortOptions{Filter: &Filter{}}, conflicts: conflicts, target: target}}
	for _, command := range []string{"SWAPDB", "SWAPDB 1"} {
		if err := s.add("SWAPDB", words(command)); err == nil || !strings.Contains(err.Error(), "SWAPDB") {
			t.Errorf("%s: %v", command, err)
		}
	}
	if err := s.addFunction(words("FUNCTION DELETE")); err != nil || len(s.group) != 1 {
		t.Errorf("FUNCTION DELETE isn't left to the target: %v, %v", s.group, err)
	}
}
