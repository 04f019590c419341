package command

import (
	"strings"
	"testing"
	"time"

	"kedis/internal/resp"
	"kedis/server/enginetest"
)

// TestFieldExpiryEffects: what goes to the log has no clock, and is made of words that Redis 7.4
// knows.
func TestFieldExpiryEffects(t *testing.T) {
	const hash = "hset h f 1 g 2"
	const expiring = hash + "; hpexpireat h 4102444800000 fields 1 f"
	checkEffects(t, aTime, []effectCase{
		{hash, "hexpire h 100 fields 2 f missing", "HPEXPIREAT h * FIELDS 1 f"},
		{hash, "hpexpire h 100 fields 2 f g", "HPEXPIREAT h * FIELDS 2 f g"},
		{hash, "hexpireat h 4102444800 fields 1 f", "HPEXPIREAT h 4102444800000 FIELDS 1 f"},
		{hash, "hexpire h 0 fields 2 f g", "HDEL h f g"},
		{hash, "hpexpireat h 1 fields 1 f", "HDEL h f"},
		{hash, "hexpire h 100 xx fields 1 f", ""},
		{hash, "hexpire h 100 fields 1 missing", ""},
		{expiring, "hpersist h fields 2 f g", "HPERSIST h FIELDS 1 f"},
		{hash, "hpersist h fields 1 f", ""},
		{expiring, "hgetdel h fields 2 f missing", "HDEL h f"},
		{expiring, "hgetdel h fields 1 missing", ""},
		{expiring, "hgetex h fields 1 f", ""},
		{expiring, "hgetex h persist fields 2 f g", "HPERSIST h FIELDS 1 f"},
		{hash, "hgetex h ex 100 fields 1 f", "HPEXPIREAT h * FIELDS 1 f"},
		{hash, "hgetex h pxat 1 fields 1 f", "HDEL h f"},
		{"", "hsetex h fields 1 f v", "HSET h f v"},
		{"", "hsetex h ex 100 fields 2 f v g w", "MULTI; HSET h f v g w; HPEXPIREAT h * FIELDS 2 f g; EXEC"},
		{expiring, "hsetex h keepttl fields 1 f v", "MULTI; HSET h f v; HPEXPIREAT h 4102444800000 FIELDS 1 f; EXEC"},
		{hash, "hsetex h fnx fields 1 f v", ""},
		{expiring, "hincrby h f 1", "hincrby h f 1"},
		{expiring, "hincrbyfloat h f 1.5", "MULTI; HSET h f 2.5; HPEXPIREAT h 4102444800000 FIELDS 1 f; EXEC"},
	})
}

// withExpiredField is a client of a hash. Its field f has expired and is still there, and g expires
// some day.
func withExpiredField(t *testing.T) (*testClient, *enginetest.Log) {
	t.Helper()
	client, log, _ := afterEffects(t, "HSET h f 10 g 1", "HPEXPIREAT h 1000 FIELDS 1 f", "HPEXPIREAT h 4102444800000 FIELDS 1 g")
	return client, log
}

// afterEffects is a client of an engine in which effects were repeated, and repeat repeats others.
func afterEffects(t *testing.T, effects ...string) (client *testClient, log *enginetest.Log, repeat func(effect string)) {
	t.Helper()
	engine, log := newTestEngine(t)
	applier := engine.NewLogApplier()
	repeat = func(effect string) {
		t.Helper()
		words := resp.AppendRequest(nil, enginetest.Words(strings.Split(effect, " ")...)...)
		log.Length += int64(len(words))
		if err := applier.Replay(0, words, log.Length, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	for _, effect := range effects {
		repeat(effect)
	}
	return newTestClient(t, engine), log, repeat
}

// TestTimesThatAreRepeated: a time that another server took, and that there can't be here, is the
// nearest that there can, also in a hash that isn't packed.
func TestTimesThatAreRepeated(t *testing.T) {
	for _, long := range []string{"v", strings.Repeat("v", 100)} {
		client, _, _ := afterEffects(t, "HSET h past 1 late 2 later 3 set 4 other "+long, "HPEXPIREAT h 0 FIELDS 1 past",
			"HPEXPIREAT h 281474976710655 FIELDS 1 late", "HPEXPIREAT h 9223372036854775807 FIELDS 1 later", "HSETEX h PXAT 9223372036854775807 FIELDS 1 set 5")
		request, want := "hpexpiretime h fields 5 past late later set other", "*5\r\n:-2\r\n"+strings.Repeat(":281474976710654\r\n", 3)+":-1\r\n"
		if got := client.Do(strings.Split(request, " ")...); got != want {
			t.Errorf("%s: %q, expected %q", request, got, want)
		}
	}
}

// TestPersistingBesideAnExpiredField says of it nothing that would bring it back where the log is
// repeated.
func TestPersistingBesideAnExpiredField(t *testing.T) {
	for request, reply := range map[string]string{
		"hpersist h fields 2 f g":       "*2\r\n:-2\r\n:1\r\n",
		"hgetex h persist fields 2 f g": "*2\r\n$-1\r\n$1\r\n1\r\n",
	} {
		client, log := withExpiredField(t)
		log.Content = nil
		if got := client.Do(strings.Split(request, " ")...); got != reply {
			t.Errorf("%s: %q", request, got)
		}
		if got := strings.Join(enginetest.Requests(t, log.Content), "; "); got != "HPERSIST h FIELDS 1 g" {
			t.Errorf("%s: effects %q", request, got)
		}
		if got := client.Do("hget", "h", "f"); got != "$-1\r\n" {
			t.Errorf("%s: then f is %q", request, got)
		}
	}
}

// TestWritingToAnExpiredFieldKeepsTheKeysExpiry where the log is repeated, too, if the field is the
// last one: the hash isn't empty in between.
func TestWritingToAnExpiredFieldKeepsTheKeysExpiry(t *testing.T) {
	before := []string{"HSET h f 10", "PEXPIREAT h 4102444800000", "HPEXPIREAT h 1000 FIELDS 1 f"}
	for request, want := range map[string]string{
		"hset h f 2":                                      "hset h f 2",
		"hmset h f 2 g 3":                                 "hmset h f 2 g 3",
		"hsetnx h f 2":                                    "HSET h f 2",
		"hincrby h f 2":                                   "HSET h f 2",
		"hincrbyfloat h f 2.5":                            "HSET h f 2.5",
		"hsetex h fields 1 f 2":                           "HSET h f 2",
		"hsetex h keepttl fields 1 f 2":                   "HSET h f 2",
		"hsetex h pxat 4102444700000 fields 1 f 2":        "MULTI; HSET h f 2; HPEXPIREAT h 4102444700000 FIELDS 1 f; EXEC",
		"eval return(redis.call('hincrby','h','f',2)) 0":  "HSET h f 2",
		"eval return(redis.call('hset','h','f','two')) 0": "hset h f two",
	} {
		client, log, _ := afterEffects(t, before...)
		log.Content = nil
		client.Do(strings.Split(request, " ")...)
		effects := enginetest.Requests(t, log.Content)
		if got := strings.Join(effects, "; "); got != want {
			t.Errorf("%s: effects %q, want %q", request, got, want)
		}
		elsewhere, _, repeat := afterEffects(t, before...)
		for _, effect := range effects {
			if effect != "MULTI" && effect != "EXEC" {
				repeat(effect)
			}
		}
		for _, question := range []string{"pexpiretime h", "hgetall h", "hpexpiretime h fields 1 f"} {
			words := strings.Split(question, " ")
			if here, there := client.Do(words...), elsewhere.Do(words...); here != there {
				t.Errorf("%s: then %s is %q, and %q where it was repeated", request, question, here, there)
			}
		}
		if got := client.Do("pexpiretime", "h"); got != ":4102444800000\r\n" {
			t.Errorf("%s: the key expires at %q", request, got)
		}
	}
}

// TestExpiredFieldsAreRemovedFirst: where the log is repeated nothing expires by itself, so what a
// command makes of an expired field is repeated as its value.
func TestExpiredFieldsAreRemovedFirst(t *testing.T) {
	client, log := withExpiredField(t)
	for _, c := range []struct{ command, reply string }{
		{"hget h f", "$-1\r\n"}, {"hexists h f", ":0\r\n"}, {"hlen h", ":2\r\n"}, {"hkeys h", "*1\r\n$1\r\ng\r\n"},
		{"hpexpiretime h fields 2 f g", "*2\r\n:-2\r\n:4102444800000\r\n"}, {"hpersist h fields 1 f", "*1\r\n:-2\r\n"}, {"hrandfield h 5", "*1\r\n$1\r\ng\r\n"},
	} {
		if got := client.Do(strings.Split(c.command, " ")...); got != c.reply {
			t.Errorf("%s: %q", c.command, got)
		}
	}
	log.Content = nil
	if got := client.Do("hincrby", "h", "f", "5"); got != ":5\r\n" {
		t.Errorf("hincrby: %q", got)
	}
	if got := strings.Join(enginetest.Requests(t, log.Content), "; "); got != "HSET h f 5" {
		t.Errorf("effects %q", got)
	}
	if got := client.Do("hpttl", "h", "fields", "1", "f"); got != "*1\r\n:-1\r\n" {
		t.Errorf("hpttl: %q", got)
	}
}
