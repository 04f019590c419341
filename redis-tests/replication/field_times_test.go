package replication

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"kedis/redis-tests/launch"
)

// fillTimed gives a server hashes with fields that expire, and what else replicas get.
func fillTimed(t *testing.T, s *launch.Server) {
	t.Helper()
	c := s.MustDial(t)
	do(t, c, "HSET", "plain", "a", "1")
	do(t, c, "HSET", "small", "a", "1", "b", "2", "c", "3")
	do(t, c, "HPEXPIREAT", "small", "4102444800001", "FIELDS", "2", "a", "b")
	for i := range 300 {
		field := fmt.Sprintf("field%d", i)
		do(t, c, "HSET", "large", field, strings.Repeat("v", 50))
		if i%2 == 0 {
			do(t, c, "HPEXPIREAT", "large", strconv.Itoa(4102444800000+i), "FIELDS", "1", field)
		}
	}
}

// changeTimed changes such hashes in all ways that a stream tells.
func changeTimed(t *testing.T, s *launch.Server) {
	t.Helper()
	for _, line := range []string{
		"HSET later a 1 b 2", "HEXPIRE later 1000 FIELDS 1 a", "HSETEX ex EX 1000 FIELDS 2 a 1 b 2", "HPERSIST small FIELDS 1 a", "HGETEX small PX 50 FIELDS 1 b",
		"HGETEX large PERSIST FIELDS 2 field0 field2", "HDEL large field4", "HINCRBY later a 5", "HSET ex a 2", "HPEXPIRE plain 50 FIELDS 1 a",
		"RENAME later renamed", "COPY large copy", "SET last one",
	} {
		do(t, s.MustDial(t), strings.Fields(line)...)
	}
	c := s.MustDial(t)
	for _, key := range []string{"renamed", "copy"} {
		do(t, c, "RESTORE", "restored "+key, "0", string(do(t, c, "DUMP", key).Text))
	}
}

// times is when the fields of all hashes expire, by Redis's words; empty where those aren't known.
func times(t *testing.T, s *launch.Server) map[string]string {
	t.Helper()
	c := s.MustDial(t)
	all := map[string]string{}
	for _, key := range []string{"plain", "small", "large", "later", "ex", "renamed", "copy", "restored renamed", "restored copy", "from elsewhere"} {
		fields := do(t, c, "HKEYS", key)
		for _, field := range fields.Elements {
			reply, err := c.Do("HPEXPIRETIME", key, "FIELDS", "1", string(field.Text))
			if err != nil {
				t.Fatal(err)
			}
			all[key+" "+string(field.Text)] = reply.String()
		}
	}
	return all
}

func sameTimes(t *testing.T, a, b *launch.Server) {
	t.Helper()
	left, right := times(t, a), times(t, b)
	for field, at := range left {
		if right[field] != at {
			t.Errorf("%s expires at %s on one server, at %s on the other", field, at, right[field])
		}
	}
	if len(left) == 0 || len(left) != len(right) {
		t.Errorf("%d fields on one server, %d on the other", len(left), len(right))
	}
}

// TestFieldTimesOfNewerServers: times go from and to Redis 8 and Valkey 9, in snapshots and in the
// stream.
func TestFieldTimesOfNewerServers(t *testing.T) {
	for _, name := range []string{launch.Redis8, launch.Valkey9} {
		for _, kedisFirst := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/%v", name, kedisFirst), func(t *testing.T) {
				primary, replica := launch.MustNewerOracle(t, name), launch.MustUnderTest(t)
				if kedisFirst {
					primary, replica = replica, primary
				}
				p, r := launch.ForTest(t, primary), launch.ForTest(t, replica)
				fillTimed(t, p)
				follow(t, r, p.Port)
				converge(t, p, r)
				sameTimes(t, p, r)
				changeTimed(t, p)
				if kedisFirst {
					do(t, p.MustDial(t), "RESTORE", "from elsewhere", "0", timedOfAnother(t, name))
				}
				time.Sleep(200 * time.Millisecond) // some fields expire
				converge(t, p, r)
				sameTimes(t, p, r)
			})
		}
	}
}

// timedOfAnother is a payload of a hash with fields that expire, in the form of Redis 8 for Valkey
// and the other way about.
func timedOfAnother(t *testing.T, name string) string {
	t.Helper()
	other := map[string]string{launch.Redis8: launch.Valkey9, launch.Valkey9: launch.Redis8}[name]
	c := launch.ForTest(t, launch.MustNewerOracle(t, other)).MustDial(t)
	do(t, c, "HSET", "h", "a", "1", "b", "2", "c", "3")
	do(t, c, "HPEXPIREAT", "h", "4102444800000", "FIELDS", "1", "a")
	do(t, c, "HPEXPIREAT", "h", "4102444800005", "FIELDS", "1", "c")
	return string(do(t, c, "DUMP", "h").Text)
}

// link is what a server says of the link to its primary.
func linkIsUp(t *testing.T, s *launch.Server) bool {
	return strings.Contains(string(do(t, s.MustDial(t), "INFO", "replication").Text), "master_link_status:up")
}

func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for range 3000 {
		if f() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("%s: not within half a minute", what)
}

// TestRedisWithoutFieldTimes: a Redis 7.0 is refused while fields expire, and follows when none
// does, or when it is to get no times. Its data is never silently another.
func TestRedisWithoutFieldTimes(t *testing.T) {
	primary, replica := launch.ForTest(t, launch.MustUnderTest(t)), launch.ForTest(t, launch.MustOracle(t))
	c := primary.MustDial(t)
	do(t, c, "HSET", "h", "a", "1")
	follow(t, replica, primary.Port)
	converge(t, primary, replica)
	do(t, c, "RESTORE", "of Redis 8", "0", "\x14\r\r\x00\x00\x00\x02\x00\x81a\x02\x81b\x02\xff\x0c\x00\xa8E\x83\x07N\x16\xa1\x94")
	do(t, c, "RESTORE", "of Valkey 9", "0", "\x10\x0c\x0c\x00\x00\x00\x02\x00\x81a\x02\x01\x01\xffP\x00K\x8cZy4E\x83/")
	do(t, c, "RESTORE", "stream of Redis 7.4", "0", "\x15\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x01g\x00\x00\x81\xff\xff\xff\xff\xff\xff\xff\xff\x00\x02"+
		"\x01a\ah\xe5\xcf\x8b\x01\x00\x00\x05h\xe5\xcf\x8b\x01\x00\x00\x00\x01b\ah\xe5\xcf\x8b\x01\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff\x00\f\x00\x9e\x9b\xec\xf9\f\xf3\xab\xaf")
	converge(t, primary, replica)
	equal(t, primary, replica)
	if consumers := do(t, replica.MustDial(t), "XINFO", "CONSUMERS", "stream of Redis 7.4", "g"); len(consumers.Elements) != 2 {
		t.Errorf("the replica has these consumers: %s", consumers)
	}

	do(t, c, "HEXPIRE", "h", "1000", "FIELDS", "1", "a")
	do(t, c, "SET", "behind", "it")
	eventually(t, "the replica is refused", func() bool { return !linkIsUp(t, replica) })
	if reply := do(t, replica.MustDial(t), "EXISTS", "behind"); reply.String() != ":0" {
		t.Error("the replica has got what came behind a time")
	}
	do(t, c, "DEL", "h")
	eventually(t, "the replica follows again when no field expires", func() bool { return linkIsUp(t, replica) })
	converge(t, primary, replica)
	equal(t, primary, replica)

	do(t, c, "CONFIG", "SET", "replica-field-expiry", "drop")
	do(t, replica.MustDial(t), "REPLICAOF", "NO", "ONE")
	fillTimed(t, primary)
	follow(t, replica, primary.Port)
	converge(t, primary, replica)
	changeTimed(t, primary)
	eventually(t, "fields have expired", func() bool {
		return do(t, c, "HEXISTS", "small", "b").String() == ":0" && do(t, c, "EXISTS", "plain").String() == ":0"
	})
	converge(t, primary, replica)
	left, right := times(t, primary), times(t, replica)
	if len(left) == 0 || len(left) != len(right) {
		t.Errorf("the primary has %d fields, the replica %d", len(left), len(right))
	}
	for field := range left {
		if _, there := right[field]; !there {
			t.Errorf("the replica lacks %s", field)
		}
	}
}
