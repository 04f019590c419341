package concurrency

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// TestLastRequestsBehindWAIT sends requests, WAIT among them, and the end of the stream: nobody is
// waited for on behalf of a client that sends no more, and all is answered.
func TestLastRequestsBehindWAIT(t *testing.T) {
	server := start(t)
	client, err := net.Dial("tcp", server.Address)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	const times = 400
	sets := strings.Repeat("SET key value\r\n", times)
	if _, err := io.WriteString(client, sets+"WAIT 1 0\r\nWAITAOF 0 1 0\r\n"+sets); err != nil {
		t.Fatal(err)
	}
	if err := client.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	replies, err := io.ReadAll(client)
	oks := strings.Repeat("+OK\r\n", times)
	got := strings.ReplaceAll(string(replies), "*2\r\n:1\r\n:0\r\n", "*2\r\n:0\r\n:0\r\n") // the log may be on the disk by now
	if want := oks + ":0\r\n*2\r\n:0\r\n:0\r\n" + oks; err != nil || got != want {
		t.Errorf("%d bytes of replies instead of %d (%v): %.60q", len(got), len(want), err, got)
	}
}
