package migrate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"kedis/internal/psync"
)

// stream is the source's stream of writes on its way to the target.
type stream struct {
	*port
	at      Position // behind the last whole group
	read    Position // behind the last command
	group   []Command
	emptied []int // databases, key by key, before the group
	multi   bool  // within a transaction
	open    bool  // something was sent that Push has not been called for

	source atomic.Int64 // where the source was when it was asked last
	asked  atomic.Int64 // when that was, in ns since 1970
	since  time.Time    // what the source was asked before doesn't count
	caught bool         // was told
	goal   int64        // where the source was when that was asked for; -1 until it has said so
	noted  time.Time
}

const (
	idleAfter = time.Millisecond // when nothing has come for so long what was gathered is sent
	waitFor   = 100 * time.Millisecond
	noteEvery = time.Second
)

// follow carries the stream to the target until the move is done.
func (p *port) follow(ctx context.Context, from Position) error {
	p.Progress.Phase("stream")
	p.Progress.Total.Store(0)
	p.link.reached.Store(from.Offset)
	if err := p.link.acknowledge(); err != nil { // a source that marked the snapshot's end waits for it
		return err
	}
	s := &stream{port: p, at: from, read: from, since: time.Now(), noted: time.Now(), goal: -1}
	watch, stop := context.WithCancel(ctx)
	watched := make(chan error, 1)
	go func() { watched <- s.watch(watch) }()
	err := s.run(ctx, watched)
	stop()
	if err != nil {
		err = p.orTarget(err)
		p.noteFailure(err)
		return sourceSide.explain(p.From.address(), err)
	}
	return nil
}

// noteFailure remembers that the stream can't be gone on with: the target's data is no longer what
// the source's was, or what a script does isn't known.
func (p *port) noteFailure(err error) {
	var d *divergence
	switch {
	case errors.As(err, &d):
		p.state.Reason = d.Error()
	case errors.Is(err, errNoBody):
		p.state.Reason = err.Error()
	default:
		return
	}
	p.state.Phase = phaseFailed
	if err := p.state.write(p.State); err != nil {
		p.Progress.Say("the position file: %v", err)
	}
}

// watch asks the source regularly where it is.
func (s *stream) watch(ctx context.Context) error {
	for {
		at := time.Now()
		facts, err := ask(ctx, s.info, "replication")
		if err != nil {
			return sourceSide.explain(s.From.address(), err)
		}
		offset, err := strconv.ParseInt(facts["master_repl_offset"], 10, 64)
		if err != nil {
			return fmt.Errorf("INFO replication of the source: %w", err)
		}
		s.source.Store(offset)
		s.asked.Store(at.UnixNano())
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(waitFor):
		}
	}
}

func (s *stream) run(ctx context.Context, watched <-chan error) error {
	for {
		wait := waitFor
		if s.open {
			wait = idleAfter
		}
		args, size, err := s.link.next(wait)
		switch {
		case err == nil:
			s.read.Offset += int64(size)
			s.Progress.Bytes.Add(int64(size))
			if err := s.take(args); err != nil {
				return fmt.Errorf("at position %d: %w", s.read.Offset, err)
			}
		case !errors.Is(err, errNothing):
			return errors.Join(err, ctx.Err())
		case s.open:
			s.open = false
			if err := s.target.Push(); err != nil {
				return err
			}
		}
		if done, err := s.duties(watched, err != nil); done || err != nil {
			return err
		}
	}
}

// duties are what is done now and then: to note the position, to see whether the target has caught
// up, and whether the move is to end.
func (s *stream) duties(watched <-chan error, idle bool) (done bool, err error) {
	select {
	case request := <-s.Stop:
		if request == Interrupt || s.finish {
			return true, s.interrupt()
		}
		s.since, s.finish = time.Now(), true
		s.Progress.Say("finishing")
	case err := <-watched:
		return false, err
	default:
	}
	if err := s.target.failed(); err != nil {
		return false, err
	}
	now := time.Now()
	if now.Sub(s.noted) >= noteEvery || idle && (!s.caught || s.finish) {
		s.noted = now
		return s.checkpoint()
	}
	return false, nil
}

// checkpoint has everything written, notes the position, and looks whether the target has caught
// up.
func (s *stream) checkpoint() (done bool, err error) {
	asked, source := s.asked.Load() > s.since.UnixNano(), s.source.Load()
	if s.at.Offset != s.state.Offset {
		if err := s.target.Checkpoint(s.at); err != nil {
			return false, err
		}
		s.open = false
		if err := s.note(s.at, phaseStream); err != nil {
			return false, err
		}
	}
	lag := max(source-s.at.Offset, 0)
	s.Progress.Lag.Store(lag)
	if s.finish && asked {
		if s.goal < 0 {
			s.goal = source
		}
		if s.at.Offset >= s.goal {
			return true, s.done()
		}
	}
	if !asked || lag > 0 {
		if lag > behind {
			s.caught = false
		}
		return false, nil
	}
	if !s.caught {
		s.caught = true
		s.Progress.Say("the target has caught up, at position %d", s.at.Offset)
	}
	if s.Forever {
		return false, nil
	}
	return true, s.done()
}

// behind is a lag at which a target that had caught up has not any more.
const behind = 1 << 20

// interrupt ends a move that another run can go on with.
func (s *stream) interrupt() error {
	if err := s.target.Checkpoint(s.at); err != nil {
		return err
	}
	if err := s.note(s.at, phaseStream); err != nil {
		return err
	}
	return failure(ExitInterrupted, "interrupted; the position, %d, is in %s: the same command goes on there", s.at.Offset, s.State)
}

// take looks at one command of the stream.
func (s *stream) take(args [][]byte) error {
	switch name := strings.ToUpper(string(args[0])); name {
	case "SELECT":
		database, err := strconv.ParseUint(string(args[len(args)-1]), 10, 31)
		if err != nil || len(args) != 2 {
			return fmt.Errorf("the stream selects %.60q", args)
		}
		s.read.Database = int(database)
	case "MULTI":
		s.multi = true
	case "EXEC":
		s.multi = false
	case "PING":
	case "REPLCONF":
		if psync.AsksForAck(args) {
			if err := s.link.acknowledge(); err != nil {
				return err
			}
		}
	case "PUBLISH", "SPUBLISH":
		s.Progress.Skip("messages to subscribers")
	case "FUNCTION":
		if err := s.addFunction(args); err != nil {
			return err
		}
	case "SCRIPT":
		if len(args) == 3 && bytes.EqualFold(args[1], []byte("LOAD")) {
			s.scripts.note(args[2])
		}
		s.Progress.Skip("changes of scripts: they are code")
	default:
		if err := s.add(name, args); err != nil {
			return err
		}
	}
	if s.multi {
		return nil
	}
	return s.endGroup()
}

// endGroup sends a transaction, or a single command.
func (s *stream) endGroup() error {
	group, emptied := s.group, s.emptied
	s.group, s.emptied, s.at = nil, nil, s.read
	if len(emptied) > 0 && !s.target.marker.applied(0, true, s.at) {
		if err := s.clearDatabases(emptied); err != nil {
			return err
		}
	}
	if len(group) == 0 {
		return nil
	}
	if s.target.IsCluster() && slices.ContainsFunc(group, func(c Command) bool { return c.isFunction() }) {
		if err := s.noteUnmarked(); err != nil {
			return err
		}
	}
	s.open = true
	s.Progress.Commands.Add(int64(len(group)))
	return s.target.ApplyAt(s.at, group...)
}

// noteUnmarked notes in the position file that the target is about to have something of the group
// that its markers don't tell: a source that has lost that in a failover mustn't be gone on with.
func (s *stream) noteUnmarked() error {
	s.state.Unmarked = s.at.Offset
	return s.state.write(s.State)
}

// add puts a command into the group, as it is at the target.
func (s *stream) add(name string, args [][]byte) error {
	switch name {
	case "FLUSHDB", "FLUSHALL":
		return s.addFlush(name)
	case "SWAPDB":
		return s.addSwap(args)
	case "MSETEX":
		sets, err := setsOf(args)
		for i := 0; i < len(sets) && err == nil; i++ {
			err = s.add("SET", sets[i])
		}
		return err
	case "EVAL":
		s.scripts.note(args[min(1, len(args)-1)])
	}
	args = cloneWords(args)
	keys, known, err := s.keys.Keys(nil, args)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", brief(args), err)
	case !known:
		return failure(ExitUnsupported, "the stream has a command that neither Kedis nor the source tells the keys of: %s", brief(args))
	case len(keys) == 0:
		return failure(ExitUnsupported, "the stream has a command without keys: %s", brief(args))
	}
	command, err := s.Filter.Command(s.read.Database, args, keys)
	if command == nil || err != nil {
		if err == nil {
			s.Progress.Skip("commands on keys that were not chosen")
		}
		return err
	}
	if name == "EVALSHA" {
		if command.Args, err = s.scripts.whole(command.Args); err != nil {
			return err
		}
	}
	if command, err = s.Filter.otherDatabase(command); command == nil || err != nil {
		return err
	}
	command.dropCondition()
	commands, held, err := command.held()
	if err != nil {
		return fmt.Errorf("%s: %w", brief(command.Args), err)
	}
	s.target.held = s.target.held || held
	s.group = append(s.group, commands...)
	return nil
}

// cloneWords copies words, in one piece of memory.
func cloneWords(args [][]byte) [][]byte {
	size := 0
	for _, word := range args {
		size += len(word)
	}
	memory := make([]byte, 0, size)
	words := make([][]byte, len(args))
	for i, word := range args {
		start := len(memory)
		memory = append(memory, word...)
		words[i] = memory[start:len(memory):len(memory)]
	}
	return words
}

// otherDatabaseAt is where a MOVE, or a COPY with DB, names the database that its last key is in;
// 0: nowhere.
func otherDatabaseAt(args [][]byte) int {
	switch strings.ToUpper(string(args[0])) {
	case "MOVE":
		if len(args) > 2 {
			return 2
		}
	case "COPY":
		for i := 3; i+1 < len(args); i++ {
			if bytes.EqualFold(args[i], []byte("DB")) {
				return i + 1
			}
		}
	}
	return 0
}

// otherDatabase maps the database that MOVE, or COPY with DB, names.
func (f *Filter) otherDatabase(c *Command) (*Command, error) {
	at := otherDatabaseAt(c.Args)
	if at == 0 {
		return c, nil
	}
	number, err := strconv.Atoi(string(c.Args[at]))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", brief(c.Args), err)
	}
	to, ok := f.Database(number)
	switch {
	case !ok && at == 2: // MOVE
		return &Command{Database: c.Database, Args: [][]byte{[]byte("DEL"), c.Args[1]}, Keys: c.Keys[:1]}, nil
	case !ok:
		return nil, nil
	}
	c.Args[at] = strconv.AppendInt(nil, int64(to), 10)
	return c, nil
}
