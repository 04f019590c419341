package rocks

import (
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
)

func TestStallsDoNotFloodTheLog(t *testing.T) {
	var log strings.Builder
	s := stalls{logger: hclog.New(&hclog.LoggerOptions{Output: &log, DisableTime: true}), telling: map[string]bool{}}
	const normal, slowed, stopped = 0, 1, 2
	now := time.UnixMilli(1_000_000)
	for range 1000 {
		s.note("ns1", normal, slowed, now)
		s.note("default", normal, slowed, now)
		s.note("ns1", slowed, stopped, now.Add(time.Millisecond))
		s.note("default", slowed, normal, now.Add(2*time.Millisecond))
		s.note("ns1", stopped, normal, now.Add(3*time.Millisecond))
		now = now.Add(10 * time.Millisecond)
	}
	s.note("ns1", normal, slowed, now.Add(stallsEvery))
	const want = `[WARN]  rocksdb: writes to a family: family=ns1 are="slowed down" were=normal
[WARN]  rocksdb: writes to a family: family=ns1 are=stopped were="slowed down"
[INFO]  rocksdb: writes to a family: family=ns1 are=normal were=stopped
[WARN]  rocksdb: writes to a family: family=ns1 are="slowed down" were=normal stalls-not-logged-before=1999
`
	if log.String() != want {
		t.Errorf("logged\n%swant\n%s", log.String(), want)
	}
}
