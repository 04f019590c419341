package attack

import (
	"encoding/binary"
	"fmt"
	"hash/crc64"
	"io"
	"math/bits"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"

	"kedis/redis-tests/resp"
)

// ordinary are requests that attackers mutate. None of them, however it is changed, may harm the
// witness by its meaning.
var ordinary = strings.Split(strings.TrimSpace(`
SET k v EX 100 NX GET
MSET a 1 b 2 c 3
GETRANGE k 0 -1
SETRANGE k 100 xyz
APPEND k 0123456789
INCRBYFLOAT f 1.5
BITFIELD bits SET u8 0 255 INCRBY i5 100 1
BITCOUNT bits 0 -1 BIT
SETBIT bits 70000 1
HSET h f1 v1 f2 v2
HRANDFIELD h -5 WITHVALUES
HSCAN h 0 MATCH f* COUNT 10
LPUSH l a b c
LPOS l a RANK -1 COUNT 0 MAXLEN 100
LMPOP 2 l m LEFT COUNT 10
SADD s 1 2 3
SINTERCARD 2 s s LIMIT 10
SPOP s 2
ZADD z GT CH 1 a 2.5 b inf c
ZRANGE z (1 +inf BYSCORE REV LIMIT 0 10
ZRANGESTORE d z 0 -1
ZUNIONSTORE d 2 z z WEIGHTS 1 2 AGGREGATE MAX
ZINTER 2 z z WITHSCORES
GEOADD g 13.361389 38.115556 Palermo
GEOSEARCH g FROMLONLAT 15 37 BYRADIUS 200 km ASC COUNT 3 ANY WITHDIST WITHHASH
XADD x MAXLEN ~ 1000 * f v
XADD x 1-1 f v
XRANGE x - + COUNT 10
XGROUP CREATE x grp $ MKSTREAM
XREADGROUP GROUP grp c COUNT 10 STREAMS x >
XAUTOCLAIM x grp c 0 0 COUNT 10
XREAD COUNT 2 BLOCK 1 STREAMS x 0-0
BLPOP l m 0.01
BLMOVE l m LEFT RIGHT 0.01
PFADD p a b c
PFMERGE q p p
PFCOUNT p q
SORT l BY w_* GET # GET o_* LIMIT 0 10 ALPHA DESC STORE d
SCAN 0 MATCH * COUNT 100 TYPE string
OBJECT ENCODING k
DUMP k
COPY k k2 REPLACE
RENAME k k2
EXPIRE k 100 GT
EVAL "return redis.call('GET', KEYS[1])" 1 k
EVALSHA 0123456789012345678901234567890123456789 0
SCRIPT LOAD "return 1"
MULTI
EXEC
WATCH k
HELLO 3 SETNAME me
HELLO 2
CLIENT TRACKING ON BCAST PREFIX k
CLIENT REPLY SKIP
CLIENT LIST
SUBSCRIBE ch
UNSUBSCRIBE
PUBLISH ch message
COMMAND DOCS get
COMMAND GETKEYS MSET a b c d
MEMORY USAGE k
LATENCY HISTOGRAM
LCS a b IDX WITHMATCHLEN
WAIT 0 1
SELECT 1
SLOWLOG GET 10
INFO everything
CONFIG GET *
REPLCONF listening-port 1
PING hello`), "\n")

// stream is some ordinary requests, mutated.
func stream(t *testing.T, random *rand.Rand) []byte {
	var b []byte
	for range 1 + random.IntN(12) {
		line := ordinary[random.IntN(len(ordinary))]
		if random.IntN(6) == 0 {
			b = append(b, line+"\r\n"...)
			continue
		}
		words, err := resp.SplitLine(line)
		if err != nil {
			t.Fatal(err)
		}
		b = resp.AppendRequest(b, words...)
	}
	return mutate(random, b)
}

// TestMutatedStreams sends requests that are nearly right.
func TestMutatedStreams(t *testing.T) {
	v := newTarget(t)
	v.together(8, func(random *rand.Rand) {
		for range 60 * *scale {
			v.say(stream(t, random), random)
		}
	})
	v.survives()
}

// say sends bytes over a connection of its own, in pieces, and reads what comes.
func (v *target) say(content []byte, random *rand.Rand) {
	conn, err := net.Dial("tcp", v.Address)
	if err != nil {
		return
	}
	defer conn.Close()
	for len(content) > 0 {
		piece := content[:min(len(content), 1+random.IntN(200))]
		if _, err := conn.Write(piece); err != nil {
			return // it was disconnected, as it deserves
		}
		content = content[len(piece):]
	}
	if random.IntN(2) == 0 {
		_ = conn.(*net.TCPConn).CloseWrite()
	}
	_ = conn.SetReadDeadline(time.Now().Add(30 * time.Millisecond))
	_, _ = io.Copy(io.Discard, conn)
}

// payloads are values of all types and encodings, as DUMP has them.
func (v *target) payloads() (found []string) {
	c := v.MustDial(v.t)
	many := func(words ...string) []string {
		for i := range 600 {
			words = append(words, fmt.Sprint(i), fmt.Sprint("value", i*7919))
		}
		return words
	}
	for key, request := range map[string][]string{
		"integer": {"set", "integer", "12345"}, "string": {"set", "string", strings.Repeat("compressible ", 50)}, "hll": {"pfadd", "hll", "a", "b", "c"},
		"hash": {"hset", "hash", "a", "1", "b", "2"}, "large hash": many("hset", "large hash"), "intset": {"sadd", "intset", "1", "2", "70000"},
		"set": {"sadd", "set", "a", "b"}, "large set": many("sadd", "large set"), "list": {"rpush", "list", "a", "1", "b"}, "large list": many("rpush", "large list"),
		"zset": {"zadd", "zset", "1", "a", "2.5", "b"}, "stream": {"xadd", "stream", "1-1", "f", "v"},
	} {
		if _, err := c.Must(request...); err != nil {
			v.t.Fatal(err)
		}
		if key == "stream" {
			for _, line := range []string{"xgroup create stream g 0", "xreadgroup group g c streams stream >", "xadd stream 2-1 f w g x"} {
				if _, err := c.Must(strings.Fields(line)...); err != nil {
					v.t.Fatal(err)
				}
			}
		}
		reply, err := c.Must("dump", key)
		if err != nil {
			v.t.Fatal(err)
		}
		found = append(found, string(reply.Text))
	}
	return found
}

// jones is the table of Redis's CRC-64: reflected, begins with 0 and isn't inverted.
var jones = crc64.MakeTable(bits.Reverse64(0xad93d23594c935a9))

// sealed puts the right checksum behind a payload, so that what is in it is looked at.
func sealed(payload []byte) []byte {
	const trailer = 8
	if len(payload) < trailer {
		return payload
	}
	body := payload[:len(payload)-trailer]
	return binary.LittleEndian.AppendUint64(body, ^crc64.Update(^uint64(0), jones, body))
}

// asked of a key that RESTORE took, whatever it is.
var asked = []string{"type K", "object encoding K", "dump K", "debug digest-value K", "memory usage K", "get K", "append K x", "hgetall K", "hset K f v", "hdel K a",
	"smembers K", "sadd K 99999", "srem K a 1", "lrange K 0 -1", "lpush K x", "rpop K", "linsert K BEFORE b y", "zrange K 0 -1 WITHSCORES", "zadd K 3 x", "zrem K a",
	"xrange K - +", "xadd K * f v", "xinfo stream K FULL", "xtrim K MAXLEN 1", "xreadgroup GROUP g c STREAMS K >", "pfcount K", "copy K L REPLACE", "expire K 100", "del K L"}

// TestMutatedPayloads restores payloads that are nearly right, and works with what was taken.
func TestMutatedPayloads(t *testing.T) {
	v := newTarget(t)
	originals := v.payloads()
	if string(sealed([]byte(originals[0]))) != originals[0] {
		t.Fatal("the checksum isn't Redis's")
	}
	taken := make(chan int, 4)
	v.together(4, func(random *rand.Rand) {
		restored := 0
		c, err := v.Dial()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		key := fmt.Sprint("restored", random.Uint64())
		for range 150 * *scale {
			payload := sealed(mutate(random, []byte(originals[random.IntN(len(originals))])))
			reply, err := c.Do("restore", key, "0", string(payload), "replace")
			if err != nil {
				t.Errorf("RESTORE %q: %v", payload, err)
				return
			}
			if reply.IsError() {
				continue
			}
			restored++
			for _, line := range asked {
				words := strings.Fields(line)
				for i := range words {
					words[i] = strings.NewReplacer("K", key, "L", key+"copy").Replace(words[i])
				}
				if reply, err := c.Do(words...); err != nil || strings.Contains(string(reply.Text), "orrupt") && !strings.HasPrefix(string(reply.Text), "INVALIDOBJ") {
					t.Errorf("after RESTORE %q, %s: %s (%v)", payload, line, reply, err)
					return
				}
			}
		}
		taken <- restored
	})
	close(taken)
	sum := 0
	for restored := range taken {
		sum += restored
	}
	t.Logf("%d payloads were taken", sum)
	v.survives()
}
