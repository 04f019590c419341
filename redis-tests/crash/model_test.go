package crash

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"kedis/redis-tests/launch"
	"kedis/redis-tests/resp"
)

// TestModelIsRedis has the writers of the load send theirs to Redis, one after the other: what the
// model says is what Redis answers, and holds in the end.
func TestModelIsRedis(t *testing.T) {
	compareModel(t, launch.MustOracle(t), false)
}

// TestModelIsRedis8 is the same with fields that expire.
func TestModelIsRedis8(t *testing.T) {
	compareModel(t, launch.MustNewerOracle(t, launch.Redis8), true)
}

func compareModel(t *testing.T, oracle launch.Program, timed bool) {
	const units = 4000
	redis := launch.ForTest(t, oracle, "--save", "", "--appendonly", "no")
	for _, w := range newWriters(loadSeed(t), timed) {
		if w.generator.largest > 1000 {
			continue // it differs from the others in nothing but the time that it takes
		}
		connection := redis.MustDial(t)
		if err := w.send(connection, units); err != nil {
			t.Fatal(err)
		}
		time.Sleep((longestExpiry + 5) * time.Millisecond) // so that it is certain which keys have expired
		data, err := ReadData(connection, w.databases)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Settle(data.part(w), time.Now().UnixMilli()); err != nil {
			t.Fatal(err)
		}
	}
}

// send sends so many units, or a few more, and compares their replies.
func (w *Writer) send(connection *resp.Connection, units int) error {
	w.begin()
	w.flight = append(w.flight, seldom(w.prefix)...)
	for ; w.acknowledged < units; w.fill() {
		if err := w.exchange(connection); err != nil {
			return err
		}
	}
	w.flight = nil
	return nil
}

// seldom are units that the generator makes once in a million.
func seldom(prefix string) (units []Unit) {
	list := prefix + "l0"
	for _, request := range [][]string{
		{"rpush", list, "only"}, {"pexpireat", list, strconv.Itoa(farFuture)}, {"lmove", list, list, "left", "right"}, {"persist", list},
	} {
		units = append(units, Unit{Requests: [][]string{request}})
	}
	return units
}

// TestSettleFindsWhatIsWrong holds a writer with one acknowledged request and a transaction and an
// SPOP in flight against what a server may show.
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
		w := NewWriter("writer", 1, "", []int{0}, false, true, 1, 10)
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
	w := NewWriter("writer", 1, "", []int{0, 1}, true, true, 1, 10)
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
