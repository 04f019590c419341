package execute

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"kedis/storage"
)

// Request is a client's request, looked at once: when it was parsed. Gates, locks, prefetching,
// MULTI's queue and those who observe commands read it, and don't look at the words again.
//
// The words are the parser's, and stay as they are until the batch that executes the request is
// cleared; Clone outlives that. A request belongs to one goroutine at a time.
type Request struct {
	Command *Command // nil: there is no such command
	Args    [][]byte // Args[0] is the name

	flags     Flags          // those of the command with these words
	keys      []KeyReference // none when the words can't be right: the command itself says what is wrong
	database  int            // that the stripes of keys are for
	container *Command       // has no such subcommand
	further   further        // what it turned out to need
	malformed bool           // it can't be executed: see refusal
	noted

	single [1]KeyReference // memory for keys
}

// noted is what was noted of a request, once, although it may be executed again.
type noted struct {
	metered  bool      // it was counted as one of a second's
	counted  bool      // statistics and observers have it: it is executed again
	failed   bool      // so was an error of it
	denials  int32     // how many, of it or inside of it, are in the log of what was denied
	overRate *overRate // why it was refused then; nil: it was admitted
}

// meetsDenial reports whether a denial, by its number from 1 on since the request began, isn't in
// the log yet, and notes that it is.
func (n *noted) meetsDenial(number int32) (isNew bool) {
	isNew = number > n.denials
	n.denials = max(n.denials, number)
	return isNew
}

// Executed is what a batch keeps of a request that was executed: what it takes to execute it again,
// should the commit fail.
type Executed struct {
	words [][]byte
	noted
	reply replyPart
}

// replyPart is where in its session's replies the one to a request stands.
type replyPart struct {
	from, to int
	wrote    bool // the request has left effects
}

// Again makes the request of a session once more.
func (b *Batch) Again(s *Session, e Executed) *Request {
	r := b.Read(s, e.words)
	r.noted = e.noted
	return r
}

// read makes r the request that words are.
func (r *Request) read(found, container *Command, args [][]byte) {
	r.Command, r.container, r.Args = found, container, args
	r.keys, r.flags, r.database = r.keys[:0], 0, unlocated
	r.further, r.noted = further{}, noted{}
	r.malformed = found == nil || !found.Accepts(len(args)) || found.Run == nil
	if r.malformed {
		return
	}
	r.flags = found.flagsWith(args)
	if !found.hasKeys() {
		return
	}
	if cap(r.keys) == 0 {
		r.keys = r.single[:0]
	}
	if spec := found.oneKey; spec != nil && spec.Index < len(args) {
		r.keys = append(r.keys, KeyReference{})
		key := &r.keys[0]
		key.Index, key.Flags = spec.Index, spec.Flags
		return
	}
	var err error
	if r.keys, err = found.KeysOf(r.keys, args); err != nil {
		r.keys = r.keys[:0]
	} else if found.Elsewhere != nil {
		if key, ok := found.Elsewhere(args); ok {
			r.keys = append(r.keys, key)
		}
	}
}

// presume looks at words that lack some, or are too many, as if they were right: for who only asks.
func (r *Request) presume() {
	if !r.malformed || r.Command.GetKeys != nil {
		return
	}
	r.flags = r.Command.Flags
	if keys, err := r.Command.KeysOf(r.keys, r.Args); err == nil {
		r.keys = keys
	}
}

// unlocated is the database of a request whose stripes aren't known.
const unlocated = -1

// locate finds the locks of the keys when a database is selected.
func (r *Request) locate(store *storage.Store, database int) {
	if r.database == database {
		return
	}
	r.database = database
	for i := range r.keys {
		key := &r.keys[i]
		in := database
		if key.elsewhere {
			in = int(key.database)
		}
		key.stripe = store.Stripe(in, r.Args[key.Index])
	}
}

// refusal is the reply to a malformed request.
func (r *Request) refusal() error {
	switch {
	case !r.malformed:
		return nil
	case r.container != nil:
		return unknownSubcommand(r.Args)
	case r.Command == nil:
		return unknownCommand(r.Args)
	}
	return WrongArity(r.Command.full)
}

// writes reports whether the request may change keys, or what replicas are told.
func (r *Request) writes() bool { return r.flags&(Write|MayReplicate) != 0 }

// Writes reports whether the request may change keys, or what replicas are told.
func (r *Request) Writes() bool { return r.writes() }

// prefetches reports whether the storage may look something up ahead of the request's execution:
// the key has to be the word behind the name.
func (r *Request) prefetches() bool {
	return len(r.keys) > 0 && r.keys[0].Index == 1 && r.Command.Prefetch != PrefetchNothing
}

// prefetch says what the storage may look up.
func (r *Request) prefetch(looked *storage.Prefetch) {
	looked.Database, looked.Access, looked.Key = r.database, storage.AccessKey, r.Args[1]
	switch step := r.Command.keyStep; {
	case r.Command.Prefetch == PrefetchElement && len(r.Args) > 2:
		looked.Access, looked.Element = storage.AccessElement, r.Args[2]
	case r.Command.Prefetch == PrefetchLastElement && len(r.Args) > 2:
		looked.Access, looked.Element = storage.AccessElement, r.Args[len(r.Args)-1]
	case r.Command.Prefetch == PrefetchLeft && len(r.Args) == 2:
		looked.Access = storage.AccessFirst
	case r.Command.Prefetch == PrefetchRight && len(r.Args) == 2:
		looked.Access = storage.AccessLast
	case step > 0:
		looked.Access, looked.Others, looked.Step = storage.AccessEach, r.Args[min(1+step, len(r.Args)):], step
	}
}

// Clone returns a copy that owns its words.
func (r *Request) Clone() *Request {
	clone := &Request{}
	*clone = *r
	clone.keys = slices.Clone(r.keys)
	clone.Args = cloneWords(r.Args)
	return clone
}

// cloneWords copies words into one piece of memory.
func cloneWords(words [][]byte) [][]byte {
	memory, clone := make([]byte, 0, WordBytes(words)), make([][]byte, len(words))
	for i, word := range words {
		from := len(memory)
		memory = append(memory, word...)
		clone[i] = memory[from:len(memory):len(memory)]
	}
	return clone
}

// requestReader makes requests, and takes those back that were executed, so that a request costs no
// allocation.
type requestReader struct {
	table *Table
	store *storage.Store
	free  []*Request

	effects bool // the words are effects: commands go by their own names

	repeated, other lookedUp // the last two that differ: a script's, and what it calls
}

// lookedUp is a command whose name is one word, and the name as it was written.
type lookedUp struct {
	command *Command // nil: there is none yet
	name    []byte
}

const (
	// mostFree is how many requests are kept.
	mostFree = 1024
	// mostFreeKeys is how many keys each of them keeps memory for.
	mostFreeKeys = 128
)

// read makes a request of words that are to be executed on a database.
func (q *requestReader) read(database int, args [][]byte) *Request {
	var r *Request
	if last := len(q.free) - 1; last >= 0 {
		r, q.free = q.free[last], q.free[:last]
	} else {
		r = &Request{}
	}
	q.readInto(r, database, args)
	return r
}

func (q *requestReader) readInto(r *Request, database int, args [][]byte) {
	found, container := q.lookup(args)
	r.read(found, container, args)
	r.locate(q.store, database)
}

// recycle takes a request back that nobody refers to any longer.
func (q *requestReader) recycle(r *Request) {
	if len(q.free) >= mostFree {
		return
	}
	r.Args = nil
	if cap(r.keys) > mostFreeKeys {
		r.keys = nil
	}
	q.free = append(q.free, r)
}

// lookup is Table.Lookup. Pipelines repeat a command, and comparing its name takes less time than
// looking for it.
func (q *requestReader) lookup(args [][]byte) (found, container *Command) {
	if q.repeated.command != nil && bytes.Equal(args[0], q.repeated.name) {
		return q.repeated.command, nil
	}
	q.repeated, q.other = q.other, q.repeated
	if q.repeated.command != nil && bytes.Equal(args[0], q.repeated.name) {
		return q.repeated.command, nil
	}
	if q.effects {
		found, container = q.table.LookupEffect(args)
	} else {
		found, container = q.table.Lookup(args)
	}
	if found != nil && found.full == found.Name && len(found.Subcommands) == 0 {
		q.repeated = lookedUp{found, append(q.repeated.name[:0], args[0]...)}
	}
	return found, container
}

func unknownCommand(args [][]byte) Error {
	var words strings.Builder
	for _, arg := range args[1:] {
		if words.Len() >= 128 {
			break
		}
		fmt.Fprintf(&words, "'%s' ", Clip(arg, 128-words.Len()))
	}
	return Errorf("ERR unknown command '%s', with args beginning with: %s", Clip(args[0], 128), words.String())
}

func unknownSubcommand(args [][]byte) Error {
	return Errorf("ERR unknown subcommand '%s'. Try %s HELP.", Clip(args[1], 128), strings.ToUpper(string(UntilZero(args[0]))))
}

// Clip cuts a word to a length, and at a zero byte, as C prints it.
func Clip(word []byte, length int) []byte { return UntilZero(word[:min(len(word), length)]) }

// UntilZero cuts a word at a zero byte, as C prints it.
func UntilZero(word []byte) []byte {
	before, _, _ := bytes.Cut(word, []byte{0})
	return before
}

// WordBytes is how many bytes words take together.
func WordBytes(args [][]byte) int {
	sum := 0
	for _, arg := range args {
		sum += len(arg)
	}
	return sum
}
