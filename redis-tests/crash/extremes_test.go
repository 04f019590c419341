package crash

import (
	"bytes"
	"encoding/binary"
	"hash/crc64"
	"strings"
	"testing"

	"kedis/redis-tests/launch"
)

// TestExtremesAreRepeated kills a server that has executed requests with the largest numbers: a
// start refuses nothing of what the log says that they have come to.
func TestExtremesAreRepeated(t *testing.T) {
	server, err := launch.MustUnderTest(t).Start(t.TempDir(), "--enable-debug-command", "yes")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { launch.End(t, server) }()
	for _, request := range []string{
		"XADD read 1-1 a b", "XGROUP CREATE read g 1-1 ENTRIESREAD 9223372036854775807", "XADD read 1-2 a b", "XREADGROUP GROUP g c STREAMS read >",
		"XADD added 1-1 a b", "XSETID added 1-1 ENTRIESADDED 9223372036854775807", "XADD added 1-2 a b", "XGROUP CREATE added g 0",
		"XREADGROUP GROUP g c STREAMS added >",
		"XCLAIM read g c 0 1-2 RETRYCOUNT 9223372036854775807 JUSTID", "XREADGROUP GROUP g c STREAMS read 0", "XAUTOCLAIM read g d 0 0",
		"HSET fields f 5", "HPEXPIREAT fields 9000000000000 FIELDS 1 f",
	} {
		ask(t, server, strings.Fields(request)...)
	}
	restoreFields(t, server, []byte(ask(t, server, "DUMP", "fields")))
	server = killed(t, server, ask(t, server, "DEBUG", "DIGEST"))
}

// jones is the polynomial of a payload's checksum, reflected.
const jones = 0x95ac9329ac4bc9b5

// restoreFields restores a hash of one field that expires at 9000000000000 with the latest time
// that a payload may have.
func restoreFields(t *testing.T, server *launch.Server, payload []byte) {
	t.Helper()
	at, latest := binary.LittleEndian.AppendUint64(nil, 9_000_000_000_000), binary.LittleEndian.AppendUint64(nil, 1<<48-2)
	if !bytes.Contains(payload, at) {
		t.Fatalf("%q doesn't have the time", payload)
	}
	payload = bytes.ReplaceAll(payload, at, latest)
	end := len(payload) - 8
	sum := ^crc64.Update(^uint64(0), crc64.MakeTable(jones), payload[:end])
	payload = binary.LittleEndian.AppendUint64(payload[:end], sum)
	if reply := ask(t, server, "RESTORE", "restored", "0", string(payload)); reply != "OK" {
		t.Fatalf("RESTORE: %s", reply)
	}
}
