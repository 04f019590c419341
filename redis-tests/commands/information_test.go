package commands

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"kedis/redis-tests/launch"
)

// untold are the fields of INFO that Redis has alone, and why.
var untold = map[string]string{
	"monotonic_clock":           "Redis's C",
	"atomicvar_api":             "Redis's C",
	"gcc_version":               "go_version",
	"used_cpu_sys_main_thread":  "there is no main thread",
	"used_cpu_user_main_thread": "there is no main thread",
}

// TestInformationAsRedis expects every field of Redis's INFO in the same section, whose names
// dashboards and alerts ask for.
func TestInformationAsRedis(t *testing.T) {
	oracle, underTest := launch.Pair(t, "--appendonly", "yes")
	want, got := information(t, oracle), information(t, underTest)
	if len(want) < 100 {
		t.Fatalf("redis-server tells only %d fields", len(want))
	}
	for _, field := range slices.Sorted(maps.Keys(want)) {
		if (want[field] == got[field]) == (untold[field] != "") {
			t.Errorf("%s (%s): redis-server has it in %q, the server under test in %q", field, untold[field], want[field], got[field])
		}
	}
}

// information is the section of each field of INFO.
func information(t *testing.T, server *launch.Server) map[string]string {
	connection := server.MustDial(t)
	// Without a key and a failed command three sections are empty.
	if _, err := connection.Must("set", "key", "value", "ex", "1000"); err != nil {
		t.Fatal(err)
	}
	if _, err := connection.Do("get"); err != nil {
		t.Fatal(err)
	}
	reply, err := connection.Must("info", "everything")
	if err != nil {
		t.Fatal(err)
	}
	sections, section := map[string]string{}, ""
	for line := range strings.Lines(string(reply.Text)) {
		line = strings.TrimSpace(line)
		if title, begins := strings.CutPrefix(line, "# "); begins {
			section = title
		} else if name, _, ok := strings.Cut(line, ":"); ok {
			sections[name] = section
		}
	}
	return sections
}
