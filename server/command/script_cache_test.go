package command

import "testing"

// TestLoadBesideEvaluationStays: a script that SCRIPT LOAD brings stays, though EVAL has brought it
// while it was compiled.
func TestLoadBesideEvaluationStays(t *testing.T) {
	engine, _ := newTestEngine(t)
	s := &keptBy(engine).scripts
	digits := scriptDigest([]byte("return 1"))
	var compiled [2]*knownScript
	for i := range compiled {
		var err error
		if compiled[i], err = s.prepare(string(digits[:]), []byte("return 1")); err != nil {
			t.Fatal(err)
		}
	}
	s.put(compiled[0], false)
	if known := s.put(compiled[1], true); known != compiled[0] || known.element != nil || s.used.Len() != 0 {
		t.Errorf("it may go: %v, %d may", known.element, s.used.Len())
	}
}
