package command

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"kedis/redis-tests/seed"
)

// TestPrefixesThatOverlap: the error names the prefixes that are met first when each is compared
// with each.
func TestPrefixesThatOverlap(t *testing.T) {
	overlap := func(a, b string) bool { return strings.HasPrefix(a, b) || strings.HasPrefix(b, a) }
	first := func(now, next []string) string {
		for i, prefix := range next {
			for _, other := range now {
				if overlap(prefix, other) {
					return fmt.Sprintf("ERR Prefix '%s' overlaps with an existing prefix '%s'. Prefixes for a single client must not overlap.", prefix, other)
				}
			}
			for _, other := range next[i+1:] {
				if overlap(prefix, other) {
					return fmt.Sprintf("ERR Prefix '%s' overlaps with another provided prefix '%s'. Prefixes for a single client must not overlap.", prefix, other)
				}
			}
		}
		return ""
	}
	random := rand.New(rand.NewPCG(seed.Of(t), 0))
	some := func() (prefixes []string) {
		for range random.IntN(5) {
			prefix := make([]byte, random.IntN(5))
			for i := range prefix {
				prefix[i] = "ab"[random.IntN(2)]
			}
			prefixes = append(prefixes, string(prefix))
		}
		return prefixes
	}
	for range 20_000 {
		now, next, got := some(), some(), ""
		if err := checkPrefixes(now, next); err != nil {
			got = err.Error()
		}
		if want := first(now, next); got != want {
			t.Fatalf("of %q behind %q it says %q, and not %q", next, now, got, want)
		}
	}
}

// TestManyPrefixes: to compare each with each would take minutes.
func TestManyPrefixes(t *testing.T) {
	prefixes := make([]string, 400_000)
	for i := range prefixes {
		prefixes[i] = fmt.Sprintf("prefix:%06d", i)
	}
	half := len(prefixes) / 2
	if err := checkPrefixes(prefixes[:half], prefixes[half:]); err != nil {
		t.Error(err)
	}
	if err := checkPrefixes(nil, append(prefixes, prefixes[half])); err == nil || !strings.Contains(err.Error(), prefixes[half]) {
		t.Errorf("it says %v", err)
	}
}
