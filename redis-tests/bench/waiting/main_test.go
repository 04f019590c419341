package main

import (
	"strings"
	"testing"
	"time"

	"kedis/redis-tests/launch"
)

// TestEachPart runs each part in a short form: elements come to the clients that wait for them,
// each once, deadlines come, and messages come to all who listen.
func TestEachPart(t *testing.T) {
	for _, p := range parts {
		t.Run(p.name, func(t *testing.T) {
			var output strings.Builder
			b := &bench{clients: 1000, rate: 3000, length: 500 * time.Millisecond, probes: 40, subscribers: 60, patterns: 20, output: &output}
			server := launch.ForTest(t, launch.MustUnderTest(t))
			err := p.run(b, server)
			t.Log(output.String())
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestWrongElementsAreSeen: the measurement fails when a client gets what it doesn't wait for, or
// what another one got.
func TestWrongElementsAreSeen(t *testing.T) {
	h := &handing{keys: 3, seen: make([]bool, 10), pushed: 7}
	if err := h.got(1, [][]byte{[]byte("4")}); err != nil {
		t.Fatal(err)
	}
	for _, words := range [][]string{{"4"}, {"5"}, {"0", "1"}, {"7"}, {"x"}} {
		var reply [][]byte
		for _, word := range words {
			reply = append(reply, []byte(word))
		}
		if h.got(1, reply) == nil {
			t.Errorf("%q was taken", words)
		}
	}
}
