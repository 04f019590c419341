package glob

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// TestShortClass: a class takes the same bytes in its shorter form.
func TestShortClass(t *testing.T) {
	random := rand.New(rand.NewPCG(seed, 3))
	const bytes = `ab-z]^\AZ` + "\x00\x7f\x80\xff"
	for range 3000 {
		class := []byte{'['}
		for range random.IntN(12) {
			class = append(class, bytes[random.IntN(len(bytes))])
		}
		if random.IntN(2) == 0 {
			class = append(class, ']')
		}
		for _, fold := range []bool{false, true} {
			rest, _ := matchElement(class, 0, fold)
			class := class[:len(class)-len(rest)]
			short := shortClass(class, fold)
			for c := range 256 {
				_, want := matchElement(class, byte(c), fold)
				if rest, got := matchElement(short, byte(c), fold); got != want || len(rest) > 0 {
					t.Fatalf("seed %d: %q, made %q of %q: %v, and %q is left", seed, rune(c), short, class, got, rest)
				}
			}
		}
	}
}

// TestCompileShortens: what a hostile pattern repeats is looked at once.
func TestCompileShortens(t *testing.T) {
	many := 1 << 16
	for pattern, want := range map[string]string{
		strings.Repeat("*", many):                          "*",
		"a" + strings.Repeat("*", many) + "b":              "a*b",
		"[" + strings.Repeat("b", many) + "]":              "[b-b]",
		"[" + strings.Repeat("b", many):                    "[b-b]",
		"[^" + strings.Repeat("b-d", many) + "]x":          "[^b-d]x",
		"[" + strings.Repeat(`\b`, many) + "]":             `[\b]`,
		strings.Repeat("*["+strings.Repeat("b", 9)+"]", 2): "*[b-b]*[b-b]",
		"user:*:[a-z]?":                                    "user:*:[a-z]?",
	} {
		if got := Compile([]byte(pattern)); string(got.text) != want {
			t.Errorf("%.20q… is compiled to %.20q…, not %q", pattern, got.text, want)
		}
	}
	if p := Compile([]byte("*?ab[cd]*")); p.Steps(3) != 3 || p.Steps(4) != 5 || p.Match([]byte("xab")) || !p.Match([]byte("xabd")) {
		t.Errorf("%d and %d steps", p.Steps(3), p.Steps(4))
	}
}
