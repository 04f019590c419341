package migrate

import (
	"bytes"
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

// TestStreamHasScripts has what a Redis up to 4 sends: a script can only be passed over.
func TestStreamHasScripts(t *testing.T) {
	for _, form := range []string{"EVAL body 1 %s", "evalsha e0e1f9fabfc9d4800c877a703b823ac0578ff8db 1 %s"} {
		s := streamOf(&Filter{Exclude: []string{"b"}}, keyAt(3))
		if err := s.take(words(fmt.Sprintf(form, "a"))); ExitCode(err) != ExitUnsupported || !strings.Contains(err.Error(), "has a script") {
			t.Errorf("%s: %v", form, err)
		}
		if err := s.take(words(fmt.Sprintf(form, "b"))); err != nil || len(s.group) != 0 {
			t.Errorf("%s on another key: %v, %v", form, s.group, err)
		}
	}
}
