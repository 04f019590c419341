package observe

import (
	"runtime/debug"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"kedis/server/enginetest"
	"kedis/server/execute"
)

// TestMemoryDoctor diagnoses a server of which nothing is wrong, and one on a machine that is too
// small.
func TestMemoryDoctor(t *testing.T) {
	store, c, log := enginetest.Open(t)
	engine := execute.NewEngine(store, c, log, hclog.NewNullLogger(), 1, execute.NewTable(nil), nil)
	engine.Observer = New(engine)
	diagnose := func() string {
		r := reportOf(engine)
		m, statistics, err := r.measureMemory()
		if err != nil {
			t.Fatal(err)
		}
		return r.diagnoseMemory(&m, &statistics)
	}
	debug.FreeOSMemory() // what other tests have left
	if text := diagnose(); !strings.Contains(text, "Nothing is wrong") {
		t.Errorf("of a small server: %s", text)
	}
	reportOf(engine).machineMemory = 1 << 20
	if text := diagnose(); !strings.Contains(text, "may take") {
		t.Errorf("of a machine that is too small: %s", text)
	}
}
