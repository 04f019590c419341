package metrics

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"kedis/internal/oracle"
)

func unlimited() int64 { return math.MaxInt64 }

// TestTrimsAsRedis sends commands of many shapes to an oracle that logs every command.
func TestTrimsAsRedis(t *testing.T) {
	server := oracle.Start(t, "--slowlog-log-slower-than", "0")
	ours := NewSlowlog(unlimited)
	for _, count := range []int{1, 2, 30, 31, 32, 33, 34, 100} {
		for _, length := range []int{0, 1, 127, 128, 129, 130, 1000} {
			command, arguments := []any{"EXISTS"}, [][]byte{[]byte("EXISTS")}
			for i := range count {
				argument := bytes.Repeat([]byte{byte('a' + i%26)}, length)
				command, arguments = append(command, argument), append(arguments, argument)
			}
			server.Do("SLOWLOG", "RESET")
			server.Do(command...)
			ours.Add(SlowEntry{Arguments: arguments})
			entry := server.Do("SLOWLOG", "GET", 1).([]any)[0].([]any)
			got, theirs := fmt.Sprintf("%s", ours.Latest(1)[0].Arguments), fmt.Sprintf("%s", entry[3])
			if got != theirs {
				t.Errorf("%d arguments of %d bytes:\n%s\nRedis has\n%s", count, length, got, theirs)
			}
		}
	}
}

func TestSlowlogKeepsCopies(t *testing.T) {
	log := NewSlowlog(unlimited)
	long := bytes.Repeat([]byte("x"), 200)
	arguments := [][]byte{[]byte("GET"), long}
	log.Add(SlowEntry{Arguments: arguments})
	if !bytes.Equal(long, bytes.Repeat([]byte("x"), 200)) {
		t.Errorf("Add changed an argument to %s", long)
	}
	copy(arguments[0], "SET")
	copy(long, "yyy")
	want := "[GET " + strings.Repeat("x", 128) + "... (72 more bytes)]"
	if got := fmt.Sprintf("%s", log.Latest(1)[0].Arguments); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestSlowlogLimit(t *testing.T) {
	limit := int64(3)
	log := NewSlowlog(func() int64 { return limit })
	ids := func(count int64) (ids []int64) {
		for _, entry := range log.Latest(count) {
			ids = append(ids, entry.ID)
		}
		return ids
	}
	expect := func(got []int64, want ...int64) {
		t.Helper()
		if !slices.Equal(got, want) || log.Len() < len(want) {
			t.Errorf("%v of %d, want %v", got, log.Len(), want)
		}
	}
	for i := range 5 {
		log.Add(SlowEntry{Duration: time.Duration(i), Address: "address", Name: "name", Time: time.Unix(int64(i), 0)})
	}
	expect(ids(-1), 4, 3, 2)
	expect(ids(2), 4, 3)
	expect(ids(0))
	expect(ids(10), 4, 3, 2)
	if entry := log.Latest(1)[0]; entry.Duration != 4 || entry.Address != "address" || entry.Name != "name" || entry.Time.Unix() != 4 {
		t.Errorf("%+v", entry)
	}
	limit = 1
	expect(ids(-1), 4, 3, 2)
	log.Add(SlowEntry{})
	expect(ids(-1), 5)
	log.Reset()
	if log.Len() != 0 {
		t.Errorf("%d entries after Reset", log.Len())
	}
	log.Add(SlowEntry{})
	expect(ids(-1), 6)
	limit = 0
	log.Add(SlowEntry{})
	expect(ids(-1))
	limit = -1
	log.Add(SlowEntry{})
	expect(ids(-1))
}
