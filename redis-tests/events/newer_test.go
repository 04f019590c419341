package events

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"kedis/redis-tests/launch"
	"kedis/redis-tests/resp"
)

var rewrite = flag.Bool("rewrite", false, "write the events of what is newer than the oracle anew")

// newerEvents is the file of requests that Redis 7.0 doesn't know.
const newerEvents = "newer.txt"

// TestEventsOfNewerCommands compares the events of commands that Redis 7.0 doesn't know with those
// that are written down, and, where another server knows them and is there, with that server's.
func TestEventsOfNewerCommands(t *testing.T) {
	text, err := os.ReadFile(newerEvents)
	if err != nil {
		t.Fatal(err)
	}
	tested := listenToKeys(t, launch.ForTest(t, launch.MustUnderTest(t)))
	var oracle *server
	var rewritten []string
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		name, names := strings.CutPrefix(line, "@oracle")
		request, events, _ := strings.Cut(line, separator)
		request = strings.TrimSpace(request)
		switch {
		case names:
			oracle = newerOracle(t, strings.TrimSpace(name))
			fallthrough
		case line == "" || line[0] == '#':
			rewritten = append(rewritten, line)
			for _, s := range []*server{oracle, tested} {
				if s != nil {
					s.must(t, "flushall")
				}
			}
			continue
		}
		got, want := eventsOf(t, tested, request), strings.TrimSpace(events)
		if *rewrite {
			want = got
		}
		if oracle != nil {
			want = eventsOf(t, oracle, request)
		}
		if got != want {
			t.Errorf("%s told of %q, not of %q", request, got, want)
		}
		if want != "" {
			request += separator + " " + want
		}
		rewritten = append(rewritten, request)
	}
	if *rewrite {
		if err := os.WriteFile(newerEvents, []byte(strings.Join(rewritten, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// separator stands between a request and its events.
const separator = " ->"

// newerOracle is a server of a name; nil when it isn't there.
func newerOracle(t *testing.T, name string) *server {
	if name == "" || os.Getenv("KEDIS_ORACLE_"+strings.ToUpper(name)) == "" {
		return nil
	}
	return listenToKeys(t, launch.ForTest(t, launch.MustNewerOracle(t, name)))
}

func listenToKeys(t *testing.T, launched *launch.Server) *server {
	s := listen(t, launched)
	s.must(t, "config", "set", "notify-keyspace-events", "EAnm")
	return s
}

// eventsOf runs a request and returns its events in one line.
func eventsOf(t *testing.T, s *server, request string) string {
	t.Helper()
	words, err := resp.SplitLine(request)
	if err != nil {
		t.Fatal(err)
	}
	reply, events := s.run(t, words)
	if strings.HasPrefix(reply, "-") {
		events = append(slices.DeleteFunc(events, isMiss), "error")
	}
	for i := range events {
		events[i] = strings.TrimPrefix(events[i], "__keyevent@0__:")
	}
	return strings.Join(events, ", ")
}
