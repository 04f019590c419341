package command

import (
	"regexp"
	"strings"
	"testing"

	"kedis/server/enginetest"
)

// TestEffectsOfStreams: effects whose words are added one by one are whole requests, and say what
// is to be repeated.
func TestEffectsOfStreams(t *testing.T) {
	engine, log := newTestEngine(t)
	c := newTestClient(t, engine)
	for _, test := range []struct{ request, want string }{
		{"XADD s 1 f v g w", "XADD s 1-0 f v g w"},
		{"XADD s 2-* f v", "XADD s 2-0 f v"},
		{"XADD s MAXLEN ~ 5 3 f v", "XADD s MAXLEN = 3 3-0 f v"},
		{"XADD s MINID ~ 1 4 f v", "XADD s MINID = 1-0 4-0 f v"},
		{"XADD s MINID 2 5 f v", "XADD s MINID = 2-0 5-0 f v"},
		{"XGROUP CREATE s g 0", "XGROUP CREATE s g 0"},
		{"XREADGROUP GROUP g a COUNT 2 STREAMS s >", "MULTI; XCLAIM s g a 0 2-0 3-0 TIME T RETRYCOUNT 1 FORCE JUSTID LASTID 3-0; " +
			"XGROUP SETID s g 3-0 ENTRIESREAD 3; EXEC"},
		{"XREADGROUP GROUP g a COUNT 1 NOACK STREAMS s >", "XGROUP SETID s g 4-0 ENTRIESREAD 4"},
		{"XREADGROUP GROUP g b COUNT 1 CLAIM 0 STREAMS s >", "XCLAIM s g b 0 2-0 TIME T RETRYCOUNT 2 FORCE JUSTID LASTID 4-0"},
		{"XREADGROUP GROUP g b STREAMS s 0", "XCLAIM s g b 0 2-0 TIME T RETRYCOUNT 3 FORCE JUSTID LASTID 4-0"},
		{"XAUTOCLAIM s g a 0 0", "MULTI; XCLAIM s g a 0 2-0 TIME T RETRYCOUNT 4 FORCE JUSTID LASTID 4-0; " +
			"XCLAIM s g a 0 3-0 TIME T RETRYCOUNT 2 FORCE JUSTID LASTID 4-0; EXEC"},
		{"XCLAIM s g a 0 2 3 RETRYCOUNT 9", "XCLAIM s g a 0 2-0 3-0 TIME T RETRYCOUNT 9 FORCE JUSTID LASTID 4-0"},
		{"XACKDEL s g KEEPREF IDS 2 2 3", "MULTI; XACK s g 2-0 3-0; XDEL s 2-0 3-0; EXEC"},
		{"XTRIM s MAXLEN ~ 0", "XTRIM s MAXLEN = 0"},
	} {
		log.Content = nil
		if reply := c.Do(strings.Fields(test.request)...); strings.HasPrefix(reply, "-") {
			t.Errorf("%s: %s", test.request, reply)
		}
		if got := effectsIn(t, log.Content); got != test.want {
			t.Errorf("%s: the effect is\n%s, want\n%s", test.request, got, test.want)
		}
	}
}

// effectsIn returns requests in short, with T in the place of a time.
func effectsIn(t *testing.T, content []byte) string {
	t.Helper()
	return regexp.MustCompile(`TIME \d+`).ReplaceAllString(strings.Join(enginetest.Requests(t, content), "; "), "TIME T")
}
