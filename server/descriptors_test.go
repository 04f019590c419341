package server

import (
	"bytes"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"kedis/internal/config"
)

// TestShare looks how descriptors are shared out: never more than there are, and as much as is
// wanted if there is enough.
func TestShare(t *testing.T) {
	for limit := range 30_000 {
		for _, tables := range []int{-1, 100} {
			d := share(limit, 2, 10_000, tables)
			if used := d.own + d.arrivals + max(d.tables, 0) + d.clients; d.clients > 0 && used > limit {
				t.Fatalf("limit %d: %+v is %d", limit, d, used)
			}
			if limit >= needed(2, 10_000, tables) && (d.clients != 10_000 || d.tables != tables || d.arrivals != mostArrivals) {
				t.Fatalf("limit %d, %d are needed: %+v", limit, needed(2, 10_000, tables), d)
			}
		}
	}
}

// TestFit compares what is logged and configured with few descriptors.
func TestFit(t *testing.T) {
	for _, c := range []struct {
		limit           int
		clients, tables int64
		says            []string
		fails           string
	}{
		{limit: 40, clients: 10_000, tables: -1, fails: "Your current 'ulimit -n' of 40 is not enough for the server to start. " +
			"Please increase your open file limit to at least 11100"},
		{limit: 300, clients: 168, tables: 56, says: []string{"You requested maxclients of 10000 requiring at least 11100 max file descriptors.",
			"Current maximum open files is 300. maxclients has been reduced to 168 to compensate for low ulimit. " +
				"If you need higher maxclients increase 'ulimit -n'.",
			"Current maximum open files is 300. rocksdb-max-open-files has been set to 56."}},
		{limit: 20_000, clients: 10_000, tables: -1},
	} {
		conf, log := config.New(), &bytes.Buffer{}
		err := fit(conf, c.limit, 2, hclog.New(&hclog.LoggerOptions{Output: log}))
		if (err != nil) != (c.fails != "") || err != nil && !strings.Contains(err.Error(), c.fails) {
			t.Errorf("limit %d: %v", c.limit, err)
		}
		if strings.Count(log.String(), "\n") != len(c.says) {
			t.Errorf("limit %d: %s", c.limit, log)
		}
		for _, line := range c.says {
			if !strings.Contains(log.String(), line) {
				t.Errorf("limit %d: %s lacks %q", c.limit, log, line)
			}
		}
		if conf.MaxClients.Get() != c.clients || conf.RocksDBMaxOpenFiles.Get() != c.tables {
			t.Errorf("limit %d: %d clients, %d tables", c.limit, conf.MaxClients.Get(), conf.RocksDBMaxOpenFiles.Get())
		}
	}
}
