package command

import (
	"fmt"
	"strings"
	"testing"

	"kedis/server/enginetest"
)

// TestManyAreTrimmedInSteps: several commits count what will go, and one more trims it off. Only that one has an effect.
// Inside of a transaction there is one commit.
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
