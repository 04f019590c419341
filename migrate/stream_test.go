package migrate

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

// firstArgument is Commands for those whose only key is their first argument.
type firstArgument struct{}

func (firstArgument) Keys(dst []KeyPosition, _ [][]byte) ([]KeyPosition, bool, error) {
	return append(dst, KeyPosition{Index: 1}), true, nil
}

// streamOf is a stream within a transaction, whose commands it keeps.
func streamOf(filter *Filter, keys Commands) *stream {
	options := PortOptions{Filter: filter, Progress: newProgress(io.Discard, "", false)}
	return &stream{multi: true, port: &port{PortOptions: options, target: &Target{}, keys: &askedCommands{own: keys}}}
}

// TestStreamSetsSeveral: of an MSETEX each key is chosen, and held, by itself.
func TestStreamSetsSeveral(t *testing.T) {
	s := streamOf(&Filter{Exclude: []string{"b"}}, firstArgument{})
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
