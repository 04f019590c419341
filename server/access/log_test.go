package access

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func logged(l *Log) string {
	var entries []string
	for _, e := range l.Latest(100) {
		entries = append(entries, fmt.Sprintf("%d %s×%d", e.ID, e.Username, e.Count))
	}
	return strings.Join(entries, ", ")
}

func TestLog(t *testing.T) {
	limit := int64(12)
	l := NewLog(func() int64 { return limit })
	now := time.Unix(1000, 0)
	expect := func(want string) {
		t.Helper()
		if got := logged(l); got != want {
			t.Errorf("%s; expected %s", got, want)
		}
	}
	add := func(user string) { l.Add(Entry{Reason: DeniedAuthentication, Username: user, Object: "AUTH"}, now) }
	add("a")
	add("b")
	add("a")
	expect("0 a×2, 1 b×1")
	now = now.Add(entriesTogether)
	add("b")
	now = now.Add(entriesTogether + 1)
	add("b")
	expect("2 b×1, 1 b×2, 0 a×2")
	for i := range 9 {
		add(fmt.Sprint(i))
	}
	add("b") // the last that is compared
	if latest := l.Latest(1)[0]; latest.ID != 2 || latest.Count != 2 {
		t.Errorf("%+v", latest)
	}
	add("c")
	expect("12 c×1, 2 b×2, 11 8×1, 10 7×1, 9 6×1, 8 5×1, 7 4×1, 6 3×1, 5 2×1, 4 1×1, 3 0×1, 1 b×2")
	limit = 1
	add("d")
	expect("13 d×1")
	l.Add(Entry{Reason: DeniedKey, Username: "d", Object: "AUTH"}, now)
	expect("14 d×1") // for another reason
	limit = 0
	add("d")
	expect("")
	if l.Total(DeniedAuthentication) != 18 || l.Total(DeniedKey) != 1 {
		t.Errorf("%d and %d denials in total", l.Total(DeniedAuthentication), l.Total(DeniedKey))
	}
	limit = 1
	add("a")
	expect("15 a×1")
	l.Reset()
	l.ResetTotals()
	if len(l.Latest(1)) != 0 || l.Total(DeniedAuthentication) != 0 {
		t.Error("something is left after Reset")
	}
	add("a")
	expect("16 a×1")
}
