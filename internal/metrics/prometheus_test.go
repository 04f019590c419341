package metrics

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestExport(t *testing.T) {
	var r Registry
	r.Value(CounterKind, "kedis_connections_total", "Connections\nthat were \\ accepted.", func() float64 { return 12345678901 })
	r.Value(GaugeKind, "kedis_ratio", "A ratio.", func() float64 { return 0.25 })
	r.Values(GaugeKind, "kedis_keys", "Keys.", func(emit func(float64, ...Label)) {
		emit(1, Label{"database", "0"})
		emit(math.Inf(1), Label{"database", "1"}, Label{"name", "a\"b\\c\nd"})
		emit(math.NaN())
	})
	const want = `before
# HELP kedis_connections_total Connections\nthat were \\ accepted.
# TYPE kedis_connections_total counter
kedis_connections_total 1.2345678901e+10
# HELP kedis_ratio A ratio.
# TYPE kedis_ratio gauge
kedis_ratio 0.25
# HELP kedis_keys Keys.
# TYPE kedis_keys gauge
kedis_keys{database="0"} 1
kedis_keys{database="1",name="a\"b\\c\nd"} +Inf
kedis_keys NaN
`
	if got := string(r.Append([]byte("before\n"))); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

func TestExportHistogram(t *testing.T) {
	c := NewCommand(1)
	for _, d := range []time.Duration{900, 5 * time.Microsecond, 5 * time.Microsecond, time.Hour} {
		c.Record(0, d, false)
		c.Latency.Record(0, d)
	}
	var r Registry
	r.Histograms("kedis_command_seconds", "Durations.", func(emit func(*Distribution, time.Duration, ...Label)) {
		emit(c.Latency.Distribution(), c.Stats().Duration, Label{"command", "get"})
	})
	lines := strings.Split(strings.TrimSuffix(string(r.Append(nil)), "\n"), "\n")
	if len(lines) != 2+21+3 {
		t.Fatalf("%d lines:\n%s", len(lines), strings.Join(lines, "\n"))
	}
	for i, want := range map[int]string{
		1:  `# TYPE kedis_command_seconds histogram`,
		2:  `kedis_command_seconds_bucket{command="get",le="1.031e-06"} 1`,
		4:  `kedis_command_seconds_bucket{command="get",le="4.127e-06"} 1`,
		5:  `kedis_command_seconds_bucket{command="get",le="8.255e-06"} 3`,
		22: `kedis_command_seconds_bucket{command="get",le="1.073741823"} 4`,
		23: `kedis_command_seconds_bucket{command="get",le="+Inf"} 4`,
		24: `kedis_command_seconds_sum{command="get"} 3600.0000109`,
		25: `kedis_command_seconds_count{command="get"} 4`,
	} {
		if lines[i] != want {
			t.Errorf("line %d: %s, want %s", i, lines[i], want)
		}
	}
}

func TestBadNamesArePanics(t *testing.T) {
	for name, register := range map[string]func(*Registry){
		"twice": func(r *Registry) {
			r.Value(GaugeKind, "a", "", nil)
			r.Value(GaugeKind, "a", "", nil)
		},
		"digit":   func(r *Registry) { r.Value(GaugeKind, "1a", "", nil) },
		"minus":   func(r *Registry) { r.Value(GaugeKind, "a-b", "", nil) },
		"empty":   func(r *Registry) { r.Value(GaugeKind, "", "", nil) },
		"counter": func(r *Registry) { r.Value(CounterKind, "a", "", nil) },
		"gauge":   func(r *Registry) { r.Value(GaugeKind, "a_total", "", nil) },
		"label's colon": func(r *Registry) {
			r.Values(GaugeKind, "a", "", func(emit func(float64, ...Label)) { emit(1, Label{"a:b", ""}) })
			r.Append(nil)
		},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s was accepted", name)
				}
			}()
			register(new(Registry))
		}()
	}
}
