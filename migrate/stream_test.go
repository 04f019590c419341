package migrate

import (
	"bytes"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

// keyAt is Commands for those whose only key is at one place.
type keyAt int

func (at keyAt) Keys(dst []KeyPosition, _ [][]byte) ([]KeyPosition, bool, error) {
	return append(dst, KeyPosition{Index: int(at)}), true, nil
}

// streamOf is a stream within a transaction, whose commands it keeps.
func streamOf(filter *Filter, keys Commands) *stream {
	options := PortOptions{Filter: filter, Progress: newProgress(io.Discard, "", false)}
	return &stream{multi: true, port: &port{PortOptions: options, target: &Target{}, keys: &askedCommands{own: keys}}}
}

// TestStreamSetsSeveral: of an MSETEX each key is chosen, and held, by itself.
func TestStreamSetsSeveral(t *testing.T) {
	s := streamOf(&Filter{Exclude: []string{"b"}}, keyAt(1))
	at := time.Now().UnixMilli() - 1000
	if err := s.take(words(fmt.Sprintf("MSETEX 3 a 1 b 2 nx 3 XX PXAT %d", at))); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range s.group {
		got = append(got, string(bytes.Join(c.Args, []byte(" "))))
	}
	later := ofKeys.hold(at)
	if want := fmt.Sprintf("SET a 1 PXAT %d; SET nx 3 PXAT %d", later, later); strings.Join(got, "; ") != want || !s.target.held {
		t.Errorf("%q (held: %v), expected %s", got, s.target.held, want)
	}
	for _, wrong := range []string{"MSETEX", "MSETEX x a 1", "MSETEX 0 a 1", "MSETEX 2 a 1 b", "MSETEX 9223372036854775807 a 1"} {
		if err := s.take(words(wrong)); ExitCode(err) != ExitSource {
			t.Errorf("%s: %v", wrong, err)
		}
	}
}

// TestStreamHasScripts has what a Redis up to 4 sends: the body of a script once, also beside a
// key that isn't chosen.
func TestStreamHasScripts(t *testing.T) {
	const body, sha = "return 1", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db"
	for _, first := range [][]string{{"EVAL", body, "1", "b"}, {"SCRIPT", "LOAD", body}, {"eval", body, "1", "b"}} {
		s := streamOf(&Filter{Exclude: []string{"b"}}, keyAt(3))
		taken := func(command ...string) error {
			args := make([][]byte, len(command))
			for i, word := range command {
				args[i] = []byte(word)
			}
			return s.take(args)
		}
		if err := taken("EVALSHA", sha, "1", "a"); !errors.Is(err, errNoBody) {
			t.Errorf("a body that never came: %v", err)
		}
		if err := taken("EVALSHA", sha, "1", "b"); err != nil {
			t.Errorf("of a key that isn't chosen: %v", err)
		}
		if err := errors.Join(taken(first...), taken("evalsha", strings.ToUpper(sha), "1", "a", "more")); err != nil {
			t.Fatal(err)
		}
		if len(s.group) != 1 || string(bytes.Join(s.group[0].Args, []byte("|"))) != "EVAL|return 1|1|a|more" {
			t.Errorf("behind %q the target gets %v", first, s.group)
		}
	}
}

// TestScriptsAreForgotten: of too many bodies those go that weren't used for the longest time.
func TestScriptsAreForgotten(t *testing.T) {
	s := scripts{most: 10}
	known := func(body string) bool {
		sum := sha1.Sum([]byte(body))
		args, err := s.whole(words("EVALSHA " + hex.EncodeToString(sum[:]) + " 0"))
		return err == nil && string(args[1]) == body
	}
	for _, body := range []string{"aaa", "bbb", "ccc"} {
		s.note([]byte(body))
	}
	if !known("aaa") {
		t.Error("a body that there is room for isn't known")
	}
	s.note([]byte("bbb"))
	s.note([]byte("dddd"))
	if !known("aaa") || !known("bbb") || !known("dddd") || known("ccc") {
		t.Errorf("known: %v %v %v, and the oldest: %v", known("aaa"), known("bbb"), known("dddd"), known("ccc"))
	}
	s.note([]byte("longer than all that may be kept"))
	if !known("longer than all that may be kept") || known("dddd") || len(s.bodies) != 1 {
		t.Errorf("behind a long body %d are known", len(s.bodies))
	}
}
