package migrate

import (
	"strings"
	"testing"

	"kedis/storage/rdb"
)

// TestForOldRedis: a Redis before 7.0, which takes no payloads of later ones, gets a RESTORE of the
// stream as the commands that make the value, and one before 6.2 the time of a SET on its own.
func TestForOldRedis(t *testing.T) {
	payload := func(write func(w *rdb.PayloadWriter)) string {
		w := rdb.NewPayloadWriter()
		w.Begin(nil)
		write(w)
		made, err := w.Finish()
		if err != nil {
			t.Fatal(err)
		}
		return string(made)
	}
	text := payload(func(w *rdb.PayloadWriter) { w.String([]byte("value")) })
	hash := payload(func(w *rdb.PayloadWriter) {
		w.BeginHash(2)
		w.Field([]byte("f"), []byte("1"))
		w.Field([]byte("g"), []byte("2"))
		w.End()
	})
	for _, c := range []struct {
		version string
		words   []string
		want    string
	}{
		{"6.2.14", []string{"RESTORE", "k", "0", text}, "SET k value"},
		{"6.2.14", []string{"restore", "k", "4102444800000", text, "REPLACE", "absttl"}, "SET k value; PEXPIREAT k 4102444800000"},
		{"6.2.14", []string{"RESTORE", "k", "4102444800000", hash, "ABSTTL"}, "DEL k; HSET k f 1 g 2; PEXPIREAT k 4102444800000"},
		{"6.2.14", []string{"SET", "k", "v"}, "SET k v"},
		{"7.0.0", []string{"RESTORE", "k", "0", text}, "RESTORE k 0 " + text},
		{"6.2.14", []string{"SET", "k", "v", "PXAT", "4102444800000"}, "SET k v PXAT 4102444800000"},
		{"6.0.16", []string{"SET", "k", "v", "PXAT", "4102444800000"}, "SET k v; PEXPIREAT k 4102444800000"},
		{"4.0.14", []string{"set", "k", "v", "exat", "4102444800", "NX"}, "set k v NX; EXPIREAT k 4102444800"},
		{"5.0.14", []string{"SET", "PXAT", "PXAT", "KEEPTTL"}, "SET PXAT PXAT KEEPTTL"},
		{"5.0.14", []string{"RESTORE", "k", "4102444800000", text, "ABSTTL"}, "SET k value; PEXPIREAT k 4102444800000"},
	} {
		target := &Target{facts: facts{"redis_version": c.version}}
		command := &Command{Database: 3, Keys: keysAt(1)}
		for _, word := range c.words {
			command.Args = append(command.Args, []byte(word))
		}
		commands, err := target.known(command)
		if err != nil {
			t.Fatalf("%q: %v", c.words, err)
		}
		var all []string
		for _, one := range commands {
			var shown []string
			for _, word := range one.Args {
				shown = append(shown, string(word))
			}
			all = append(all, strings.Join(shown, " "))
			if one.Database != 3 || len(one.Keys) != 1 {
				t.Errorf("%q: database %d, keys %v", shown, one.Database, one.Keys)
			}
		}
		if got := strings.Join(all, "; "); got != c.want {
			t.Errorf("for %s %q is %q", c.version, c.words, got)
		}
	}
	old := &Target{facts: facts{"redis_version": "6.2.14"}}
	stream := payload(func(w *rdb.PayloadWriter) {
		w.BeginStream(0)
		w.StreamPart(&rdb.StreamElement{Part: rdb.StreamTotals})
		w.EndStream()
	})
	if got, err := old.known(&Command{Args: [][]byte{[]byte("RESTORE"), []byte("k"), []byte("0"), []byte(stream)}}); ExitCode(err) != ExitUnsupported {
		t.Errorf("a stream of a later Redis: %v, %v", got, err)
	}
}
