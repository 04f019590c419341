package command

import (
	"strings"
	"testing"

	"kedis/server/enginetest"
)

// TestIncrExEffects: replicas are told what came out, in words that all know.
func TestIncrExEffects(t *testing.T) {
	checkEffects(t, aTime, []effectCase{
		{"", "increx k", "SET k 1 KEEPTTL"},
		{"set k 10", "increx k byint 5 ubound 12 saturate", "SET k 12 KEEPTTL"},
		{"set k 10", "increx k byint 5 ubound 12", ""},
		{"set k 10", "increx k byfloat 0.5", "SET k 10.5 KEEPTTL"},
		{"set k 10 pxat 33177117420000", "increx k persist", "SET k 11"},
		{"set k 10 pxat 33177117420000", "increx k pxat 33177117420001", "SET k 11 PXAT 33177117420001"},
		{"set k 10 pxat 33177117420000", "increx k pxat 33177117420001 enx", "SET k 11 KEEPTTL"},
		{"set k 10", "increx k pxat 33177117420001 enx", "SET k 11 PXAT 33177117420001"},
		{"set k 10", "increx k exat 1", "DEL k"},
		{"", "increx k exat 1", ""},
	})
}

// TestBitOpEffects: the operations that Redis has from 8.2 on are repeated as what comes out.
func TestBitOpEffects(t *testing.T) {
	const strings = "set a abc; set b b"
	checkEffects(t, aTime, []effectCase{
		{strings, "bitop or t a b", "bitop or t a b"},
		{strings, "bitop andor t a b", "SET t `\x00\x00"},
		{strings, "bitop one a missing", "DEL a"},
		{strings, "bitop one t missing", ""},
	})
}

// TestBitOpEffectsOfZeros: what is repeated of a long string is as long as what it has.
func TestBitOpEffectsOfZeros(t *testing.T) {
	engine, log := newTestEngine(t)
	client := newTestClient(t, engine)
	for _, operation := range []string{"ONE t a b", "DIFF t a b", "DIFF t a a", "ANDOR t a b"} {
		client.Do("SETBIT", "a", "40000000", "1")
		client.Do("SETBIT", "b", "30000000", "1")
		client.Do("SET", "t", "former")
		log.Content = nil
		client.Do(strings.Split("BITOP "+operation, " ")...)
		want := client.Do("GET", "t")
		if len(log.Content) > 300_000 {
			t.Errorf("BITOP %s: %d bytes are repeated", operation, len(log.Content))
		}
		effects := enginetest.Requests(t, log.Content)
		client.Flush()
		client.Do("SET", "t", "former")
		for _, effect := range effects {
			if effect != "MULTI" && effect != "EXEC" {
				client.Do(strings.SplitN(effect, " ", 3+strings.Count(effect, "SETRANGE"))...)
			}
		}
		if client.Do("GET", "t") != want {
			t.Errorf("BITOP %s is repeated as another string", operation)
		}
		client.Flush()
	}
}

// TestCountedUnionEffects: AGGREGATE COUNT is repeated as the sorted set that comes out.
func TestCountedUnionEffects(t *testing.T) {
	const sets = "zadd a 5 x 6 y; zadd b 7 x"
	checkEffects(t, aTime, []effectCase{
		{sets, "zunionstore t 2 a b", "zunionstore t 2 a b"},
		{sets + "; set t x", "zunionstore t 2 a b aggregate count", "MULTI; DEL t; ZADD t 1 y 2 x; EXEC"},
		{sets, "zinterstore a 2 a b weights 2 3 aggregate count", "MULTI; DEL a; ZADD a 5 x; EXEC"},
		{sets, "zinterstore t 2 a missing aggregate count", ""},
	})
}

// TestCountedUnionOfALongMember: its effect is as it was when another command has gone over other
// members before the commit.
func TestCountedUnionOfALongMember(t *testing.T) {
	engine, log := newTestEngine(t)
	client := newTestClient(t, engine)
	long := strings.Repeat("m", 1<<20+1)
	client.Do("ZADD", "long", "1", long)
	client.Do("ZADD", "short", "1", "xxxxxxxx")
	log.Content = nil
	for _, request := range []string{"MULTI", "ZUNIONSTORE t 1 long AGGREGATE COUNT", "ZUNION 1 short", "EXEC"} {
		client.Do(strings.Split(request, " ")...)
	}
	if got, want := strings.Join(enginetest.Requests(t, log.Content), "; "), "ZADD t 1 "+long; got != want {
		t.Errorf("the effect is %.40q and so on, %d bytes, want %.40q, %d bytes", got, len(got), want, len(want))
	}
}
