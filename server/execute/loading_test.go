package execute

import (
	"strings"
	"testing"
)

// TestLoadingGate asks an engine that is loading for what Redis refuses then, and for what it does
// not.
func TestLoadingGate(t *testing.T) {
	engine, _ := newTestEngine(t)
	client := newTestClient(t, engine)
	client.do("SET", "key", "value")
	engine.BeginLoading(engine.Store.Position() + 1000)
	for _, request := range []string{"GET key", "SET key other", "PING", "DBSIZE", "FLUSHALL", "BGSAVE"} {
		if got := client.do(strings.Fields(request)...); got != "-"+string(ErrLoading)+"\r\n" {
			t.Errorf("%s: %q", request, got)
		}
	}
	for request, want := range map[string]string{"GET": "-ERR wrong number", "NOSUCH": "-ERR unknown command", "SELECT 0": "+OK", "UNWATCH": "+OK", "ECHO x": "$1"} {
		if got := client.do(strings.Fields(request)...); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q, want %q", request, got, want)
		}
	}
	info := client.do("INFO", "persistence")
	for _, field := range []string{"loading:1", "loading_total_bytes:1000", "loading_loaded_bytes:0", "loading_loaded_perc:0.00", "loading_eta_seconds:1"} {
		if !strings.Contains(info, "\r\n"+field+"\r\n") {
			t.Errorf("INFO lacks %s:\n%s", field, info)
		}
	}
	engine.EndLoading()
	if got := client.do("GET", "key"); got != "$5\r\nvalue\r\n" {
		t.Errorf("GET after loading: %q", got)
	}
}
