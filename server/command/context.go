package command

import (
	"kedis/internal/resp"
	"kedis/storage"
)

// Context is what a command's function works with.
type Context struct {
	Engine  *Engine
	Session *Session
	Command *Command
	Args    [][]byte // Args[0] is the name; of a subcommand too: its own words begin at 2
	Reply   *resp.Writer
	Txn     *storage.Txn
	DB      storage.DB // the selected database
	Now     int64      // Unix ms at which the command began

	request  *Request
	batch    *Batch
	effected bool // the effect is other than the command itself
	redacted redaction
	queued   bool // it was, behind MULTI, and runs in EXEC
	selected int  // the database of DB
}

// Effect says how the command is to be repeated elsewhere, instead of as it was given. It may be
// called several times; all or none are repeated.
func (c *Context) Effect(args ...[]byte) {
	c.effected = true
	c.Txn.Effect(c.selected, args...)
}

// AfterCommit has f called when what the command did is committed, and not at all if that fails. It is
// called by the goroutine that commits, and must not wait.
func (c *Context) AfterCommit(f func()) { c.batch.after = append(c.batch.after, f) }

// NoEffect says that what the command changed needs no repeating.
func (c *Context) NoEffect() { c.effected = true }

// redaction is a set of words, of the first 64.
type redaction uint64

// Redact keeps a word, such as a password, out of the slow log and of what monitors see.
func (c *Context) Redact(word int) { c.redacted |= 1 << word }

// InDatabase returns another database.
func (c *Context) InDatabase(number int) storage.DB { return c.Txn.DB(number) }

// Select makes another database the selected one.
func (c *Context) Select(number int) {
	c.Session.SetDatabase(number)
	c.selected, c.DB = number, c.Txn.DB(number)
}

// Applying tells that the command is repeated from the log: time and chance have no part in it.
func (c *Context) Applying() bool { return c.Txn.Mode().Applying }

// OnReactor tells that other connections wait until the command is done.
func (c *Context) OnReactor() bool { return c.batch.budget > 0 }

// Offload, returned by a command on a reactor, runs it again on a worker.
func (c *Context) Offload() error { return storage.ErrBudget }
