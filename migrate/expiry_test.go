package migrate

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"kedis/internal/oracle"
	"kedis/storage/rdb"
)

// TestHoldExpiry has every way in which a stream brings an expiry, in N ms from now.
func TestHoldExpiry(t *testing.T) {
	now := time.Now().UnixMilli()
	at := now + 60_000
	inSeconds := at / 1000
	for _, c := range []struct {
		command, want string // AT stands for the held time
		exact         bool   // relative times depend on the clock
	}{
		{fmt.Sprintf("PEXPIREAT k %d", at), "PEXPIREAT k AT", true},
		{fmt.Sprintf("EXPIREAT k %d", inSeconds), "PEXPIREAT k AT", true},
		{"EXPIRE k 60", "PEXPIREAT k AT", false},
		{"PEXPIRE k 60000", "PEXPIREAT k AT", false},
		{"SETEX k 60 v", "SET k v PXAT AT", false},
		{"PSETEX k 60000 v", "SET k v PXAT AT", false},
		{fmt.Sprintf("SET k v PXAT %d", at), "SET k v PXAT AT", true},
		{fmt.Sprintf("SET k v NX EXAT %d", inSeconds), "SET k v NX PXAT AT", true},
		{"SET k v EX 60", "SET k v PXAT AT", false},
		{"SET EX v", "SET EX v", true}, // a key's name
		{"SET k PX", "SET k PX", true}, // a value
		{"SET k v KEEPTTL", "SET k v KEEPTTL", true},
		{fmt.Sprintf("GETEX k PXAT %d", at), "GETEX k PXAT AT", true},
		{"GETEX k PERSIST", "GETEX k PERSIST", true},
		{"RESTORE k 0 payload", "RESTORE k 0 payload", true},
		{"RESTORE k 60000 payload REPLACE", "RESTORE k AT payload REPLACE ABSTTL", false},
		{fmt.Sprintf("RESTORE k %d payload ABSTTL", at), "RESTORE k AT payload ABSTTL", true},
		{fmt.Sprintf("HPEXPIREAT k %d FIELDS 1 f", at), "HPEXPIREAT k AT FIELDS 1 f", true},
		{fmt.Sprintf("HEXPIREAT k %d FIELDS 1 f", inSeconds), "HPEXPIREAT k AT FIELDS 1 f", true},
		{"HPEXPIRE k 60000 FIELDS 2 f g", "HPEXPIREAT k AT FIELDS 2 f g", false},
		{"HEXPIRE k 60 FIELDS 1 f", "HPEXPIREAT k AT FIELDS 1 f", false},
		{"HSETEX k FNX EX 60 FIELDS 1 f v", "HSETEX k FNX PXAT AT FIELDS 1 f v", false},
		{"HSETEX k FIELDS 1 EX 60", "HSETEX k FIELDS 1 EX 60", true}, // a field and its value
		{fmt.Sprintf("HGETEX k PXAT %d FIELDS 1 f", at), "HGETEX k PXAT AT FIELDS 1 f", true},
		{"HPERSIST k FIELDS 1 f", "HPERSIST k FIELDS 1 f", true},
		{"INCR k", "INCR k", true},
	} {
		command := &Command{Args: words(c.command)}
		held, err := command.holdExpiry()
		if err != nil || held != (c.want != c.command) {
			t.Errorf("%s: %v, %v", c.command, held, err)
		}
		var got []string
		for i, word := range command.Args {
			got = append(got, string(word))
			ms, err := strconv.ParseInt(string(word), 10, 64)
			by := ofKeys
			if strings.HasPrefix(c.command, "H") {
				by = ofFields
			}
			if err != nil || ms < int64(by) {
				continue
			}
			meant, isHeld := by.release(ms)
			apart := meant - at
			if !isHeld || apart > 1000 || apart < -1000 || c.exact && apart != 0 && apart != inSeconds*1000-at {
				t.Errorf("%s: %d is meant as %d, not %d", c.command, ms, meant, at)
			}
			got[i] = "AT"
		}
		if shown := strings.Join(got, " "); shown != c.want {
			t.Errorf("%s: %s, expected %s", c.command, shown, c.want)
		}
	}
	if _, err := (&Command{Args: words("PEXPIREAT k soon")}).holdExpiry(); err == nil {
		t.Error("a time that is no number was taken")
	}
}

// TestExpiryThatNoNumberTells: each is refused as Redis refuses it, and left as it was.
func TestExpiryThatNoNumberTells(t *testing.T) {
	server := oracle.Start(t)
	const most = math.MaxInt64
	for _, command := range []string{
		"EXPIREAT k MOST", "EXPIREAT k LEAST", "EXPIREAT k SECONDS+1", "EXPIRE k MOST", "EXPIRE k SECONDS", "EXPIRE k LEAST", "PEXPIRE k MOST",
		"SETEX k MOST v", "PSETEX k MOST v", "SET k v EX MOST", "SET k v EXAT MOST", "SET k v PX MOST", "GETEX k EX MOST", "GETEX k EXAT MOST",
		"HEXPIREAT k MOST FIELDS 1 f", "HEXPIREAT k SECONDS+1 FIELDS 1 f", "HEXPIRE k MOST FIELDS 1 f", "HPEXPIRE k MOST FIELDS 1 f",
		"HSETEX k EX MOST FIELDS 1 f v", "HGETEX k EXAT MOST FIELDS 1 f",
	} {
		line := strings.NewReplacer("MOST", strconv.Itoa(most), "LEAST", strconv.Itoa(math.MinInt64),
			"SECONDS+1", strconv.Itoa(most/1000+1), "SECONDS", strconv.Itoa(most/1000)).Replace(command)
		want := fmt.Sprintf("ERR invalid expire time in '%s' command", strings.ToLower(strings.Fields(command)[0]))
		if !strings.HasPrefix(command, "H") { // which came later
			server.Do("SET", "k", "v")
			var request []any
			for _, word := range strings.Fields(line) {
				request = append(request, word)
			}
			if reply := server.Do(request...); fmt.Sprint(reply) != want {
				t.Errorf("%s: Redis answers %v", command, reply)
			}
		}
		if _, err := (&Command{Args: words(line)}).holdExpiry(); err == nil || "ERR "+err.Error() != want {
			t.Errorf("%s: %v, want %s", command, err, want)
		}
	}
	for command, want := range map[string]string{
		"PEXPIREAT k 9223372036854775807":         "PEXPIREAT k 9223372036854775807",
		"EXPIREAT k 9223372036854775":             "PEXPIREAT k 9223372036854775000",
		"HEXPIREAT k 9223372036854775 FIELDS 1 f": "HPEXPIREAT k 70368744177663 FIELDS 1 f",
		"PEXPIREAT k -9223372036854775808":        "PEXPIREAT k 6000000000000001",
		"RESTORE k 9223372036854775807 payload":   "RESTORE k 6000000000000001 payload ABSTTL",
	} {
		c := &Command{Args: words(command)}
		_, err := c.holdExpiry()
		if got := string(bytes.Join(c.Args, []byte(" "))); got != want || err != nil {
			t.Errorf("%s: %s, %v", command, got, err)
		}
	}
}

// TestLateFields: a Valkey lets fields expire at any time, a Redis doesn't.
func TestLateFields(t *testing.T) {
	for command, want := range map[string]string{
		"HPEXPIREAT k 9223372036854775807 FIELDS 1 f": "HPEXPIREAT k 70368744177663 FIELDS 1 f",
		"HSETEX k PXAT 70368744177664 FIELDS 1 f v":   "HSETEX k PXAT 70368744177663 FIELDS 1 f v",
		"HPEXPIREAT k 70368744177663 FIELDS 1 f":      "HPEXPIREAT k 70368744177663 FIELDS 1 f",
		"PEXPIREAT k 70368744177664":                  "PEXPIREAT k 70368744177664",
	} {
		c := &Command{Args: words(command)}
		_, err := c.holdExpiry()
		if got := string(bytes.Join(c.Args, []byte(" "))); got != want || err != nil {
			t.Errorf("%s: %s, %v", command, got, err)
		}
	}
	w := rdb.NewPayloadWriter()
	w.SetFormat(rdb.Valkey)
	w.Begin(nil)
	w.BeginExpiringHash(0, 1)
	w.ExpiringField([]byte("f"), []byte("v"), 1<<62)
	w.End()
	payload, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	value, err := new(rdb.Decoder).Payload(payload)
	if err != nil {
		t.Fatal(err)
	}
	for _, held := range []bool{false, true} {
		var last string
		err = new(PayloadBuilder).writeValue(Key{Name: []byte("k"), Held: held}, value, true, func(words ...[]byte) error {
			last = string(bytes.Join(words, []byte(" ")))
			return nil
		})
		if want := "HPEXPIREAT k 70368744177663 FIELDS 1 f"; last != want || err != nil {
			t.Errorf("held %v: %s, %v", held, last, err)
		}
		if value, err = new(rdb.Decoder).Payload(payload); err != nil {
			t.Fatal(err)
		}
	}
}

func TestHold(t *testing.T) {
	now := time.Now().UnixMilli()
	for _, by := range []shift{ofKeys, ofFields} {
		for _, ms := range []int64{1, now - 1000, now, now + 1000, now + year - 1000} {
			if got, held := by.release(by.hold(ms)); got != ms || !held {
				t.Errorf("%d: %d, %v", ms, got, held)
			}
		}
		// What expires late is not held, and what was never held not released.
		for _, ms := range []int64{0, now + year + 100_000, now + 100*year, now + int64(by) + 3*year} {
			if got := by.hold(ms); got != ms {
				t.Errorf("%d is held: %d", ms, got)
			}
			if got, held := by.release(ms); got != ms || held {
				t.Errorf("%d: %d, %v", ms, got, held)
			}
		}
		// Nor what somebody has given in a smaller unit, or for never.
		const day = 86_400_000
		for _, ms := range []int64{now + 365*day*1000, now + 366*day*1000, now + 730*day*1000, now * 1000, now + now*1000, now + 1<<53 - 1} {
			if got, held := by.release(ms); got != ms || held {
				t.Errorf("%d: %d, %v", ms, got, held)
			}
		}
	}
	if last := ofFields.hold(now + year - 1000); last > latestOfField {
		t.Errorf("Redis takes no field's time of %d", last)
	}
}

func TestState(t *testing.T) {
	path := t.TempDir() + "/position"
	s, err := readState(path)
	if err != nil || s.Phase != phaseNone {
		t.Fatalf("%+v, %v", s, err)
	}
	s.Phase, s.Offset, s.Database = phaseStream, 1<<40, 3
	own := &Conflicts{own: map[ownKey]struct{}{{1, "a\nb \xff"}: {}, {0, ""}: {}}}
	if err := s.write(path); err != nil {
		t.Fatal(err)
	}
	if err := own.write(path); err != nil {
		t.Fatal(err)
	}
	if got, err := readState(path); err != nil || got != s {
		t.Errorf("%+v, %v", got, err)
	}
	again := &Conflicts{own: map[ownKey]struct{}{}}
	if err := again.read(path); err != nil || fmt.Sprint(again.own) != fmt.Sprint(own.own) {
		t.Errorf("%v, %v", again.own, err)
	}
	if err := removeState(path); err != nil {
		t.Fatal(err)
	}
	if err := again.read(path); ExitCode(err) != ExitNoPosition {
		t.Errorf("a list that is gone: %v", err)
	}
}

// TestDropCondition has the commands of a stream that may have a condition.
func TestDropCondition(t *testing.T) {
	for command, want := range map[string]string{
		"PEXPIREAT k 1 GT":                    "PEXPIREAT k 1",
		"EXPIRE k 1 NX GT":                    "EXPIRE k 1",
		"PEXPIREAT k 1":                       "PEXPIREAT k 1",
		"HPEXPIREAT k 1 LT FIELDS 1 f":        "HPEXPIREAT k 1 FIELDS 1 f",
		"HPEXPIREAT k 1 FIELDS 1 GT":          "HPEXPIREAT k 1 FIELDS 1 GT",
		"SET k GT EX 1":                       "SET k GT EX 1",
		"HSETEX k NX PXAT 1 FIELDS 1 f v":     "HSETEX k PXAT 1 FIELDS 1 f v",
		"HSETEX xx FXX nx FIELDS 2 nx v f xx": "HSETEX xx FIELDS 2 nx v f xx",
	} {
		c := &Command{Args: words(command)}
		c.dropCondition()
		if got := string(bytes.Join(c.Args, []byte(" "))); got != want {
			t.Errorf("%s: %s, expected %s", command, got, want)
		}
	}
}

// TestLockState has two runs of one position file.
func TestLockState(t *testing.T) {
	path := t.TempDir() + "/position"
	unlock, err := lockState(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lockState(path); ExitCode(err) != ExitFailed || !strings.Contains(err.Error(), "in use") {
		t.Errorf("the second run: %v", err)
	}
	other, err := lockState(path + "2")
	if err != nil {
		t.Errorf("another move: %v", err)
	}
	if err := errors.Join(unlock(), other()); err != nil {
		t.Fatal(err)
	}
	if unlock, err = lockState(path); err != nil {
		t.Fatal(err)
	}
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
