package metrics

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"kedis/internal/oracle"
	"kedis/redis-tests/seed"
)

// TestCellsAreContiguous: every duration has a cell, whose limits hold it, and cells follow each
// other.
func TestCellsAreContiguous(t *testing.T) {
	var expected time.Duration
	for r, cell := 0, 0; r < rows; r, cell = next(r, cell) {
		if first(r, cell) != expected {
			t.Fatalf("row %d cell %d begins at %d, want %d", r, cell, first(r, cell), expected)
		}
		for _, d := range []time.Duration{first(r, cell), last(r, cell)} {
			if gotRow, gotCell := locate(d); gotRow != r || gotCell != cell {
				t.Fatalf("%d is located in row %d cell %d, not %d, %d", d, gotRow, gotCell, r, cell)
			}
		}
		expected = last(r, cell) + 1
	}
	if expected != longestCell+1 || expected <= longest {
		t.Errorf("the cells end at %d", expected)
	}
}

// TestPercentile compares with the percentiles of the sorted durations themselves.
func TestPercentile(t *testing.T) {
	seed := seed.Of(t)
	random := rand.New(rand.NewPCG(seed, 0))
	h := NewHistogram(2)
	var all []time.Duration
	for i := range 5000 {
		d := time.Duration(random.Int64N(1 << (1 + random.IntN(29))))
		h.Record(i%2, d)
		all = append(all, max(d, 1))
	}
	slices.Sort(all)
	distribution := h.Distribution()
	if distribution.Count() != 5000 {
		t.Errorf("count %d", distribution.Count())
	}
	for _, p := range []float64{0, 0.1, 1, 10, 50, 90, 99, 99.9, 99.99, 100} {
		rank := max(int(p/100*5000+0.5), 1)
		exact := all[rank-1]
		r, cell := locate(exact)
		want := last(r, cell)
		if p == 0 {
			want = first(r, cell)
		}
		if got := distribution.Percentile(p); got != want {
			t.Errorf("p%v: %d, want %d (of %d)", p, got, want, exact)
		}
	}
}

func TestLimitsOfDurations(t *testing.T) {
	h := NewHistogram(1)
	for _, d := range []time.Duration{-5, 0, time.Second, time.Hour} {
		h.Record(0, d)
	}
	d := h.Distribution()
	// Redis answers 0.001 µs for what took no time, and 1002438.655 µs for what took long.
	if d.Percentile(50) != 1 || d.Percentile(100) != 1002438655 {
		t.Errorf("%d, %d", d.Percentile(50), d.Percentile(100))
	}
	want := []Bucket{{1031, 2}, {1073741823, 4}}
	if got := d.Buckets(); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if empty := NewHistogram(1).Distribution(); empty.Percentile(99) != 0 || empty.Buckets() != nil {
		t.Errorf("%v, %v of nothing", empty.Percentile(99), empty.Buckets())
	}
}

func TestBuckets(t *testing.T) {
	h := NewHistogram(1)
	for _, us := range []int{1, 2, 3, 5, 5, 33, 34, 500, 20000} {
		h.Record(0, time.Duration(us)*time.Microsecond)
	}
	var got []int64
	for _, bucket := range h.Distribution().Buckets() {
		got = append(got, bucket.Longest.Microseconds(), bucket.Count)
	}
	if want := []int64{1, 1, 2, 2, 4, 3, 8, 5, 33, 6, 66, 7, 528, 8, 33816, 9}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	h.Reset()
	if n := h.Distribution().Count(); n != 0 {
		t.Errorf("%d after Reset", n)
	}
}

// TestRoundsAsRedis lets the oracle take various times, and checks that its buckets and percentiles
// are limits of buckets and cells here.
func TestRoundsAsRedis(t *testing.T) {
	server := oracle.Start(t, "--enable-debug-command", "yes", "--latency-tracking-info-percentiles", "0 50 99.9 100")
	for _, seconds := range []string{"0", "0.00001", "0.0001", "0.0003", "0.001", "0.003", "0.01", "0.03"} {
		server.Do("DEBUG", "SLEEP", seconds)
	}
	for i := range 200 {
		server.Do("SET", "key", strings.Repeat("x", i*i*10))
		server.Do("GET", "key")
	}
	server.Do("KEYS", "*")
	var ends []int64
	for _, bucket := range new(Distribution).AllBuckets() {
		ends = append(ends, bucket.Longest.Microseconds())
	}
	histograms := server.Do("LATENCY", "HISTOGRAM").([]any)
	if len(histograms) < 8 {
		t.Fatalf("%v", histograms)
	}
	for i := 1; i < len(histograms); i += 2 {
		buckets := histograms[i].([]any)[3].([]any)
		for j := 0; j < len(buckets); j += 2 {
			if !slices.Contains(ends, buckets[j].(int64)) {
				t.Errorf("Redis's bucket of %v µs is none of %v", buckets[j], ends)
			}
		}
	}
	checkPercentiles(t, server.Do("INFO", "latencystats").(string))
}

func checkPercentiles(t *testing.T, info string) {
	t.Helper()
	checked := 0
	for line := range strings.Lines(info) {
		_, fields, found := strings.Cut(strings.TrimSpace(line), ":")
		if !found {
			continue
		}
		for field := range strings.SplitSeq(fields, ",") {
			name, value, _ := strings.Cut(field, "=")
			nanoseconds, err := strconv.ParseInt(strings.Replace(value, ".", "", 1), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			limit := last
			if name == "p0" {
				limit = first
			}
			if want := limit(locate(time.Duration(nanoseconds))); int64(want) != nanoseconds {
				t.Errorf("%s: Redis's %d ns is no limit of a cell; the nearest is %d", line, nanoseconds, want)
			}
			checked++
		}
	}
	if checked < 12 {
		t.Errorf("only %d percentiles in %q", checked, info)
	}
}

func TestRecordFromEverywhere(t *testing.T) {
	h := NewHistogram(1)
	var done sync.WaitGroup
	for range 4 {
		done.Go(func() {
			for i := range 1000 {
				h.Record(0, time.Duration(i)*time.Microsecond)
				if i%100 == 0 {
					h.Distribution()
				}
			}
		})
	}
	done.Wait()
	if n := h.Distribution().Count(); n != 4000 {
		t.Errorf("%d were counted", n)
	}
}

func TestCommand(t *testing.T) {
	c := NewCommand(2)
	if c.Stats().Seen() {
		t.Error("seen before it was used")
	}
	c.Record(0, 5*time.Microsecond, false)
	c.Record(1, 2900*time.Nanosecond, true)
	c.Reject(1)
	want := CommandStats{Calls: 2, Duration: 7900 * time.Nanosecond, Rejected: 1, Failed: 1}
	if got := c.Stats(); got != want || !got.Seen() {
		t.Errorf("%+v, want %+v", got, want)
	}
	const text = "calls=2,usec=7,usec_per_call=3.50,rejected_calls=1,failed_calls=1"
	if got := string(c.Stats().Append(nil)); got != text {
		t.Errorf("%s, want %s", got, text)
	}
	c.Reset()
	if c.Stats().Seen() {
		t.Error("seen after Reset")
	}
	if got := string(c.Stats().Append([]byte("x:"))); got != "x:calls=0,usec=0,usec_per_call=0.00,rejected_calls=0,failed_calls=0" {
		t.Error(got)
	}
}

func TestAppendPercentiles(t *testing.T) {
	c := NewCommand(1)
	c.Latency.Record(0, 5*time.Microsecond)
	c.Latency.Record(0, time.Microsecond)
	got := string(c.Latency.Distribution().AppendPercentiles(nil, []float64{0, 50, 99.9, 99.99, 100, 33.3333333}))
	if want := "p0=1.000,p50=1.003,p99.9=5.023,p99.99=5.023,p100=5.023,p33.333333=1.003"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestStatsAsRedis holds the fields' form against the oracle's.
func TestStatsAsRedis(t *testing.T) {
	server := oracle.Start(t, "--latency-tracking-info-percentiles", "0 50 99.90 33.3333333")
	server.Do("GET", "key")
	server.Do("GET")
	ours := NewCommand(1)
	ours.Record(0, 0, false)
	ours.Reject(0)
	ours.Latency.Record(0, 0)
	info := Info{
		{"Commandstats", true, func(f *Fields) { f.Custom("cmdstat_get", ours.Stats().Append) }},
		{"Latencystats", true, func(f *Fields) {
			f.Custom("latency_percentiles_usec_get", func(dst []byte) []byte {
				return ours.Latency.Distribution().AppendPercentiles(dst, []float64{0, 50, 99.9, 33.3333333})
			})
		}},
	}
	for _, section := range []string{"commandstats", "latencystats"} {
		theirs := form(server.Do("INFO", section).(string))
		if got := form(string(info.Append(nil, []byte(section)))); got != theirs {
			t.Errorf("%q, Redis has %q", got, theirs)
		}
	}
}

// form is a text with the digits behind = left out, but for their number after the point, and
// without INFO's own lines.
func form(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		if strings.Contains(line, "_info:") {
			continue
		}
		for i, field := range strings.Split(line, ",") {
			name, value, found := strings.Cut(field, "=")
			_, decimals, _ := strings.Cut(strings.TrimRight(value, "\r\n"), ".")
			fmt.Fprint(&out, i, name, found, len(decimals), strings.HasSuffix(value, "\r\n"), ";")
		}
	}
	return out.String()
}
