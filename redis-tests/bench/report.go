package main

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// report is what is written of a whole run.
type report struct {
	title, versions, flags string
	measured               string // whose figures are divided by Redis's
	rounds                 string
	took                   time.Duration
	results                []result
}

// writeTable writes the medians as a table in Markdown.
func (r *report) writeTable(path string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n%s\n\n`%s`, %s in turns, %s in all, %s.\n\n", r.title, strings.ReplaceAll(r.versions, "\n", "\n\n"),
		r.flags, r.rounds, r.took.Round(time.Second), time.Now().UTC().Format(time.DateOnly))
	b.WriteString("| | depth | " + r.measured + "/s | Redis/s | ratio | spread | wanted | p50 ms | p99 ms | Redis p99 ms | processor us | Redis us | left s | Redis left s |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, result := range r.results {
		least, most := result.spread()
		fmt.Fprintf(&b, "| %s | %d | %.0f | %.0f | **%.2f** | %.2f–%.2f | %.1f | %.2f | %.2f | %.2f | %.2f | %.2f | %.2f | %.2f |\n", result.name, result.depth,
			median(result.rates(0)), median(result.rates(1)), result.ratio(), least, most, result.target,
			middle(result.samples[0], func(s sample) float64 { return s.p50 }), middle(result.samples[0], func(s sample) float64 { return s.p99 }),
			middle(result.samples[1], func(s sample) float64 { return s.p99 }),
			middle(result.samples[0], func(s sample) float64 { return s.processor }), middle(result.samples[1], func(s sample) float64 { return s.processor }),
			meanLeft(result.samples[0]), meanLeft(result.samples[1]))
	}
	return os.WriteFile(path, []byte(b.String()), 0o644)
}

// meanLeft is what the runs left to the background, in seconds of processors for each. It is a
// mean, since what comes with every other run costs, too.
func meanLeft(samples []sample) float64 {
	var sum float64
	for _, s := range samples {
		sum += s.left
	}
	return sum / float64(len(samples))
}

// writeChart draws the ratios as bars, with a mark at what is wanted and a line at 1.
func (r *report) writeChart(path string) error {
	const left, right, rowHeight, top, perRatio = 150, 70, 16, 40, 200.0
	width, height := left+right+int(2.5*perRatio), top+rowHeight*len(r.results)+20
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="11">`+"\n", width, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="white"/>`+"\n", width, height)
	fmt.Fprintf(&b, `<text x="10" y="18" font-size="13">Requests/s of %s divided by those of redis-server; the mark is what is wanted</text>`+"\n", r.measured)
	for i, result := range r.results {
		y := top + i*rowHeight
		bar, colour := min(result.ratio(), 2.5)*perRatio, "#2c7fb8"
		if result.ratio() < result.target {
			colour = "#d95f0e"
		}
		fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="end">%s, depth %d</text>`+"\n", left-6, y+11, result.name, result.depth)
		fmt.Fprintf(&b, `<rect x="%d" y="%d" width="%.1f" height="%d" fill="%s"/>`+"\n", left, y+2, bar, rowHeight-4, colour)
		fmt.Fprintf(&b, `<rect x="%.1f" y="%d" width="2" height="%d" fill="black"/>`+"\n", left+result.target*perRatio, y, rowHeight)
		fmt.Fprintf(&b, `<text x="%.1f" y="%d">%.2f</text>`+"\n", left+bar+5, y+11, result.ratio())
	}
	fmt.Fprintf(&b, `<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="gray" stroke-dasharray="3"/>`+"\n", left+perRatio, top-6, left+perRatio, height-14)
	b.WriteString("</svg>\n")
	return os.WriteFile(path, []byte(b.String()), 0o644)
}

// middle is the median of one figure of the samples.
func middle(samples []sample, figure func(sample) float64) float64 {
	r := result{}
	for _, s := range samples {
		r.samples[0] = append(r.samples[0], sample{rate: figure(s)})
	}
	return median(r.rates(0))
}

// memory is the machine's memory as the kernel tells it.
func memory() string {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return "unknown"
	}
	var kilobytes int
	if _, err := fmt.Sscanf(string(text), "MemTotal: %d kB", &kilobytes); err != nil {
		return "unknown"
	}
	return fmt.Sprintf("%.0f GB", float64(kilobytes)/(1<<20))
}
