package command

import (
	"bytes"
	"fmt"
	"io"
	"math"

	"kedis/internal/resp"
)

// Applier repeats effects: of the log when a server starts, of a primary's stream on a replica. It
// is the executor in another mode, in which nothing expires and no effect is collected. An effect
// that is unknown or fails stops it; none is ever skipped.
type Applier struct {
	batch   *Batch
	session *Session
}

// NewApplier makes an applier. It takes no locks: nothing else writes beside it, and clients only read what they may while the server is
// loading.
func (e *Engine) NewApplier() *Applier {
	b := e.newBatch(0, e.workers.slot, 0)
	b.applying = true
	return &Applier{b, NewSession(nowhere{}, true)}
}

// Replay applies the commands of a record of the log, which ends at a position, as one step.
// database is selected where it begins.
func (a *Applier) Replay(database int, payload []byte, end int64) error {
	a.session.SetDatabase(database)
	if err := a.execute(payload); err != nil {
		a.batch.txn.Reset()
		a.batch.failure = nil
		return err
	}
	a.batch.txn.Replay(end)
	return a.batch.Commit()
}

func (a *Applier) execute(payload []byte) error {
	a.batch.Tick()
	stream := resp.NewReader(bytes.NewReader(payload), math.MaxInt64)
	for at := 0; ; {
		args, size, err := stream.ReadRequest()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("command: effect at byte %d of a record: %w", at, err)
		}
		a.batch.execute(a.session, args)
		a.session.Reply.Reset()
		a.session.place = 0
		if a.batch.failure != nil {
			return fmt.Errorf("command: effect %.200q at byte %d of a record: %w", args, at, a.batch.failure)
		}
		at += size
	}
}

// nowhere is the peer of a session that has no connection.
type nowhere struct{}

func (nowhere) RemoteAddress() string { return "" }
func (nowhere) LocalAddress() string  { return "" }
func (nowhere) OverUnixSocket() bool  { return false }
func (nowhere) FileDescriptor() int   { return -1 }
func (nowhere) Send([]byte)           {}
func (nowhere) Close()                {}
func (nowhere) Buffered() (int, int)  { return 0, 0 }
