package execute

import (
	"fmt"
	"strings"
	"testing"
)

func TestErrorCodesAreBounded(t *testing.T) {
	var errors errorCounts
	for i := range 1000 {
		errors.add(fmt.Sprintf("CODE%d made up", i))
	}
	errors.add("nothing")
	errors.add(strings.Repeat("x", 100) + " too long for a code")
	codes, sum := 0, int64(0)
	errors.Each(func(_ string, count int64) {
		codes++
		sum += count
	})
	if codes != mostErrorCodes+1 || sum != 1002 || errors.Sum() != 1002 {
		t.Errorf("%d codes, %d errors, %d in all", codes, sum, errors.Sum())
	}
}
