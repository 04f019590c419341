package replication

import (
	"reflect"
	"testing"

	"kedis/binlog"
)

func TestMeet(t *testing.T) {
	histories := func(words ...string) []binlog.Ancestor {
		found, err := parseHistories(words)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	for name, c := range map[string]struct {
		own, others []binlog.Ancestor
		id          string
		at          int64
	}{
		"the primary was promoted earlier":          {histories(idA, "114"), histories(idA, "100", idB, "150"), idA, 100},
		"it has been promoted later":                {histories(idA, "90"), histories(idA, "100", idB, "150"), idA, 90},
		"the server began a history of its own":     {histories(idA, "110", idC, "120"), histories(idA, "100", idB, "150"), idA, 100},
		"and before the primary was promoted":       {histories(idA, "80", idC, "120"), histories(idA, "100", idB, "150"), idA, 80},
		"it comes back to its primary":              {histories(idA, "80", idC, "120"), histories(idA, "150"), idA, 80},
		"the primary lags behind":                   {histories(idA, "80"), histories(idA, "70"), idA, 70},
		"the youngest of several":                   {histories(idA, "80", idB, "100", idC, "120"), histories(idA, "80", idB, "90"), idB, 90},
		"a history that came again, after another":  {histories(idA, "50", idB, "60", idA, "90"), histories(idA, "70"), idA, 70},
		"histories that have nothing to do with it": {histories(idA, "80"), histories(idB, "90"), "", -1},
		"a primary that tells nothing":              {histories(idA, "80"), nil, "", -1},
	} {
		if id, at, found := meet(c.own, c.others); id != c.id || at != c.at || found != (c.at >= 0) {
			t.Errorf("%s: %q at %d, %v", name, id, at, found)
		}
	}
}

// promoting is a log at 1000 that begins a new history and goes on when it is looked at.
type promoting struct{ looked bool }

func (p *promoting) look() (formerly bool) {
	formerly, p.looked = !p.looked, true
	return formerly
}

func (p *promoting) Position() int64 {
	if p.look() {
		return 1000
	}
	return 1050
}

func (p *promoting) History() binlog.History {
	if p.look() {
		return binlog.History{ID: idA}
	}
	return binlog.History{ID: idB, Ancestors: []binlog.Ancestor{{ID: idA, Left: 1000}}}
}

// TestHistoriesInAPromotion: of no history more is told than there was.
func TestHistoriesInAPromotion(t *testing.T) {
	want := []binlog.Ancestor{{ID: idA, Left: 1000}, {ID: idB, Left: 1000}}
	if got := branches(&promoting{}); !reflect.DeepEqual(got, want) {
		t.Errorf("in a promotion the histories are %v", got)
	}
}

func TestHistoriesOfInfo(t *testing.T) {
	for text, want := range map[string][]string{
		"# Replication\r\nrole:master\r\nmaster_replid:" + idB + "\r\nmaster_replid2:" + idA + "\r\nmaster_repl_offset:150\r\nsecond_repl_offset:101\r\n": {idA, "100", idB, "150"},
		"master_replid:" + idB + "\r\nmaster_replid2:0000\r\nmaster_repl_offset:150\r\nsecond_repl_offset:-1\r\n":                                         {idB, "150"},
		"role:master\r\n": nil,
	} {
		if got := historiesOfInfo(text); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %q", text, got)
		}
	}
	if _, err := parseHistories([]string{idA, "many"}); err == nil {
		t.Error("a position that is none is taken")
	}
}
