package execute

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"kedis/internal/resp"
)

// LogApplier repeats the effects in the log when a server starts, or restores. It is the executor
// in another mode, in which nothing expires and no effect is collected. An effect that is unknown
// or fails stops it; none is ever skipped.
type LogApplier struct {
	batch   *Batch
	session *Session
	request Request
}

// configured is nil, or why what a log or a stream has next can't be applied: a database that the
// configuration doesn't have is selected there, and the command may use it.
func (c *Invocation) configured() error {
	repeat := &c.batch.repeat
	if !repeat.applying || c.selected < c.Engine.Store.Databases() || !c.Engine.ChangesData(c.Args) {
		return nil
	}
	err := fmt.Errorf("database %d is selected, but %s", c.selected, c.onlyDatabases())
	repeat.failure = cmp.Or(repeat.failure, err)
	return err
}

// onlyDatabases is the end of an error about a database that isn't configured.
func (c *Invocation) onlyDatabases() string {
	return fmt.Sprintf("only %d databases are configured (see --databases)", c.Engine.Store.Databases())
}

// errNotCarriedOut is a broken invariant: nothing that is in the log waits, or runs by itself.
var errNotCarriedOut = errors.New("it isn't carried out, but wants to wait or to be committed by itself")

// NewLogApplier makes a LogApplier. It takes no locks: nothing else writes meanwhile, and clients
// only read what a loading server allows.
func (e *Engine) NewLogApplier() *LogApplier {
	b := e.newBatch(0, e.workers.door, 0, e.Store.NewTxn())
	b.repeat.applying, b.reader.effects = true, true
	return &LogApplier{batch: b, session: NewSession(Nowhere{}, true)}
}

// Replay applies the commands of a record of the log, which ends at a position, as one step.
// database is selected where it begins. Times in it that are relative, as primaries before Redis
// 7.0 send them, are so to when it was written.
func (a *LogApplier) Replay(database int, payload []byte, end int64, written time.Time) error {
	a.session.SetDatabase(database)
	a.batch.repeat.writtenMs = written.UnixMilli()
	if err := a.execute(payload); err != nil {
		a.batch.takeBack()
		a.batch.repeat.failure = nil
		return err
	}
	a.batch.txn.Replay(end)
	return a.batch.Commit()
}

func (a *LogApplier) execute(payload []byte) error {
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
		a.batch.reader.readInto(&a.request, a.session.Database, args)
		outcome := a.batch.execute(a.session, &a.request)
		a.session.Reply.Reset()
		a.session.member = 0
		failure := a.batch.repeat.failure
		if failure == nil && outcome != Done {
			failure = errNotCarriedOut
		}
		if failure != nil {
			return fmt.Errorf("command: effect %.200q at byte %d of a record: %w", args, at, failure)
		}
		at += size
	}
}

// Nowhere is the peer of a session that has no connection.
type Nowhere struct{}

func (Nowhere) RemoteAddress() string    { return "" }
func (Nowhere) LocalAddress() string     { return "" }
func (Nowhere) OverUnixSocket() bool     { return false }
func (Nowhere) FileDescriptor() int      { return -1 }
func (Nowhere) Lane() int                { return 0 }
func (Nowhere) Send([]byte, func() bool) {}
func (Nowhere) Close()                   {}
func (Nowhere) Unblock(*Blocked)         {}
func (Nowhere) Buffered() (int, int)     { return 0, 0 }
