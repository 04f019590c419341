package command

import (
	"errors"
	"path/filepath"
	"sync"
	"time"
)

func saveCommand() Command {
	return Command{Name: "save", Arity: 1, Flags: Admin | NoScript | NoAsyncLoading | NoMulti | Walk, Run: cmdSave,
		Group: "server", Since: "1.0.0", Complexity: "O(N) where N is the total number of keys in all databases",
		Summary: "Makes a checkpoint, and answers when it is complete. Nobody else waits."}
}

func bgSaveCommand() Command {
	return Command{Name: "bgsave", Arity: -1, Flags: Admin | NoScript | NoAsyncLoading | NoBatch, Run: cmdBgSave,
		Group: "server", Since: "1.0.0", Complexity: "O(1)", Syntax: "[SCHEDULE]",
		Summary: "Makes a checkpoint in the background."}
}

func lastSaveCommand() Command {
	return Command{Name: "lastsave", Arity: 1, Flags: Loading | Stale | Fast, Categories: CategoryAdmin | CategoryDangerous, Run: cmdLastSave,
		Tips:  []string{"nondeterministic_output"},
		Group: "server", Since: "1.0.0", Complexity: "O(1)",
		Summary: "Returns when the last checkpoint was complete, as Unix time."}
}

// bgRewriteAOFCommand refuses: what AOF rewriting does for Redis, retention does here.
func bgRewriteAOFCommand() Command {
	c := refusal("bgrewriteaof", 1, Admin|NoScript|NoAsyncLoading, "1.0.0", "",
		"ERR Kedis rewrites no append only file: binlog-retention-size and binlog-retention-age say how much of the log is kept")
	c.Group = "server"
	return c
}

var errSaving = Error("ERR Background save already in progress")

// saves knows of the checkpoints that are and were made. One is made at a time.
type saves struct {
	mu      sync.Mutex
	running sync.WaitGroup
	began   time.Time // of the one that is being made; zero: none is
	last    time.Time // when the last one was complete; before the first, when the server started
	took    time.Duration
	failed  bool // the last attempt
	count   int64
	commits int64 // that the last one, or the start, had seen
}

func (s *saves) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.began.IsZero() {
		return false
	}
	s.began = time.Now()
	s.running.Add(1)
	return true
}

func (s *saves) end(commits int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.took, s.failed = now.Sub(s.began), err != nil
	if err == nil {
		s.last, s.commits = now, commits
		s.count++
	}
	s.began = time.Time{}
	s.running.Done()
}

// save makes a checkpoint, unless one is being made.
func (e *Engine) save() error {
	if !e.saves.begin() {
		return errSaving
	}
	return e.makeCheckpoint()
}

// makeCheckpoint makes the checkpoint that saves.begin has announced.
func (e *Engine) makeCheckpoint() error {
	commits := e.Store.Counters().Commits.Load()
	parent := e.Config.CheckpointDir.Get()
	if !filepath.IsAbs(parent) {
		parent = filepath.Join(e.Config.Dir.Get(), parent)
	}
	directory, err := e.Store.Save(parent, int(e.Config.CheckpointKeep.Get()), time.Now())
	e.saves.end(commits, err)
	if err != nil {
		e.Logger.Error("making a checkpoint", "error", err)
		return err
	}
	e.Logger.Info("made a checkpoint", "directory", directory)
	return nil
}

func cmdSave(c *Context) error {
	if err := c.Engine.save(); err != nil {
		if errors.Is(err, errSaving) {
			return err
		}
		return Errorf("ERR the checkpoint could not be made: %v", err)
	}
	c.Reply.OK()
	return nil
}

func cmdBgSave(c *Context) error {
	if len(c.Args) > 2 || len(c.Args) == 2 && !equalFold(c.Args[1], "schedule") {
		return ErrSyntax
	}
	if !c.Engine.saves.begin() {
		return errSaving
	}
	go func() {
		_ = c.Engine.makeCheckpoint() // which logs the error, and INFO tells of it
	}()
	c.Reply.SimpleString("Background saving started")
	return nil
}

func cmdLastSave(c *Context) error {
	s := &c.Engine.saves
	s.mu.Lock()
	defer s.mu.Unlock()
	c.Reply.Integer(s.last.Unix())
	return nil
}
