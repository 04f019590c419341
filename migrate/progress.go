package migrate

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Progress counts what is moved and shows it: as a line that is written again and again on a
// terminal, as a line each few seconds elsewhere. Its fields and methods may be used by any
// goroutine.
type Progress struct {
	Keys     atomic.Int64 // that were moved whole
	Commands atomic.Int64 // of a stream
	Bytes    atomic.Int64 // of what was read so far
	Total    atomic.Int64 // of how many bytes; 0 is unknown
	Seen     atomic.Int64 // keys that were looked at, moved or not
	Expected atomic.Int64 // of about how many keys; 0 is unknown
	Lag      atomic.Int64 // bytes of a stream that are still to come; -1 is unknown

	out      io.Writer
	terminal bool
	begun    time.Time
	stop     chan struct{}
	stopped  sync.WaitGroup

	mu      sync.Mutex
	phase   string
	skipped map[string]int64
	shown   int // width of what stands on the terminal's line
	bytes   rate
	seen    rate
	at      time.Time // when the rates were computed last
	phaseAt time.Time
}

const (
	redraw    = 200 * time.Millisecond
	lineEvery = 5 * time.Second
)

// NewProgress shows progress at out until Stop.
func NewProgress(out *os.File, phase string) *Progress {
	_, err := unix.IoctlGetTermios(int(out.Fd()), unix.TCGETS)
	p := newProgress(out, phase, err == nil)
	every := lineEvery
	if p.terminal {
		every = redraw
	}
	p.stopped.Add(1)
	go p.run(every)
	return p
}

func newProgress(out io.Writer, phase string, terminal bool) *Progress {
	p := &Progress{out: out, terminal: terminal, begun: time.Now(), at: time.Now(), stop: make(chan struct{}), phase: phase, phaseAt: time.Now(), skipped: map[string]int64{}}
	p.Lag.Store(-1)
	return p
}

func (p *Progress) run(every time.Duration) {
	defer p.stopped.Done()
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-p.stop:
			return
		case now := <-ticker.C:
			p.show(now)
		}
	}
}

// rate is how fast a number grows: a second, of the last moments.
type rate struct {
	former int64
	value  float64
}

// add takes what the number is after some seconds. On a terminal the rate would jump about: it is
// averaged over some redraws.
func (r *rate) add(now int64, seconds float64) {
	if seconds > 0 {
		weight := min(1, seconds/2)
		r.value += weight * (float64(now-r.former)/seconds - r.value)
	}
	r.former = now
}

// Phase says what is being done now. How much that is isn't known yet.
func (p *Progress) Phase(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.phase, p.phaseAt, p.at = name, time.Now(), time.Now()
	p.Total.Store(0)
	p.Expected.Store(0)
	p.Seen.Store(0)
	p.Lag.Store(-1)
	p.bytes, p.seen = rate{former: p.Bytes.Load()}, rate{}
}

// Skip counts something that isn't moved, and why.
func (p *Progress) Skip(why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.skipped[why]++
}

// Say writes a line of its own.
func (p *Progress) Say(format string, arguments ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	fmt.Fprintf(p.out, format+"\n", arguments...)
}

// clear removes what stands on the terminal's line.
func (p *Progress) clear() {
	if p.shown > 0 {
		fmt.Fprintf(p.out, "\r%*s\r", p.shown, "")
		p.shown = 0
	}
}

func (p *Progress) show(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	bytes, passed := p.Bytes.Load(), now.Sub(p.at).Seconds()
	p.bytes.add(bytes, passed)
	p.seen.add(p.Seen.Load(), passed)
	p.at = now
	line := p.line(bytes)
	if !p.terminal {
		fmt.Fprintln(p.out, line)
		return
	}
	p.clear()
	p.shown = len([]rune(line))
	fmt.Fprint(p.out, line)
}

const barWidth = 24

// line is the state in a line, such as
//
//	snapshot [=====>      ] 42% · 1200000 keys · 310.2 MB · 35.1 MB/s · 12s left
//	stream · 1200000 keys · 15000 commands · 512.0 MB · 1.1 MB/s · lag 2.0 KB
//	putting expiries right [=====>      ] 42% · 1200000 keys · 512.0 MB · 85000 keys/s · 8s left
func (p *Progress) line(bytes int64) string {
	parts := []string{p.phase}
	share, left := p.share(bytes)
	if share >= 0 {
		done := int(barWidth * share)
		parts[0] = fmt.Sprintf("%s [%s>%s] %d%%", p.phase, strings.Repeat("=", done), strings.Repeat(" ", barWidth-done), int(100*share))
	}
	parts = append(parts, fmt.Sprintf("%d keys", p.Keys.Load()))
	if commands := p.Commands.Load(); commands > 0 {
		parts = append(parts, fmt.Sprintf("%d commands", commands))
	}
	if bytes > 0 {
		parts = append(parts, Size(bytes))
	}
	if p.Expected.Load() > 0 && p.bytes.value < 1 {
		parts = append(parts, fmt.Sprintf("%.0f keys/s", p.seen.value))
	} else {
		parts = append(parts, Size(int64(p.bytes.value))+"/s")
	}
	if left > 0 {
		parts = append(parts, left.Round(time.Second).String()+" left")
	}
	if lag := p.Lag.Load(); lag >= 0 {
		parts = append(parts, "lag "+Size(lag))
	}
	return strings.Join(parts, " · ")
}

// share is how much of the whole is done, -1 if that can't be told, and the time that the rest
// takes: by bytes where their number is known, else by keys, for a source that sends its snapshot
// as it makes it.
func (p *Progress) share(bytes int64) (share float64, left time.Duration) {
	total, expected := p.Total.Load(), p.Expected.Load()
	switch {
	case p.Lag.Load() >= 0: // a stream has no end
		return -1, 0
	case total > 0 && bytes <= total:
		share = float64(bytes) / float64(total)
		if p.bytes.value >= 1 {
			left = time.Duration(float64(total-bytes) / p.bytes.value * float64(time.Second))
		}
		return share, left
	case expected > 0:
		share = min(float64(p.Seen.Load())/float64(expected), 1)
		if share > 0 {
			left = time.Duration(float64(time.Since(p.phaseAt)) * (1 - share) / share)
		}
		return share, left
	}
	return -1, 0
}

// Stop ends the showing.
func (p *Progress) Stop() {
	close(p.stop)
	p.stopped.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
}

// Summary tells what was moved and what wasn't, and why.
func (p *Progress) Summary() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	took := time.Since(p.begun)
	bytes := p.Bytes.Load()
	var b strings.Builder
	fmt.Fprintf(&b, "%d keys", p.Keys.Load())
	if commands := p.Commands.Load(); commands > 0 {
		fmt.Fprintf(&b, " and %d commands", commands)
	}
	fmt.Fprintf(&b, ", %s in %s (%s/s)\n", Size(bytes), took.Round(time.Millisecond), Size(int64(float64(bytes)/max(took.Seconds(), 1e-3))))
	for _, why := range slices.SortedFunc(maps.Keys(p.skipped), cmp.Compare[string]) {
		fmt.Fprintf(&b, "skipped: %d, %s\n", p.skipped[why], why)
	}
	return b.String()
}

// Size shows a number of bytes as people read it.
func Size(bytes int64) string {
	units := []string{"B", "KB", "MB", "GB", "TB", "PB", "EB"}
	value, unit := float64(bytes), 0
	for value >= 1024 && unit < len(units)-1 {
		value, unit = value/1024, unit+1
	}
	if unit == 0 {
		return fmt.Sprintf("%d B", bytes)
	}
	return fmt.Sprintf("%.1f %s", value, units[unit])
}
