package replication

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"kedis/redis-tests/launch"
	"kedis/redis-tests/resp"
)

// chanceLibrary is the source of a library whose functions draw what they write. Its second
// function counts in a variable of the library.
func chanceLibrary(name string, version int) string {
	return fmt.Sprintf(`#!lua name=%[1]s
local calls = 0
redis.register_function('%[1]s_draw', function(keys, args)
	redis.call('set', keys[1], math.random(1000000) .. redis.call('time')[2], 'px', 10000000)
	redis.call('rpush', 'versions:%[1]s', %[2]d)
	return redis.call('spop', 'members')
end)
redis.register_function('%[1]s_count', function(keys, args)
	calls = calls + 1
	return redis.call('hset', keys[1], args[1], calls)
end)`, name, version)
}

// changeLibraries does something with libraries, and calls what there is.
func changeLibraries(t *testing.T, c *resp.Connection, random *rand.Rand, version int) {
	t.Helper()
	name := "library" + strconv.Itoa(random.IntN(4))
	try := func(words ...string) {
		if _, err := c.Do(words...); err != nil { // there may be no such library
			t.Fatal(err)
		}
	}
	switch random.IntN(12) {
	case 0, 1, 2:
		do(t, c, "FUNCTION", "LOAD", "REPLACE", chanceLibrary(name, version))
	case 3:
		try("FUNCTION", "DELETE", name)
	case 4:
		do(t, c, "MULTI")
		do(t, c, "FUNCTION", "LOAD", "REPLACE", chanceLibrary(name, version))
		do(t, c, "FCALL", name+"_draw", "1", "key:"+strconv.Itoa(version))
		do(t, c, "FUNCTION", "LOAD", chanceLibrary(name, version))
		if _, err := c.Do("EXEC"); err != nil {
			t.Fatal(err)
		}
	case 5:
		dump := do(t, c, "FUNCTION", "DUMP")
		if random.IntN(2) == 0 {
			do(t, c, "FUNCTION", "FLUSH")
		}
		do(t, c, "FUNCTION", "RESTORE", string(dump.Text), "REPLACE")
	case 6:
		do(t, c, "SELECT", strconv.Itoa(random.IntN(3)))
	default:
		do(t, c, "SADD", "members", strconv.Itoa(version), strconv.Itoa(version+1))
		try("FCALL", name+"_draw", "1", "key:"+strconv.Itoa(version%50))
		try("FCALL", name+"_count", "1", "counted:"+name, strconv.Itoa(version%7))
	}
}

// TestFunctions changes libraries and calls them on a primary. Replicas, of Kedis and of Redis,
// some of which follow only later, have the same data and libraries, and so has one that was
// promoted and its former primary.
func TestFunctions(t *testing.T) {
	kedis, redis := launch.MustUnderTest(t), launch.MustOracle(t)
	for _, program := range []launch.Program{kedis, redis} {
		primary := launch.ForTest(t, program)
		c := primary.MustDial(t)
		random := seeded(t)
		var replicas []*launch.Server
		join := func(programs ...launch.Program) {
			for _, program := range programs {
				replica := launch.ForTest(t, program)
				do(t, replica.MustDial(t), "FUNCTION", "LOAD", chanceLibrary("own", 0)) // goes with the first synchronization
				follow(t, replica, primary.Port)
				replicas = append(replicas, replica)
			}
		}
		join(kedis, redis)
		for version := range 120 {
			if version == 60 {
				join(kedis, redis)
			}
			changeLibraries(t, c, random, version)
		}
		do(t, c, "FUNCTION", "LOAD", "REPLACE", chanceLibrary("last", 120))
		sameLibraries(t, primary, replicas...)
		for _, replica := range replicas {
			equal(t, primary, replica)
			if reply, err := replica.MustDial(t).Do("FCALL", "last_draw", "1", "key"); err != nil || !reply.IsError() {
				t.Errorf("a replica that is read only answers %s, %v", reply, err)
			}
			if reply, err := replica.MustDial(t).Do("FUNCTION", "FLUSH"); err != nil || !reply.IsError() {
				t.Errorf("a replica that is read only answers %s, %v", reply, err)
			}
		}

		promoted := replicas[0] // a Kedis
		do(t, promoted.MustDial(t), "REPLICAOF", "NO", "ONE")
		p := promoted.MustDial(t)
		do(t, p, "FCALL", "last_draw", "1", "promoted")
		do(t, p, "FUNCTION", "LOAD", chanceLibrary("after", 121))
		for _, other := range append(replicas[1:], primary) {
			follow(t, other, promoted.Port)
		}
		sameLibraries(t, promoted, append(replicas[1:], primary)...)
		equal(t, promoted, primary)
	}
}

// sameLibraries waits until servers have the libraries that the first one has.
func sameLibraries(t *testing.T, primary *launch.Server, others ...*launch.Server) {
	t.Helper()
	want := launch.Libraries(t, primary.MustDial(t))
	for _, other := range others {
		converge(t, primary, other)
		deadline := time.Now().Add(30 * time.Second)
		for launch.Libraries(t, other.MustDial(t)) != want {
			if time.Now().After(deadline) {
				t.Fatalf("the libraries are\n%s\nand should be\n%s", launch.Libraries(t, other.MustDial(t)), want)
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
}
