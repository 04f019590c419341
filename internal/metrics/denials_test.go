package metrics

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func denied(d *Denials) string {
	var entries []string
	for _, e := range d.Latest(100) {
		entries = append(entries, fmt.Sprintf("%d %s×%d", e.ID, e.Username, e.Count))
	}
	return strings.Join(entries, ", ")
}

func TestDenials(t *testing.T) {
	limit := int64(12)
	d := NewDenials(func() int64 { return limit })
	now := time.Unix(1000, 0)
	expect := func(want string) {
		t.Helper()
		if got := denied(d); got != want {
			t.Errorf("%s; expected %s", got, want)
		}
	}
	add := func(user string) { d.Add(Denial{Username: user, Object: "AUTH"}, now) }
	add("a")
	add("b")
	add("a")
	expect("0 a×2, 1 b×1")
	now = now.Add(denialsTogether)
	add("b")
	now = now.Add(denialsTogether + 1)
	add("b")
	expect("2 b×1, 1 b×2, 0 a×2")
	for i := range 9 {
		add(fmt.Sprint(i))
	}
	add("b") // the last that is compared
	if latest := d.Latest(1)[0]; latest.ID != 2 || latest.Count != 2 {
		t.Errorf("%+v", latest)
	}
	add("c")
	expect("12 c×1, 2 b×2, 11 8×1, 10 7×1, 9 6×1, 8 5×1, 7 4×1, 6 3×1, 5 2×1, 4 1×1, 3 0×1, 1 b×2")
	limit = 1
	add("d")
	expect("13 d×1")
	if d.Total() != 17 {
		t.Errorf("%d denials in total", d.Total())
	}
	d.Reset()
	d.ResetTotal()
	if len(d.Latest(1)) != 0 || d.Total() != 0 {
		t.Error("something is left after Reset")
	}
	add("a")
	expect("14 a×1")
}
