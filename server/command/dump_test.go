package command

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"

	"kedis/internal/resp"
	"kedis/server/execute"
	"kedis/storage/listpack"
	"kedis/storage/rdb"
)

// payloadOf is the payload of a value of a type of RDB files that consists of one string.
func payloadOf(t *testing.T, kind byte, value []byte) string {
	t.Helper()
	w := rdb.NewPayloadWriter()
	w.Begin(nil)
	w.String(value)
	payload, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	payload[0] = kind
	checked := payload[:len(payload)-8]
	return string(binary.LittleEndian.AppendUint64(checked, rdb.CRC64(0, checked)))
}

// TestRestoreOfWhatIsCompressed: no reactor decompresses what becomes large, be it right or wrong.
func TestRestoreOfWhatIsCompressed(t *testing.T) {
	var zeros listpack.Builder
	for range 6 << 20 {
		zeros.Add([]byte("0"))
	}
	members := zeros.Listpack()
	const stringType, hashListpack, setListpack = 0, 16, 20
	e, _ := newTestEngine(t)
	for name, test := range map[string]struct {
		payload, reply string
	}{
		"string": {payloadOf(t, stringType, make([]byte, 12<<20)), "+OK"},
		"hash":   {payloadOf(t, hashListpack, members), "-" + string(errPayload)},
		"set":    {payloadOf(t, setListpack, members), "-" + string(errPayload)},
	} {
		c := newTestClient(t, e)
		request := c.Batch.Read(c.Session, words("RESTORE", name, "0", test.payload))
		c.Batch.Tick()
		if outcome := c.Batch.Execute(c.Session, request); outcome != execute.Waiting || c.Session.Wait().Cause != execute.ForWorker {
			t.Fatalf("%s: %d bytes were restored on a reactor: outcome %d", name, len(test.payload), outcome)
		}
		if err := c.Batch.Commit(); err != nil {
			t.Fatal(err)
		}
		c.Batch.Clear()
		c.Engine.Work(c.Session, request)
		if reply := string(c.Session.Reply.Bytes()); strings.TrimSpace(reply) != test.reply {
			t.Errorf("%s: %q, expected %q", name, reply, test.reply)
		}
	}
}

// streamOfNewer is a payload of Redis 7.4: a stream with a consumer that got something, then asked
// in vain, and one that never got anything.
func streamOfNewer(t *testing.T) string {
	t.Helper()
	w := rdb.NewPayloadWriter()
	w.SetFormat(rdb.Redis72)
	w.Begin(nil)
	w.BeginStream(0)
	for _, part := range []rdb.StreamElement{
		{Part: rdb.StreamTotals, Groups: 1}, {Part: rdb.StreamGroup, Name: []byte("g"), EntriesRead: -1},
		{Part: rdb.StreamConsumer, Name: []byte("a"), Consumers: 2, SeenMs: 1700000000007, ActiveMs: 1700000000005},
		{Part: rdb.StreamConsumer, Name: []byte("b"), Consumers: 1, SeenMs: 1700000000007, ActiveMs: -1},
	} {
		w.StreamPart(&part)
	}
	w.EndStream()
	payload, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	payload = binary.LittleEndian.AppendUint16(payload[:len(payload)-10], rdb.NewestVersion)
	return string(binary.LittleEndian.AppendUint64(payload, rdb.CRC64(0, payload)))
}

// TestReplicasKnowBothTimesOfConsumers: a stream of a newer Redis comes to a replica as it is here.
func TestReplicasKnowBothTimesOfConsumers(t *testing.T) {
	e, log := newTestEngine(t)
	c := newTestClient(t, e)
	if reply := c.Do("RESTORE", "s", "0", streamOfNewer(t)); reply != "+OK\r\n" {
		t.Fatal(reply)
	}
	replica := newStream(t)
	reader := resp.NewReader(bytes.NewReader(log.Content), math.MaxInt64)
	effect, _, err := reader.ReadRequest()
	if err != nil {
		t.Fatal(err)
	}
	if rdb.PayloadVersion(effect[3]) != 11 {
		t.Errorf("the effect's payload is of version %d, not Redis 7.2's", rdb.PayloadVersion(effect[3]))
	}
	if err := errors.Join(replica.Apply(effect, log.Content), replica.Commit()); err != nil {
		t.Fatal(err)
	}
	want := c.Do("XINFO", "STREAM", "s", "FULL")
	got := newTestClient(t, replica.engine).Do("XINFO", "STREAM", "s", "FULL")
	if got != want || !strings.Contains(want, ":1700000000005\r\n") || !strings.Contains(want, "active-time\r\n:-1\r\n") {
		t.Errorf("a replica has\n%q, its primary\n%q", got, want)
	}
}
