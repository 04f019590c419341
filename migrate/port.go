package migrate

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"kedis/internal/psync"
)

// PortOptions say what is moved from where to where.
type PortOptions struct {
	From, To    Server
	Filter      *Filter
	Conflicts   string // replace, skip or fail
	Limit       *Limit
	Connections int
	Forever     bool          // goes on when the target has caught up
	Resync      string        // refuse, delete or keep: see docs/migration.md
	RetryFor    time.Duration // how long a server may be away
	State       string        // the position file
	Commands    Commands
	Progress    *Progress

	// Stop asks for an end.
	Stop <-chan StopRequest
}

// StopRequest is how a move is asked to end.
type StopRequest int

// Finish ends a move when the target has what the source had by then, Interrupt at once, with the
// position kept. A second Finish is an Interrupt, and so is one before the stream.
const (
	Finish StopRequest = iota
	Interrupt
)

// Port moves a live data set: the source's snapshot and then its stream. Errors have the exit code
// that docs/migration.md names.
func Port(ctx context.Context, options PortOptions) (err error) {
	conflicts, err := ParseConflicts(options.Conflicts)
	if err != nil {
		return err
	}
	if !slices.Contains([]string{"refuse", "delete", "keep"}, options.Resync) {
		return failure(ExitUsage, "--resync: expected refuse, delete or keep, got %q", options.Resync)
	}
	unlock, err := lockState(options.State)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	p := &port{PortOptions: options, conflicts: conflicts}
	if p.state, err = readState(p.State); err != nil {
		return err
	}
	if err := p.identify(); err != nil {
		return err
	}
	err = p.run(ctx)
	if ctx.Err() != nil {
		return failure(ExitInterrupted, "interrupted at once; the position is in %s", p.State)
	}
	return err
}

// port is a move.
type port struct {
	PortOptions
	conflicts *Conflicts
	surveyed  bool
	begun     bool // both sides were there
	resumed   bool // data of an earlier attempt may be at the target
	finish    bool // the move is to end when the target has what the source had then
	state     state
	scripts   scripts // of the stream, also of an attempt before this one

	target *Target
	link   *link
	info   *redis.Client // to the source, for what a replica can't ask
	keys   *askedCommands
}

// identify checks that a position file is that of the same move.
func (p *port) identify() (err error) {
	what := strings.TrimSpace(p.Filter.String() + " --on-conflict " + cmp.Or(p.Conflicts, "replace"))
	if p.state.Phase == phaseNone {
		p.state.From, p.state.To, p.state.What = p.From.address(), p.To.address(), what
		p.state.Connections = p.Connections
		p.state.Move, err = newRun()
		return err
	}
	if p.state.From != p.From.address() || p.state.To != p.To.address() || p.state.What != what {
		return failure(ExitUsage, "the position file %s is that of another move (--from %s --to %s %s): finish that one with the options that it had, or remove the file to begin anew",
			p.State, p.state.From, p.state.To, p.state.What)
	}
	if p.conflicts != nil {
		p.surveyed = true
		return p.conflicts.read(p.State)
	}
	return nil
}

// run tries again for as long as a server may be away.
func (p *port) run(ctx context.Context) error {
	var away time.Time // since when
	for {
		before := p.state.Offset
		err := p.attempt(ctx)
		if errors.Is(err, errNoBody) && ctx.Err() == nil {
			continue // from the beginning, or it says that this wasn't asked for
		}
		if err == nil || ctx.Err() != nil || !isTransient(err) || !p.begun {
			return err
		}
		if p.state.Offset != before || away.IsZero() {
			away = time.Now()
		}
		if time.Since(away) > p.RetryFor {
			return err
		}
		p.Progress.Say("%v; trying again", err)
		select {
		case <-ctx.Done():
			return failure(ExitInterrupted, "interrupted")
		case <-p.Stop:
			return failure(ExitInterrupted, "interrupted; the position is in %s", p.State)
		case <-time.After(time.Second):
		}
	}
}

// attempt connects both sides, and moves until something fails or the move is done.
func (p *port) attempt(ctx context.Context) (err error) {
	p.target, err = OpenTarget(ctx, TargetOptions{Server: p.To, Connections: p.state.Connections, Conflicts: p.conflicts, Limit: p.Limit, Progress: p.Progress, Hold: true,
		Patience: p.RetryFor, Move: p.state.Move})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.target.Close()) }()
	p.resumed = p.state.Phase != phaseNone
	if p.resumed {
		if err := p.target.EndFormer(); err != nil {
			return err
		}
	}
	if p.state.Phase == phaseRelease {
		p.begun = true
		return p.release()
	}
	p.info = redis.NewClient(p.From.options(0, 2))
	p.keys = &askedCommands{own: p.Commands, server: p.info}
	defer func() { err = errors.Join(err, p.info.Close()) }()
	if err := p.refuseLoop(ctx); err != nil {
		return err
	}
	from, id, err := p.place(ctx)
	if err != nil {
		return err
	}
	link, answer, err := p.join(ctx, id, from)
	if err != nil {
		return err
	}
	p.link = link
	defer func() { err = errors.Join(err, link.close()) }()
	if answer.Full {
		if from, err = p.takeSnapshot(ctx, answer.ID, answer.Position); err != nil {
			return err
		}
	} else {
		if answer.ID != "" {
			p.state.History = answer.ID
		}
		p.Progress.Say("going on at position %d", from.Offset)
	}
	return p.follow(ctx, from)
}

// join attaches to the source where its stream has to go on, or else prepares the target for a new
// snapshot. Parts of the target may be further: a source that was a replica until a failover must
// have been given all that they have, and has if it would go on there.
func (p *port) join(ctx context.Context, id string, from Position) (l *link, answer psync.Answer, err error) {
	furthest := from
	if id != "" {
		furthest.Offset = max(from.Offset, p.target.marker.furthest, p.state.Unmarked)
	}
	l, answer, err = attach(ctx, p.From, id, furthest)
	if err == nil && furthest != from && !answer.Full {
		if err = l.close(); err == nil {
			l, answer, err = attach(ctx, p.From, id, from)
		}
	}
	if err != nil {
		return nil, answer, err
	}
	p.begun = true
	if id != "" && answer.Full {
		why := fmt.Sprintf("the source no longer has its stream from position %d on, or has lost the end of it in a failover", from.Offset)
		if err := p.startOver(ctx, why); err != nil {
			return nil, answer, errors.Join(err, l.close())
		}
	}
	return l, answer, nil
}

// refuseLoop refuses to move data to where it comes from: everything written would come back in the
// stream.
func (p *port) refuseLoop(ctx context.Context) error {
	source, err := ask(ctx, p.info, "replication")
	if err != nil {
		return sourceSide.explain(p.From.address(), err)
	}
	if id := source["master_replid"]; id != "" && id == p.target.facts["master_replid"] { // since Redis 4.0
		return failure(ExitUsage, "the source and the target are the same server, or one is the replica of the other")
	}
	return nil
}

// place is where the stream has to go on; an empty id is the beginning.
func (p *port) place(ctx context.Context) (from Position, id string, err error) {
	switch p.state.Phase {
	case phaseStream:
		known := Position{p.state.Offset, p.state.Database}
		from, ok, err := p.target.Resume(p.state.Run, known)
		if ok || err != nil {
			p.state.Offset, p.state.Database = from.Offset, from.Database // the target may have gone back
			return from, p.state.History, err
		}
		return from, "", p.startOver(ctx, "the target has lost the key that tells how far it was, "+markerPrefix+p.state.Run)
	case phaseSnapshot:
		return from, "", p.startOver(ctx, "the move was interrupted in the snapshot")
	case phaseFailed:
		return from, "", p.startOver(ctx, "the move had failed: "+p.state.Reason)
	}
	return from, "", nil
}

// startOver prepares a target that has data of this move for a new snapshot: what the source has
// deleted since must not stay.
func (p *port) startOver(ctx context.Context, why string) error {
	if p.Resync == "refuse" {
		return failure(ExitNoPosition, "%s, so everything has to be taken anew, and keys that were deleted at the source since would stay at the target: "+
			"run again with --resync delete, which removes from the target all keys that this move may have written, or with --resync keep", why)
	}
	p.Progress.Say("%s: taking everything anew", why)
	if p.state.Phase == phaseStream { // to the next attempt a target without markers is one that has its position
		p.state.Phase = phaseSnapshot
		if err := p.state.write(p.State); err != nil {
			return err
		}
	}
	if err := p.target.Forget(p.state.Run); err != nil {
		return err
	}
	if p.Resync == "keep" {
		return nil
	}
	p.Progress.Phase("removing what was moved")
	return p.target.Clear(p.Filter)
}

func newRun() (string, error) {
	var b [8]byte
	_, err := rand.Read(b[:])
	return hex.EncodeToString(b[:]), err
}

// takeSnapshot loads the source's data as of a position.
func (p *port) takeSnapshot(ctx context.Context, history string, offset int64) (at Position, err error) {
	if !p.surveyed {
		p.Progress.Phase("listing the target's keys")
		if err := errors.Join(p.target.Survey(p.Filter), p.conflicts.write(p.State)); err != nil {
			return at, err
		}
		p.surveyed = true
	}
	run, err := newRun()
	if err != nil {
		return at, err
	}
	if err := p.target.Try(run); err != nil {
		return at, err
	}
	p.state.Run, p.state.Phase, p.state.Reason, p.state.Offset, p.state.Unmarked = run, phaseSnapshot, "", 0, 0
	if err := p.state.write(p.State); err != nil {
		return at, err
	}
	p.Progress.Phase("snapshot")
	body, length, err := p.link.snapshot()
	if err != nil {
		return at, sourceSide.explain(p.From.address(), err)
	}
	if err := p.expect(ctx); err != nil {
		return at, err
	}
	p.Progress.Bytes.Store(0)
	p.Progress.Total.Store(max(length, 0))
	loader := loader{sink: p.target, filter: p.Filter, progress: p.Progress, interrupted: p.interrupted}
	if err := loader.load(body); err != nil {
		return at, sourceSide.explain(p.From.address(), p.orTarget(err))
	}
	at = Position{offset, loader.selected}
	if err := p.target.Flush(); err != nil {
		return at, err
	}
	if err := p.target.Track(run, at); err != nil {
		return at, err
	}
	p.state.History = history
	return at, p.note(at, phaseStream)
}

// expect tells the progress how many keys the snapshot has, about.
func (p *port) expect(ctx context.Context) error {
	keyspace, err := ask(ctx, p.info, "keyspace")
	if err != nil {
		return sourceSide.explain(p.From.address(), err)
	}
	p.Progress.Expected.Store(keyspace.keys(func(int) bool { return true }))
	return nil
}

// orTarget is the error that came first: when the target has failed, the source is only where it
// shows.
func (p *port) orTarget(err error) error {
	if failed := p.target.failed(); failed != nil && !errors.Is(failed, context.Canceled) {
		return failed
	}
	return err
}

// note keeps a position that everything up to is written.
func (p *port) note(at Position, phase phase) error {
	p.state.Phase, p.state.Offset, p.state.Database = phase, at.Offset, at.Database
	p.link.reached.Store(at.Offset)
	return p.state.write(p.State)
}

// interrupted is nil unless somebody asks for an end.
func (p *port) interrupted() error {
	select {
	case <-p.Stop:
		return failure(ExitInterrupted, "interrupted in the snapshot")
	default:
		return nil
	}
}

// done ends a move: what only an unfinished one needs goes. From now on clients may be switched,
// and nothing of the source's stream may come to the target any more.
func (p *port) done() error {
	if err := p.note(Position{p.state.Offset, p.state.Database}, phaseRelease); err != nil {
		return err
	}
	return p.release()
}

func (p *port) release() error {
	if p.resumed { // what a run before has held isn't known
		if err := p.target.askFieldTimes(); err != nil {
			return err
		}
	}
	if p.target.held || p.target.fieldTimes == fieldTimesKnown || p.resumed {
		p.Progress.Phase("putting expiries right")
		p.Progress.Say("nothing of the stream is missing: clients can be switched; the keys' expiries are put right")
		released, err := p.target.Release(p.Filter)
		if err != nil {
			return err
		}
		p.Progress.Say("%d keys have their expiries", released)
	}
	if err := p.target.Forget(p.state.Run); err != nil {
		return err
	}
	return removeState(p.State)
}
