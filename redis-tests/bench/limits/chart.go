package main

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// series is one panel of the chart.
type series struct {
	name       string
	latencies  timeline
	activities []activity
}

// Of a panel, in pixels. Its latencies stand on a logarithmic scale of decades from shortest.
const (
	panelLeft, panelWidth, panelHeight = 70, 900, 200
	panelTop, panelSpace               = 60, 290
	shortest                           = 10 * time.Microsecond
)

// drawTimelines draws the worst latency of each slot as an SVG, a panel for each series, and below
// it what RocksDB did at that time.
func drawTimelines(panels []series) string {
	longest, end := shortest, slot
	for _, s := range panels {
		for _, latency := range s.latencies {
			longest = max(longest, latency)
		}
		end = max(end, time.Duration(len(s.latencies))*slot)
	}
	decades := max(int(math.Ceil(math.Log10(float64(longest)/float64(shortest)))), 1)
	var b strings.Builder
	width, height := panelLeft+panelWidth+30, panelTop+panelSpace*len(panels)
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="11">`+"\n", width, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="white"/>`+"\n", width, height)
	fmt.Fprintf(&b, `<text x="10" y="18" font-size="13">Worst latency of the requests due in each %v, at half of the maximal rate</text>`+"\n", slot)
	for i, s := range panels {
		p := panel{&b, panelTop + i*panelSpace, decades, end}
		p.axes(s.name)
		p.line(s.latencies)
		p.marks(s.activities)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

type panel struct {
	*strings.Builder
	top, decades int
	end          time.Duration
}

// x and y place a time and a latency.
func (p *panel) x(at time.Duration) float64 {
	return panelLeft + panelWidth*at.Seconds()/p.end.Seconds()
}

func (p *panel) y(latency time.Duration) float64 {
	height := math.Log10(float64(max(latency, shortest))/float64(shortest)) / float64(p.decades)
	return float64(p.top) + panelHeight*(1-height)
}

func (p *panel) axes(name string) {
	fmt.Fprintf(p, `<text x="%d" y="%d" font-weight="bold">%s</text>`+"\n", panelLeft, p.top-8, name)
	latency := shortest
	for range p.decades + 1 {
		y := p.y(latency)
		fmt.Fprintf(p, `<line x1="%d" y1="%.1f" x2="%d" y2="%.1f" stroke="#ddd"/>`+"\n", panelLeft, y, panelLeft+panelWidth, y)
		fmt.Fprintf(p, `<text x="%d" y="%.1f" text-anchor="end">%v</text>`+"\n", panelLeft-6, y+4, latency)
		latency *= 10
	}
	const labels = 10
	for i := range labels + 1 {
		at := p.end * time.Duration(i) / labels
		fmt.Fprintf(p, `<text x="%.1f" y="%d" text-anchor="middle">%.1f s</text>`+"\n", p.x(at), p.top+panelHeight+54, at.Seconds())
	}
}

func (p *panel) line(latencies timeline) {
	var points []string
	for i, latency := range latencies {
		points = append(points, fmt.Sprintf("%.1f,%.1f", p.x(time.Duration(i)*slot+slot/2), p.y(latency)))
	}
	fmt.Fprintf(p, `<polyline points="%s" fill="none" stroke="#2c7fb8"/>`+"\n", strings.Join(points, " "))
}

// marks draws a row of ticks for each kind of activity.
func (p *panel) marks(activities []activity) {
	for row, kind := range []struct {
		name, colour string
		is           func(activity) bool
	}{{"generation", "#d95f0e", activity.isGeneration}, {"flush", "#31a354", activity.isFlush}, {"compaction", "#756bb1", activity.isCompaction}} {
		y := p.top + panelHeight + 4 + row*12
		fmt.Fprintf(p, `<text x="%d" y="%d" text-anchor="end" fill="%s">%s</text>`+"\n", panelLeft-6, y+9, kind.colour, kind.name)
		for _, a := range activities {
			if kind.is(a) {
				from := max(a.at-slot, 0)
				fmt.Fprintf(p, `<rect x="%.1f" y="%d" width="%.1f" height="9" fill="%s"/>`+"\n", p.x(from), y, p.x(a.at)-p.x(from), kind.colour)
			}
		}
	}
}
