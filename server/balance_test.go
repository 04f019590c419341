package server

import (
	"testing"
	"time"
)

// machine is what a balance is told of one: in processors, during one sample after the other.
type machine struct {
	times  processorTimes
	b      balance
	oneKey bool // the clients write to one key
}

func (m *machine) pass(samples, reactors int, depth int64, used, idle float64) (decided bool) {
	for range samples {
		const step = 100 * time.Millisecond
		m.times.at += step
		m.times.used += time.Duration(used * float64(step))
		m.times.idle += time.Duration(idle * float64(step))
		came := counts{pieces: 1000, requests: 1000 * depth, followed: int64(990 * whole(m.oneKey))}
		decided = m.b.sample(m.times, came, reactors)
	}
	return decided
}

func TestBalance(t *testing.T) {
	for _, test := range []struct {
		name       string
		processors int
		depth      int64
		used, idle float64
		serving    int
	}{
		{"two processors, one of which the clients want", 2, 1, 0.95, 0.2, 1},
		{"the same machine, pipelines that take more than one", 2, 16, 1.4, 0.1, 2},
		{"pipelines that take one", 2, 16, 1.05, 0.1, 1},
		{"pipelines that take one, clients elsewhere", 2, 16, 1.05, 0.9, 2},
		{"pipelines that take less than one, and processors are idle", 2, 16, 0.8, 0.6, 1},
		{"pipelines that one is just enough for, and processors are idle", 2, 16, 0.97, 0.4, 2},
		{"pipelines, eight processors, clients elsewhere", 8, 16, 3.05, 4.95, 8},
		{"pipelines, eight processors, three of which others want", 8, 16, 3, 2, 5},
		{"pipelines that take little, clients elsewhere", 2, 16, 0.5, 1.45, 2},
		{"pipelines, eight processors, five of which others want", 8, 16, 3.05, 0.1, 3},
		{"two processors, clients elsewhere", 2, 1, 1.5, 0.4, 2},
		{"eight processors, clients elsewhere", 8, 1, 3, 4.95, 8},
		{"eight processors, three of which others want", 8, 1, 4, 1, 5},
		{"others want more than there is", 4, 1, 0.3, 0, 1},
		{"two of sixty-four processors", 2, 1, 0.8, 60, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := machine{b: balance{processors: test.processors}}
			if m.pass(1, test.processors, test.depth, test.used, test.idle) {
				t.Error("something was decided without a sample before")
			}
			if !m.pass(5, test.processors, test.depth, test.used, test.idle) {
				t.Fatal("nothing was decided")
			}
			if m.b.serving != test.serving {
				t.Errorf("%d serve, want %d", m.b.serving, test.serving)
			}
		})
	}
}

// TestBalanceChanges goes from single requests to deep pipelines and back.
func TestBalanceChanges(t *testing.T) {
	m := machine{b: balance{processors: 2}}
	m.pass(5, 2, 1, 0.95, 0.2)
	before := m.b.serving
	m.pass(5, 2, 64, 1.3, 0.3)
	between := m.b.serving
	if m.pass(20, 2, 1, 0.2, 1.8) {
		t.Error("a quiet time decides something")
	}
	quiet := m.b.serving
	m.pass(10, 2, 1, 0.95, 0.2)
	if got := [4]int{before, between, quiet, m.b.serving}; got != [4]int{1, 2, 2, 1} {
		t.Errorf("%v serve in turn, want [1 2 2 1]", got)
	}
}

// TestBalanceGrows has the work of pipelines grow beyond what one reactor can do.
func TestBalanceGrows(t *testing.T) {
	m := machine{b: balance{processors: 2}}
	m.pass(5, 2, 16, 1.05, 0.05)
	one := m.b.serving
	m.pass(5, 2, 16, 1, 0.05)
	enough := m.b.serving
	m.pass(5, 2, 16, 1, 0.4)
	if got := [3]int{one, enough, m.b.serving}; got != [3]int{1, 1, 2} {
		t.Errorf("%v serve in turn, want [1 1 2]", got)
	}
}

// TestBalanceOneKey has clients that write to the same key, in deep pipelines, with and without a
// processor for each reactor.
func TestBalanceOneKey(t *testing.T) {
	m := machine{b: balance{processors: 2}, oneKey: true}
	m.pass(5, 2, 64, 1.3, 0.3)
	crowded := m.b.serving
	m.pass(10, 2, 64, 1.7, 0.25)
	roomy := m.b.serving
	m.oneKey = false
	m.pass(10, 2, 64, 1.3, 0.3)
	if got := [3]int{crowded, roomy, m.b.serving}; got != [3]int{1, 2, 2} {
		t.Errorf("%v serve in turn, want [1 2 2]", got)
	}
}

// TestProcessorTimes looks whether the kernel's clocks go forward.
func TestProcessorTimes(t *testing.T) {
	before, err := readProcessorTimes()
	if err != nil {
		t.Fatal(err)
	}
	for used := before; used.used < before.used+20*time.Millisecond; {
		if used, err = readProcessorTimes(); err != nil {
			t.Fatal(err)
		}
		if used.at < before.at {
			t.Fatalf("%+v comes after %+v", used, before)
		}
	}
}
