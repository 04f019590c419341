package keyevent

import "testing"

// TestClasses reads letters and shows them as redis-server 7.0 does.
func TestClasses(t *testing.T) {
	for _, c := range []struct{ given, shown, written string }{
		{"", "", ""},
		{"KEA", "AKE", "AKE"},
		{"KEAmn", "AKEm", "AnKEm"},
		{"g$lshzxetd", "A", "A"},
		{"Kg", "gK", "gK"},
		{"KEnm", "nKEm", "nKEm"},
		{"EKdn", "dnKE", "dnKE"},
	} {
		classes, ok := ParseClasses(c.given)
		if shown := classes.String(); !ok || shown != c.shown {
			t.Errorf("%q is shown as %q, want %q", c.given, shown, c.shown)
		}
		if written := classes.Written(); written != c.written {
			t.Errorf("%q is written as %q, want %q", c.given, written, c.written)
		}
		if again, _ := ParseClasses(classes.Written()); again != classes {
			t.Errorf("%q is another set when it is read back", c.given)
		}
	}
	if _, ok := ParseClasses("KEq"); ok {
		t.Error("q stands for nothing, and was taken")
	}
}

// TestWanted: without a channel nothing is wanted.
func TestWanted(t *testing.T) {
	for text, want := range map[string]Classes{"Ag": 0, "Kg": Generic, "Em$": Miss | String} {
		if classes, _ := ParseClasses(text); classes.Wanted() != want {
			t.Errorf("%q: %b, want %b", text, classes.Wanted(), want)
		}
	}
}

// TestEveryNameIsOfOneClass also finds a name without text.
func TestEveryNameIsOfOneClass(t *testing.T) {
	for n := Removed + 1; int(n) < len(names); n++ {
		class := n.Class()
		if n.String() == "" || class == 0 || class&(class-1) != 0 || class&Ways != 0 {
			t.Errorf("event %d is %q of class %b", n, n, class)
		}
	}
}
