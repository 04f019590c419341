package metrics

import (
	"reflect"
	"slices"
	"testing"
	"time"
)

func TestLatencyKeepsTheWorstOfASecond(t *testing.T) {
	var m LatencyMonitor
	at := func(seconds float64) time.Time {
		return time.Unix(1000, 0).Add(time.Duration(seconds * float64(time.Second)))
	}
	m.Add("command", at(0), 5)
	m.Add("command", at(0.5), 9)
	m.Add("command", at(0.9), 7)
	m.Add("command", at(1), 3)
	m.Add("flush", at(1), 1)
	want := []LatencySample{{at(0), 9}, {at(1), 3}}
	if got := m.History("command"); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := m.History("nosuch"); got != nil {
		t.Errorf("%v", got)
	}
	events := []LatencyEvent{{"command", LatencySample{at(1), 3}, 9}, {"flush", LatencySample{at(1), 1}, 1}}
	if got := m.Latest(); !reflect.DeepEqual(got, events) {
		t.Errorf("%v, want %v", got, events)
	}
}

func TestLatencyKeeps160Samples(t *testing.T) {
	var m LatencyMonitor
	for i := range 200 {
		m.Add("command", time.Unix(int64(i), 0), time.Duration(1000-i))
	}
	history := m.History("command")
	if len(history) != 160 || history[0].Time.Unix() != 40 || history[159].Time.Unix() != 199 {
		t.Errorf("%d samples: %v", len(history), history)
	}
	if event := m.Latest()[0]; event.Worst != 1000 || event.Latest.Latency != 801 {
		t.Errorf("%+v", event)
	}
}

func TestLatencyReset(t *testing.T) {
	var m LatencyMonitor
	now := time.Unix(1, 0)
	for _, name := range []string{"a", "b", "c", "d"} {
		m.Add(name, now, 1)
	}
	if n := m.Reset("a", "nosuch", "a", "c"); n != 2 {
		t.Errorf("%d were reset", n)
	}
	if n := m.Reset(); n != 2 {
		t.Errorf("%d were reset", n)
	}
	if n := m.Reset(); n != 0 || m.Latest() != nil {
		t.Errorf("%d were reset, %v is left", n, m.Latest())
	}
	m.Add("a", now, 2)
	if event := m.Latest()[0]; event.Worst != 2 {
		t.Errorf("%+v", event)
	}
}
