package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// report is what one part writes: lines of text as it goes on, and tables at the end.
type report struct {
	directory, name string
	raw             io.Writer
	file            *os.File
	tables          strings.Builder
}

func newReport(directory, name, build string) (*report, error) {
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return nil, err
	}
	file, err := os.Create(filepath.Join(directory, "limits-"+name+".txt"))
	if err != nil {
		return nil, err
	}
	r := &report{directory: directory, name: name, file: file, raw: io.MultiWriter(os.Stdout, file)}
	r.line("%s\n%s\n%s\n%s", strings.Join(os.Args, " "), machine(), build, time.Now().UTC().Format(time.RFC3339))
	fmt.Fprintf(&r.tables, "%s\n\n%s\n\n%s, `-only %s` of `make bench-limits`\n", machine(), build, time.Now().UTC().Format(time.DateOnly), name)
	return r, nil
}

// line writes one line of raw text.
func (r *report) line(format string, arguments ...any) { fmt.Fprintf(r.raw, format+"\n", arguments...) }

// text adds a paragraph in front of the next table.
func (r *report) text(format string, arguments ...any) {
	r.line(format, arguments...)
	fmt.Fprintf(&r.tables, "\n"+format+"\n", arguments...)
}

// header begins a table.
func (r *report) header(columns ...string) {
	fmt.Fprintf(&r.tables, "\n| %s |\n|%s\n", strings.Join(columns, " | "), strings.Repeat("---|", len(columns)))
}

// row adds a row to the table, and to the raw text.
func (r *report) row(cells ...string) {
	r.line("%s", strings.Join(cells, "  "))
	fmt.Fprintf(&r.tables, "| %s |\n", strings.Join(cells, " | "))
}

// chart writes a chart beside the other files.
func (r *report) chart(svg string) error {
	return os.WriteFile(filepath.Join(r.directory, "limits-"+r.name+".svg"), []byte(svg), 0o644)
}

// end writes the tables.
func (r *report) end() error {
	err := os.WriteFile(filepath.Join(r.directory, "limits-"+r.name+".md"), []byte(r.tables.String()), 0o644)
	return errors.Join(err, r.file.Close())
}

// quantiles are the cells p50, p99, p99.9 and the longest, in milliseconds.
func quantiles(h *histogram) []string {
	if h.count == 0 {
		return []string{"", "", "", ""}
	}
	return []string{milliseconds(h.quantile(0.5)), milliseconds(h.quantile(0.99)), milliseconds(h.quantile(0.999)), milliseconds(h.most)}
}

func milliseconds(d time.Duration) string { return fmt.Sprintf("%.2f", d.Seconds()*1000) }

func megabytes(bytes int64) string { return fmt.Sprintf("%.0f MB", float64(bytes)/megabyte) }

// machine names the processor, the cores, the memory and the kernel.
func machine() string {
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease") // left out where there is none
	return fmt.Sprintf("%s, %d cores, %s of memory, Linux %s", procLine("/proc/cpuinfo", "model name"), runtime.NumCPU(),
		procLine("/proc/meminfo", "MemTotal"), strings.TrimSpace(string(kernel)))
}

func procLine(path, wanted string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return "unknown"
	}
	for line := range strings.SplitSeq(string(text), "\n") {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == wanted {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}
