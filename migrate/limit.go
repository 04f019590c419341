package migrate

import (
	"context"
	"strconv"
	"strings"
	"time"
)

// Limit bounds how fast data is moved. A nil or zero Limit does not. It is for one goroutine.
type Limit struct {
	Bytes float64 // a second; 0 is no limit
	Keys  float64 // a second, single commands of a stream included; 0 is no limit

	free time.Time // when what was let through so far has had its time
}

// ParseLimit reads limits such as 20MB and 5000keys, with a comma between them; a unit may end in
// /s.
func ParseLimit(text string) (*Limit, error) {
	l := &Limit{}
	if text == "" {
		return l, nil
	}
	units := []struct {
		name   string
		factor float64
		limit  *float64
	}{{"keys", 1, &l.Keys}, {"kb", 1 << 10, &l.Bytes}, {"mb", 1 << 20, &l.Bytes}, {"gb", 1 << 30, &l.Bytes}}
next:
	for _, item := range strings.Split(text, ",") {
		item := strings.TrimSuffix(strings.ToLower(strings.TrimSpace(item)), "/s")
		for _, unit := range units {
			digits, ok := strings.CutSuffix(item, unit.name)
			if number, err := strconv.ParseFloat(strings.TrimSpace(digits), 64); ok && err == nil && number > 0 {
				*unit.limit = number * unit.factor
				continue next
			}
		}
		return nil, failure(ExitUsage, "--rate: expected limits such as 20MB or 5000keys, with a comma between them, got %q", text)
	}
	return l, nil
}

func (l *Limit) unlimited() bool { return l == nil || l.Bytes == 0 && l.Keys == 0 }

// burst is how far what is let through may be ahead of its time.
const burst = 50 * time.Millisecond

// wait waits until that much more may go.
func (l *Limit) wait(ctx context.Context, bytes, keys int) error {
	if l == nil {
		return nil
	}
	var takes float64 // seconds
	if l.Bytes > 0 {
		takes = float64(bytes) / l.Bytes
	}
	if l.Keys > 0 {
		takes = max(takes, float64(keys)/l.Keys)
	}
	if takes == 0 {
		return nil
	}
	now := time.Now()
	if l.free.Before(now) {
		l.free = now
	}
	l.free = l.free.Add(time.Duration(takes * float64(time.Second)))
	ahead := l.free.Sub(now)
	if ahead < burst {
		return nil
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(ahead):
		return nil
	}
}
