package command

import (
	"encoding/binary"
	"strings"
	"testing"

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
