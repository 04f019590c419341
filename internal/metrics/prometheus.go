package metrics

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Kind is what a metric's value does.
type Kind string

const (
	CounterKind   Kind = "counter" // it only grows; its name ends in _total
	GaugeKind     Kind = "gauge"   // it goes up and down
	histogramKind Kind = "histogram"
)

// Label tells apart the values of one metric.
type Label struct{ Name, Value string }

// Registry is the metrics that are exported in Prometheus's text format
// (prometheus.io/docs/instrumenting/exposition_formats). The zero value is ready.
type Registry struct {
	mu       sync.Mutex
	families []family
}

// family is the values of one metric.
type family struct {
	name, help string
	kind       Kind
	write      func(*exporter)
}

// Value registers a metric that has one value.
func (r *Registry) Value(kind Kind, name, help string, read func() float64) {
	r.Values(kind, name, help, func(emit func(float64, ...Label)) { emit(read()) })
}

// Values registers a metric that has several values: each calls emit for every one of them, which
// must differ in a label.
func (r *Registry) Values(kind Kind, name, help string, each func(emit func(value float64, labels ...Label))) {
	r.add(family{name, help, kind, func(e *exporter) {
		each(func(value float64, labels ...Label) { e.sample(name, value, labels) })
	}})
}

// Histograms registers durations, in seconds: each calls emit for every histogram, with the sum of
// its durations; they must differ in a label.
func (r *Registry) Histograms(name, help string, each func(emit func(d *Distribution, sum time.Duration, labels ...Label))) {
	r.add(family{name, help, histogramKind, func(e *exporter) {
		each(func(d *Distribution, sum time.Duration, labels ...Label) { e.histogram(name, d, sum, labels) })
	}})
}

// add panics for what Prometheus would refuse: the names are written down in the source.
func (r *Registry) add(added family) {
	if !validName(added.name, true) || (added.kind == CounterKind) != strings.HasSuffix(added.name, "_total") {
		panic("metrics: bad name for a " + string(added.kind) + ": " + added.name)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, known := range r.families {
		if known.name == added.name {
			panic("metrics: " + added.name + " is registered twice")
		}
	}
	r.families = append(r.families, added)
}

// validName reports whether a name may stand for a metric, or for a label, which has no colons.
func validName(name string, colons bool) bool {
	for i, c := range []byte(name) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || colons && c == ':'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}

// Append appends all metrics, in the order in which they were registered.
func (r *Registry) Append(dst []byte) []byte {
	r.mu.Lock()
	families := r.families[:len(r.families):len(r.families)]
	r.mu.Unlock()
	e := exporter{out: dst}
	for _, f := range families {
		e.out = fmt.Appendf(e.out, "# HELP %s %s\n# TYPE %s %s\n", f.name, escapeHelp(f.help), f.name, f.kind)
		f.write(&e)
	}
	return e.out
}

// ContentType is the HTTP header that goes with what Append makes.
const ContentType = "text/plain; version=0.0.4; charset=utf-8"

// exporter writes samples.
type exporter struct{ out []byte }

// sample writes: name{label="value",…} value
func (e *exporter) sample(name string, value float64, labels []Label) {
	e.out = append(e.out, name...)
	for i, label := range labels {
		if !validName(label.Name, false) {
			panic("metrics: bad name for a label of " + name + ": " + label.Name)
		}
		if i == 0 {
			e.out = append(e.out, '{')
		} else {
			e.out = append(e.out, ',')
		}
		e.out = append(append(e.out, label.Name...), `="`...)
		e.out = append(append(e.out, escapeValue(label.Value)...), '"')
	}
	if len(labels) > 0 {
		e.out = append(e.out, '}')
	}
	e.out = append(appendFloat(append(e.out, ' '), value), '\n')
}

func (e *exporter) histogram(name string, d *Distribution, sum time.Duration, labels []Label) {
	bounds := append(labels[:len(labels):len(labels)], Label{Name: "le"})
	bound := &bounds[len(labels)].Value
	for _, bucket := range d.AllBuckets() {
		*bound = string(appendFloat(nil, bucket.Longest.Seconds()))
		e.sample(name+"_bucket", float64(bucket.Count), bounds)
	}
	*bound = "+Inf"
	e.sample(name+"_bucket", float64(d.Count()), bounds)
	e.sample(name+"_sum", sum.Seconds(), labels)
	e.sample(name+"_count", float64(d.Count()), labels)
}

func appendFloat(dst []byte, value float64) []byte {
	if math.IsInf(value, 1) {
		return append(dst, "+Inf"...)
	}
	return strconv.AppendFloat(dst, value, 'g', -1, 64)
}

func escapeHelp(text string) string { return strings.NewReplacer(`\`, `\\`, "\n", `\n`).Replace(text) }

func escapeValue(text string) string {
	return strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`).Replace(text)
}
