package crash

import (
	"strings"
	"testing"
)

// TestSettleFindsWhatIsWrong holds a writer with one acknowledged request and a transaction and an SPOP in flight against what a server may show.
func TestSettleFindsWhatIsWrong(t *testing.T) {
	acknowledged := Unit{Requests: [][]string{{"sadd", "t0", "a", "b"}}}
	transaction := Unit{Requests: [][]string{{"incrby", "n0", "1"}, {"incrby", "n1", "1"}}, Transaction: true}
	pop := Unit{Requests: [][]string{{"spop", "t0"}}}
	for _, example := range []struct {
		name  string
		there []Unit // what the server has executed
		wrong string // what is said about it; nothing if it is right
	}{
		{"nothing in flight was taken", []Unit{acknowledged}, ""},
		{"a part", []Unit{acknowledged, transaction}, ""},
		{"all", []Unit{acknowledged, transaction, {Requests: [][]string{{"srem", "t0", "b"}}}}, ""},
		{"nothing at all", nil, "t0 is missing"},
		{"half a transaction", []Unit{acknowledged, {Requests: transaction.Requests[:1]}}, "n0 is additional"},
		{"twice", []Unit{acknowledged, transaction, transaction}, "n0 is additional: string of 1, expires 0: 2"},
		{"out of order", []Unit{acknowledged, {Requests: [][]string{{"srem", "t0", "a"}}}}, "t0"},
		{"an expiry lost", []Unit{acknowledged, {Requests: [][]string{{"pexpireat", "t0", "4102444800000"}}}}, "t0"},
	} {
		w := NewWriter("writer", 1, "", []int{0}, false, 1, 10)
		w.state.Apply(acknowledged)
		w.flight = []Unit{transaction, pop}
		data := NewState([]int{0})
		for _, unit := range example.there {
			data.Apply(unit)
		}
		err := w.Settle(data, 1)
		if (err == nil) != (example.wrong == "") || err != nil && !strings.Contains(err.Error(), example.wrong) {
			t.Errorf("%s: got %v", example.name, err)
		}
	}
}

// TestSettleTakesTheStateThatIsThere: the next round begins with what the server has.
func TestSettleTakesTheStateThatIsThere(t *testing.T) {
	w := NewWriter("writer", 1, "", []int{0, 1}, true, 1, 10)
	data := NewState([]int{0, 1})
	for _, request := range [][]string{{"set", "s0", "x"}, {"swapdb", "0", "1"}, {"flushdb"}} {
		w.flight = append(w.flight, Unit{Requests: [][]string{request}})
	}
	data.Apply(w.flight[0])
	data.Apply(w.flight[1])
	if err := w.Settle(data, 1); err != nil {
		t.Fatal(err)
	}
	if v := w.state.databases[1]["s0"]; v == nil || v.text != "x" || len(w.flight) > 0 {
		t.Fatalf("the state is %v, in flight %v", w.state.databases, w.flight)
	}
}
