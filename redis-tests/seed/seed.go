// Package seed says with which numbers chance begins in a test, so that an ordinary run does the
// same each time and a long one doesn't. It is for tests, and imports nothing of the project.
package seed

import (
	"hash/fnv"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// Variable is the environment's variable that changes the seeds: "random", or the number that a
// failed test has logged.
const Variable = "KEDIS_SEED"

// Of is a test's seed, made of its name unless Variable says otherwise. It is logged.
func Of(t testing.TB) uint64 {
	t.Helper()
	n := chosen(t, os.Getenv(Variable))
	t.Logf("seed %d", n)
	return n
}

func chosen(t testing.TB, wanted string) uint64 {
	t.Helper()
	switch wanted {
	case "":
		h := fnv.New64a()
		h.Write([]byte(t.Name()))
		return h.Sum64()
	case "random":
		return rand.Uint64()
	}
	n, err := strconv.ParseUint(wanted, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", Variable, err)
	}
	return n
}
