package replication

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"kedis/redis-tests/launch"
	"kedis/redis-tests/seed"
)

// chanceScript draws what it writes, finds what it changes, and writes to several databases: a
// replica that ran it would come to something else.
const chanceScript = `local now = redis.call("time")
redis.call("set", "drawn:" .. ARGV[1], now[1] .. now[2] .. math.random(1000000), "px", 10000000)
local member = redis.call("srandmember", "members")
if member then redis.call("srem", "members", member) end
redis.call("sadd", "members", ARGV[1], ARGV[2])
redis.call("spop", "members")
redis.call("rpush", "list", redis.call("randomkey") or "none")
redis.call("hincrbyfloat", "hash", ARGV[2], 0.1)
redis.call("select", 1)
redis.call("zadd", "zset", now[2], ARGV[1])
return redis.pcall("incr", "zset")`

// TestScripts runs scripts on a primary, whose replicas, a Kedis and a Redis, come to the same
// data: they repeat what scripts have done.
func TestScripts(t *testing.T) {
	primary := launch.ForTest(t, launch.MustUnderTest(t))
	replicas := []*launch.Server{launch.ForTest(t, launch.MustUnderTest(t)), launch.ForTest(t, launch.MustOracle(t))}
	c := primary.MustDial(t)
	for _, replica := range replicas {
		do(t, replica.MustDial(t), "REPLICAOF", "127.0.0.1", strconv.Itoa(primary.Port))
	}
	random := rand.New(rand.NewPCG(seed.Of(t), 2))
	for i := range 300 {
		words := []string{"EVAL", chanceScript, "0", strconv.Itoa(i), strconv.Itoa(random.IntN(20))}
		if i%7 == 0 {
			do(t, c, "MULTI")
			do(t, c, words...)
			do(t, c, "INCR", "transactions")
			do(t, c, "EXEC")
			continue
		}
		if reply, err := c.Do(words...); err != nil || !reply.IsError() { // INCR of a sorted set is one
			t.Fatalf("%s %v", reply, err)
		}
	}
	deadline := time.Now().Add(30 * time.Second)
	for _, replica := range replicas {
		for !sameContent(t, primary, replica) {
			if time.Now().After(deadline) {
				equal(t, primary, replica)
				t.Fatal("a replica has other data")
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
	if n := do(t, c, "DBSIZE"); n.IsError() {
		t.Fatal(n)
	}
}

func sameContent(t *testing.T, a, b *launch.Server) bool {
	t.Helper()
	left, right := content(t, a), content(t, b)
	if len(left) != len(right) || len(left) < 300 {
		return false
	}
	for key, value := range left {
		if right[key] != value {
			return false
		}
	}
	return true
}
