package replication

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"kedis/redis-tests/launch"
	"kedis/redis-tests/resp"
)

// fill gives a server keys of all types and sizes, in two databases: small ones, such that are sent
// in pieces, some of which are larger than a piece by themselves, and such that expire.
func fill(t *testing.T, s *launch.Server) {
	t.Helper()
	c := s.MustDial(t)
	large := strings.Repeat("v", 100_000)
	for _, database := range []string{"3", "1"} {
		do(t, c, "SELECT", database)
		for i := range 5 {
			n := strconv.Itoa(i)
			do(t, c, "SET", "string"+n, strings.Repeat(n, i*1000))
			do(t, c, "HSET", "small", "f"+n, "v")
			do(t, c, "HSET", "huge", "f"+n, large)
			do(t, c, "RPUSH", "hugelist", large+n)
			do(t, c, "SADD", "hugeset", large+n)
			do(t, c, "ZADD", "hugezset", n+".25", large+n)
		}
		for i := range 5 {
			hash, set, list, zset := []string{"HSET", "hash"}, []string{"SADD", "set"}, []string{"RPUSH", "list"}, []string{"ZADD", "zset"}
			for j := range 700 {
				word := fmt.Sprintf("element %d\r\n\x00", 700*i+j)
				hash, set, list = append(hash, word, "value"), append(set, word), append(list, word)
				zset = append(zset, fmt.Sprint(float64(j-350)/3), word)
			}
			for _, words := range [][]string{hash, set, list, zset} {
				do(t, c, words...)
			}
		}
		do(t, c, "ZADD", "zset", "inf", "last", "-inf", "first")
		do(t, c, "XADD", "small stream", "1-1", "f", "v")
		do(t, c, "XGROUP", "CREATE", "empty stream", "group", "$", "MKSTREAM")
		for i := range 1500 {
			do(t, c, "XADD", "stream", fmt.Sprintf("%d-%d", i/7+1, i%7), fmt.Sprintf("field%d", i%3), strings.Repeat("v", i%200), "g", strconv.Itoa(i))
		}
		do(t, c, "XADD", "stream", "5000-0", "large", large)
		do(t, c, "XDEL", "stream", "1-0", "3-3", "100-1")
		do(t, c, "XTRIM", "stream", "MAXLEN", "1400")
		do(t, c, "XGROUP", "CREATE", "stream", "group", "0")
		do(t, c, "XGROUP", "CREATE", "stream", "other", "50-0", "ENTRIESREAD", "7")
		do(t, c, "XREADGROUP", "GROUP", "group", "alice", "COUNT", "1200", "STREAMS", "stream", ">")
		do(t, c, "XREADGROUP", "GROUP", "group", "bob", "COUNT", "20", "STREAMS", "stream", ">")
		do(t, c, "XGROUP", "CREATECONSUMER", "stream", "group", "carol")
		do(t, c, "SET", "long", strings.Repeat("0123456789", 40_000))
		do(t, c, "SETRANGE", "holes", "3000", strings.Repeat("h", 3000))
		do(t, c, "SETBIT", "holes", "80000000", "1")
		do(t, c, "SETBIT", "holes", "90000000", "0") // it ends with zeros
		do(t, c, "SETBIT", "zeros", "2000000", "0")
		do(t, c, "PEXPIREAT", "holes", "4102444800789")
		do(t, c, "PEXPIREAT", "hash", "4102444800123")
		do(t, c, "PEXPIREAT", "string1", "4102444800456")
	}
}

// TestSnapshotOfCommands synchronizes a Kedis with another, and compares what the primary has with
// what a reader of the link finds there.
func TestSnapshotOfCommands(t *testing.T) {
	primary, replica := launch.ForTest(t, launch.MustUnderTest(t)), launch.ForTest(t, launch.MustUnderTest(t))
	fill(t, primary)
	follow(t, replica, primary.Port)
	converge(t, primary, replica)
	equal(t, primary, replica)
	if reply, err := replica.MustDial(t).Do("REPL_SNAPSHOT_COMPLETE", historyID, "0", "0", "0", "0"); err != nil ||
		!strings.HasPrefix(string(reply.Text), "ERR unknown command 'REPL_SNAPSHOT_COMPLETE'") {
		t.Fatalf("a client's REPL_SNAPSHOT_COMPLETE: %q, %v", reply.Text, err)
	}

	snapshot := newReader(t, primary, "capa", "eof", "capa", "psync2", "capa", "kedis-snapshot")
	names, keys := map[string]int{}, 0
	for {
		words, err := snapshot.request()
		if err != nil {
			t.Fatal(err)
		}
		names[words[0]]++
		if words[0] == "RESTORE" {
			keys++
		}
		if words[0] == "REPL_SNAPSHOT_COMPLETE" {
			if len(words) != 6 || words[2] != "1" || words[4] != strconv.Itoa(keys) {
				t.Fatalf("the snapshot ends with %q, and had %d keys", words, keys)
			}
			break
		}
		if n := len(words); n > 3000 {
			t.Fatalf("a piece has %d words", n)
		}
	}
	for _, name := range []string{"SELECT", "RESTORE", "HSET", "SADD", "RPUSH", "ZADD", "XPARTS", "SETRANGE"} {
		if names[name] == 0 {
			t.Fatalf("the snapshot has no %s: %v", name, names)
		}
	}
}

// TestSnapshotOfFieldsThatExpire compares the times that a replica has, of a small hash and of one
// that comes in pieces.
func TestSnapshotOfFieldsThatExpire(t *testing.T) {
	primary, replica := launch.ForTest(t, launch.MustUnderTest(t)), launch.ForTest(t, launch.MustUnderTest(t))
	c := primary.MustDial(t)
	asked := map[string][]string{"small": {"a", "b", "c"}}
	do(t, c, "HSET", "small", "a", "1", "b", "2", "c", "3")
	do(t, c, "HPEXPIREAT", "small", "4102444800001", "FIELDS", "1", "b")
	for i := range 3000 {
		field := fmt.Sprintf("field%d", i)
		do(t, c, "HSET", "large", field, strings.Repeat("v", 50))
		if asked["large"] = append(asked["large"], field); i%2 == 0 {
			do(t, c, "HPEXPIREAT", "large", strconv.Itoa(4102444800000+i), "FIELDS", "1", field)
		}
	}
	follow(t, replica, primary.Port)
	converge(t, primary, replica)
	equal(t, primary, replica)
	for key, fields := range asked {
		words := append([]string{"HPEXPIRETIME", key, "FIELDS", strconv.Itoa(len(fields))}, fields...)
		if want, got := do(t, c, words...), do(t, replica.MustDial(t), words...); string(want.Raw) != string(got.Raw) {
			t.Errorf("the fields of %s expire at %s on the replica, on the primary at %s", key, got.Raw, want.Raw)
		}
	}
}

// newReader attaches to a primary and reads its answer to PSYNC.
func newReader(t *testing.T, primary *launch.Server, tells ...string) *dialogue {
	t.Helper()
	d := newDialogue(t, dial(t, primary))
	for _, step := range []struct{ says, answer string }{
		{request(append([]string{"REPLCONF"}, tells...)...), "+OK"}, {request("PSYNC", "?", "-1"), "+FULLRESYNC "},
	} {
		d.send(step.says)
		if line, err := d.reader.ReadString('\n'); err != nil || !strings.HasPrefix(line, step.answer) {
			t.Fatalf("the primary answers %q (%v)", line, err)
		}
	}
	return d
}

// TestSpoiledSnapshot passes a snapshot of commands on with something wrong in it: none is taken.
func TestSpoiledSnapshot(t *testing.T) {
	primary := launch.ForTest(t, launch.MustUnderTest(t))
	fill(t, primary)
	source := newReader(t, primary, "capa", "eof", "capa", "psync2", "capa", "kedis-snapshot")
	var requests [][]string
	for len(requests) == 0 || requests[len(requests)-1][0] != "REPL_SNAPSHOT_COMPLETE" {
		words, err := source.request()
		if err != nil {
			t.Fatal(err)
		}
		requests = append(requests, words)
	}
	last := requests[len(requests)-1]
	position, err := strconv.Atoi(last[3])
	if err != nil {
		t.Fatal(err)
	}
	find := func(name string) int {
		for i, words := range requests {
			if words[0] == name {
				return i
			}
		}
		t.Fatalf("there is no %s", name)
		return 0
	}
	without := func(i int) [][]string { return append(append([][]string{}, requests[:i]...), requests[i+1:]...) }
	ending := func(word int, text string) [][]string {
		end := append([]string{}, last...)
		end[word] = text
		return append(append([][]string{}, requests[:len(requests)-1]...), end)
	}
	replaced := func(i int, words ...string) [][]string {
		return append(append(append([][]string{}, requests[:i]...), words), requests[i+1:]...)
	}

	var s *falsePrimary
	var replica *launch.Server
	attempts := 0
	attempt := func(requests [][]string) *dialogue {
		if attempts++; attempts%5 == 1 { // one and the same would wait longer each time
			s = newFalsePrimary(t)
			replica = launch.ForTest(t, launch.MustUnderTest(t), "--masterauth", "secret")
			follow(t, replica, s.port)
		}
		d := s.accept()
		d.reach(stepPsync)
		d.send(fmt.Sprintf("+FULLRESYNC %s %d 1\r\n", last[1], position))
		var all []byte
		for _, words := range requests {
			all = resp.AppendRequest(all, words...)
		}
		// The replica may have closed the connection before the end.
		_, _ = d.conn.Write(all)
		return d
	}
	for name, spoiled := range map[string][][]string{
		"a key is missing":      without(find("RESTORE")),
		"a piece is missing":    without(find("HSET")),
		"a key is another's":    replaced(find("HSET"), "HSET", "other", "a", "b"),
		"half an element":       replaced(find("HSET"), requests[find("HSET")][:5]...),
		"no score":              replaced(find("ZADD"), "ZADD", "zset", "x", "y"),
		"a piece twice":         append(append(append([][]string{}, requests[:find("SADD")]...), requests[find("SADD")]), requests[find("SADD"):]...),
		"a part twice":          append(append(append([][]string{}, requests[:find("SETRANGE")]...), requests[find("SETRANGE")]), requests[find("SETRANGE"):]...),
		"no offset":             replaced(find("SETRANGE"), "SETRANGE", requests[find("SETRANGE")][1], "x", "y"),
		"far too long":          replaced(find("SETRANGE"), "SETRANGE", requests[find("SETRANGE")][1], "9223372036854775807", "y"),
		"a payload is spoiled":  replaced(find("RESTORE"), "RESTORE", "a", "0", "\x00\x01a\x0a\x00\x00\x00\x00\x00\x00\x00\x00\x00", "ABSTTL"),
		"another command":       replaced(find("RESTORE"), "SET", "a", "b"),
		"another database":      replaced(find("SELECT"), "SELECT", "99"),
		"a bad expiry":          replaced(find("RESTORE"), "RESTORE", "a", "-1", requests[find("RESTORE")][3], "ABSTTL"),
		"another history":       ending(1, otherID),
		"a database to go on":   ending(2, "16"),
		"another position":      ending(3, "1"),
		"another number":        ending(4, "1"),
		"another checksum":      ending(5, "0123456789abcdef"),
		"a word more":           replaced(len(requests)-1, append(append([]string{}, last...), "x")...),
		"the end comes earlier": append(append([][]string{}, requests[:len(requests)/2]...), last),
	} {
		attempt(spoiled).leaves()
		if got := string(do(t, replica.MustDial(t), "DBSIZE").Text) + info(t, replica, "master_link_status"); got != "0down" {
			t.Fatalf("%s: %s", name, got)
		}
	}
	d := attempt(requests)
	defer d.conn.Close()
	d.expect("REPLCONF", "ACK", last[3])
	equal(t, primary, replica)
}

// TestProgress has a replica read half of a snapshot: INFO tells how far it is.
func TestProgress(t *testing.T) {
	primary := launch.ForTest(t, launch.MustUnderTest(t))
	c := primary.MustDial(t)
	random := seeded(t)
	value := make([]byte, 1<<20) // which can't be compressed
	for i := range 64 {
		for j := 0; j < len(value); j += 8 {
			binary.NativeEndian.PutUint64(value[j:], random.Uint64())
		}
		do(t, c, "SET", "k"+strconv.Itoa(i), string(value))
	}
	d := newReader(t, primary, "listening-port", "7777", "capa", "kedis-snapshot")
	var line string
	eventually(t, "INFO tells of the snapshot", func() bool {
		line = info(t, primary, "snapshot0")
		return strings.HasPrefix(line, "ip=127.0.0.1,port=7777,keys=") && !strings.Contains(line, "bytes=0")
	})
	if !strings.Contains(line, ",total_keys=64,") || strings.Contains(line, "keys=64,total") {
		t.Fatalf("half-way INFO tells %q", line)
	}
	for words := []string{""}; words[0] != "REPL_SNAPSHOT_COMPLETE"; {
		var err error
		if words, err = d.request(); err != nil {
			t.Fatal(err)
		}
	}
}
