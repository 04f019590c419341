package server

import (
	"testing"
	"time"
)

// machine is what a balance is told of one: in processors, during one sample after the other.
type machine struct {
	times processorTimes
	b     balance
}

func (m *machine) pass(samples, reactors int, fixed bool, user, kernel, idle float64) (decided bool) {
	for range samples {
		const step = 100 * time.Millisecond
		m.times.at += step
		m.times.user += time.Duration(user * float64(step))
		m.times.kernel += time.Duration(kernel * float64(step))
		m.times.idle += time.Duration(idle * float64(step))
		decided = m.b.sample(m.times, reactors, fixed)
	}
	return decided
}

func TestBalance(t *testing.T) {
	for _, test := range []struct {
		name               string
		reactors           int
		fixed              bool
		user, kernel, idle float64
		serving            int
		spare              bool
	}{
		{"two processors, one of which the clients want, single requests", 2, false, 0.25, 0.7, 0.2, 1, true},
		{"the same with a fixed number of reactors", 2, true, 0.25, 0.7, 0.2, 2, false},
		{"the same machine, deep pipelines", 2, false, 0.9, 0.5, 0.1, 2, false},
		{"two processors, clients elsewhere, single requests", 2, false, 0.4, 1.1, 0.4, 2, true},
		{"eight processors, clients elsewhere", 8, false, 1, 2, 4.9, 8, true},
		{"eight processors, three of which others want", 8, false, 1, 3, 1, 5, true},
		{"others want more than there is", 4, false, 0.1, 0.2, 0, 1, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := machine{b: balance{processors: test.reactors}}
			if m.pass(1, test.reactors, test.fixed, test.user, test.kernel, test.idle) {
				t.Error("something was decided without a sample before")
			}
			if !m.pass(5, test.reactors, test.fixed, test.user, test.kernel, test.idle) {
				t.Fatal("nothing was decided")
			}
			if m.b.serving != test.serving || m.b.spare() != test.spare {
				t.Errorf("%d serve and spare is %t, want %d and %t", m.b.serving, m.b.spare(), test.serving, test.spare)
			}
		})
	}
}

// TestRationedProcessors looks whether time that is rationed is waited away.
func TestRationedProcessors(t *testing.T) {
	m := machine{b: balance{processors: 2, rationed: true}}
	m.pass(5, 2, false, 0.3, 0.5, 60)
	if m.b.serving != 2 || m.b.spare() {
		t.Errorf("%d serve and spare is %t, want 2 and false", m.b.serving, m.b.spare())
	}
}

// TestBalanceChanges goes from single requests to deep pipelines and back.
func TestBalanceChanges(t *testing.T) {
	m := machine{b: balance{processors: 2}}
	m.pass(5, 2, false, 0.25, 0.7, 0.2)
	before := m.b.serving
	m.pass(5, 2, false, 0.9, 0.4, 0.3)
	between := m.b.serving
	if m.pass(20, 2, false, 0.1, 0.1, 1.8) {
		t.Error("a quiet time decides something")
	}
	quiet := m.b.serving
	m.pass(8, 2, false, 0.25, 0.7, 0.2)
	if got := [4]int{before, between, quiet, m.b.serving}; got != [4]int{1, 2, 2, 1} {
		t.Errorf("%v serve in turn, want [1 2 2 1]", got)
	}
}

// TestProcessorTimes looks whether the kernel's clocks go forward.
func TestProcessorTimes(t *testing.T) {
	before, err := readProcessorTimes()
	if err != nil {
		t.Skip(err)
	}
	for used := before; used.user+used.kernel < before.user+before.kernel+20*time.Millisecond; {
		if used, err = readProcessorTimes(); err != nil {
			t.Fatal(err)
		}
		if used.at < before.at {
			t.Fatalf("%+v comes after %+v", used, before)
		}
	}
}
