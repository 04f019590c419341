package replication

import (
	"errors"
	"net"
	"testing"
	"time"

	"kedis/internal/config"
)

// slow is the connection of a replica that takes a little within each deadline, and at last
// nothing.
type slow struct {
	net.Conn
	takes int // bytes within a deadline
	room  int // what it takes until the deadline is renewed
	left  int // what it takes in all
}

func (s *slow) SetWriteDeadline(time.Time) error {
	s.room = s.takes
	return nil
}

func (s *slow) Write(b []byte) (int, error) {
	n := min(len(b), s.room, s.left)
	s.room, s.left = s.room-n, s.left-n
	if n < len(b) {
		return n, errSlow
	}
	return n, nil
}

var errSlow = errors.New("the deadline has come")

// TestSlowReplicaIsSentEverything: repl-timeout is for replicas that take nothing, and not for all
// of a large record.
func TestSlowReplicaIsSentEverything(t *testing.T) {
	large := make([]byte, 50*atOnce+1)
	f := &feed{node: &Node{Options: Options{Config: config.New()}}, conn: &slow{takes: atOnce, left: len(large) + atOnce}}
	if n, err := f.Write(large); n != len(large) || err != nil {
		t.Errorf("%d of %d bytes were sent: %v", n, len(large), err)
	}
	if n, err := f.Write(large); n != atOnce || !errors.Is(err, errSlow) {
		t.Errorf("to a replica that takes no more %d bytes were sent: %v", n, err)
	}
	if sent := f.node.counters.sent.Load(); sent != int64(len(large)+atOnce) {
		t.Errorf("%d bytes are counted", sent)
	}
}
