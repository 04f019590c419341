package command

import (
	"fmt"
	"maps"
	"regexp"
	"strings"
	"testing"

	"kedis/server/enginetest"
)

// TestManyAreTrimmedInSteps: several commits count what will go, and one more trims it off. Only
// that one has an effect. Inside of a transaction there is one commit.
func TestManyAreTrimmedInSteps(t *testing.T) {
	const entries, stay, perStep = 25_000, 40, 10_000
	engine, log := newTestEngine(t)
	c := newTestClient(t, engine)
	c.Do("CONFIG", "SET", "stream-node-max-entries", "1")
	for i := range entries {
		c.Do("XADD", "whole", fmt.Sprint(i+1), "f", "v")
	}
	removed := fmt.Sprintf(":%d\r\n", entries-stay)
	minID := fmt.Sprint(entries - stay + 1)
	for _, test := range []struct {
		request, reply, effect string
		nested                 bool
	}{
		{fmt.Sprint("XTRIM s MAXLEN ", stay), removed, fmt.Sprint("XTRIM s MAXLEN = ", stay), false},
		{fmt.Sprint("XTRIM s MAXLEN ~ ", stay, " LIMIT 0"), removed, fmt.Sprint("XTRIM s MAXLEN = ", stay), false},
		{fmt.Sprint("XTRIM s MINID ", minID), removed, fmt.Sprint("XTRIM s MINID = ", minID, "-0"), false},
		{fmt.Sprint("XTRIM s MINID ", minID, " DELREF"), removed, fmt.Sprint("XTRIM s MINID = ", minID, "-0"), false},
		{fmt.Sprint("XADD s MAXLEN ", stay+1, " 30000 f v"), "$7\r\n30000-0\r\n", fmt.Sprint("XADD s MAXLEN = ", stay+1, " 30000-0 f v"), false},
		{fmt.Sprint("XTRIM s MAXLEN ", stay), "*1\r\n" + removed, fmt.Sprint("XTRIM s MAXLEN = ", stay), true},
	} {
		t.Run(test.request, func(t *testing.T) {
			c.Do("COPY", "whole", "s", "REPLACE")
			effects, commits := len(log.Content), engine.Store.Counters().Commits.Load()
			request := strings.Fields(test.request)
			if test.nested {
				c.Do("MULTI")
				c.Do(request...)
				request = []string{"EXEC"}
			}
			c.want(test.request, test.reply, request...)
			want := int64(1 + entries/perStep)
			if test.nested {
				want = 1
			}
			if made := engine.Store.Counters().Commits.Load() - commits; int64(made) != want {
				t.Errorf("%d commits, want %d", made, want)
			}
			written := strings.Join(enginetest.Requests(t, log.Content[effects:]), "; ")
			if !strings.EqualFold(strings.TrimSuffix(strings.TrimPrefix(written, "MULTI; "), "; EXEC"), test.effect) {
				t.Errorf("effects %q, want %q", written, test.effect)
			}
			first := fmt.Sprintf("*1\r\n*2\r\n$7\r\n%s-0\r\n*2\r\n$1\r\nf\r\n$1\r\nv\r\n", minID)
			c.want("the first one", first, "XRANGE", "s", "-", "+", "COUNT", "1")
		})
	}
}

// TestReferencedAreTrimmedInSteps: what groups know of entries is in view for as long as a trim of
// many takes, in commits of their own and, inside of a transaction, in one.
func TestReferencedAreTrimmedInSteps(t *testing.T) {
	const entries = 12_000
	engine, _ := newTestEngine(t)
	c := newTestClient(t, engine)
	c.Do("CONFIG", "SET", "stream-node-max-entries", "7")
	held := map[int]bool{} // entries that are there
	for i := 1; i <= entries; i++ {
		c.Do("XADD", "whole", fmt.Sprint(i), "f", "v")
		held[i] = true
	}
	pending := map[string]map[int]bool{}
	for group, last := range map[string]int{"g": entries - 100, "h": entries - 1000} {
		pending[group] = map[int]bool{}
		c.Do("XGROUP", "CREATE", "whole", group, "0")
		c.Do("XREADGROUP", "GROUP", group, "consumer", "COUNT", fmt.Sprint(last), "STREAMS", "whole", ">")
		for i := 1; i <= last; i++ {
			if i <= 2000 || i%(4+len(pending)) != 0 {
				c.Do("XACK", "whole", group, fmt.Sprint(i))
			} else {
				pending[group][i] = true
			}
		}
	}
	for i := 5; i <= entries; i += 15 { // some stay pending
		c.Do("XDEL", "whole", fmt.Sprint(i))
		delete(held, i)
	}
	needed := func(i int) bool { return i > entries-1000 || pending["g"][i] || pending["h"][i] }
	for _, test := range []struct {
		trim     string
		acked    bool
		min, max int // what is before an id goes, or what is more than a length
	}{
		{"MAXLEN 3000 DELREF", false, entries + 1, 3000},
		{"MINID 9000 DELREF", false, 9000, 0},
		{"MAXLEN 3000 ACKED", true, entries + 1, 3000},
		{"MAXLEN 0 ACKED", true, entries + 1, 0},
		{"MINID 9001 ACKED", true, 9001, 0},
	} {
		left, dropped := maps.Clone(held), map[int]bool{}
		for i := 1; i < test.min && len(left) > test.max; i++ {
			if held[i] && !(test.acked && needed(i)) {
				delete(left, i)
				dropped[i] = !test.acked
			}
		}
		for _, nested := range []bool{false, true} {
			name := fmt.Sprint(test.trim, " nested ", nested)
			c.Do("COPY", "whole", "s", "REPLACE")
			commits := engine.Store.Counters().Commits.Load()
			request, reply := strings.Fields("XTRIM s "+test.trim), fmt.Sprintf(":%d\r\n", len(held)-len(left))
			if nested {
				c.Do("MULTI")
				c.Do(request...)
				request, reply = []string{"EXEC"}, "*1\r\n"+reply
			}
			c.want(name, reply, request...)
			if made := engine.Store.Counters().Commits.Load() - commits; (made > 3) == nested {
				t.Errorf("%s: %d commits", name, made)
			}
			ids := regexp.MustCompile(`\n(\d+)-0\r`)
			check := func(what string, want func(i int) bool, request ...string) {
				t.Helper()
				got := map[string]bool{}
				for _, id := range ids.FindAllStringSubmatch(c.Do(request...), -1) {
					got[id[1]] = true
				}
				for i := 1; i <= entries; i++ {
					if got[fmt.Sprint(i)] != want(i) {
						t.Fatalf("%s: %s has %d: %v", name, what, i, !want(i))
					}
				}
			}
			check("the stream", func(i int) bool { return left[i] }, "XRANGE", "s", "-", "+")
			for group, were := range pending {
				check("group "+group, func(i int) bool { return were[i] && !dropped[i] }, "XPENDING", "s", group, "-", "+", fmt.Sprint(entries))
			}
		}
	}
}

// TestTrimBeforeTheFirstID asks for what comes before the first id that there can be: nothing does.
func TestTrimBeforeTheFirstID(t *testing.T) {
	engine, _ := newTestEngine(t)
	c := newTestClient(t, engine)
	for i := 1; i <= 3; i++ {
		c.Do("XADD", "s", fmt.Sprint(i, "-1"), "f", "v")
	}
	c.Do("XGROUP", "CREATE", "s", "g", "0")
	c.Do("XREADGROUP", "GROUP", "g", "c", "COUNT", "2", "STREAMS", "s", ">")
	c.Do("XACK", "s", "g", "1-1", "2-1")
	for _, references := range []string{"KEEPREF", "DELREF", "ACKED"} {
		for _, first := range []string{"0", "0-1"} {
			c.want("MINID "+first+" "+references, ":0\r\n", "XTRIM", "s", "MINID", first, references)
		}
	}
	c.Do("XADD", "s", "MINID", "0", "ACKED", "4-1", "f", "v")
	c.want("the length", ":4\r\n", "XLEN", "s")
}
