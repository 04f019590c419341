package command

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"kedis/internal/shebang"
	"kedis/server/execute"
	"kedis/server/script"
)

// functions are a server's libraries of functions. The store has their sources
// (storage/library.go); here is what was made of them. They change while nothing else runs: the
// transaction that changes them sees the change at once, all others when it is committed.
type functions struct {
	pool    *script.Pool // of the interpreters that run what keeps nothing
	options script.Options
	current atomic.Pointer[libraries]
	last    atomic.Uint64 // number of a library

	mu     sync.Mutex
	pinned map[*library]*script.State // interpreters of their own
}

// libraries are the libraries at some moment. They don't change.
type libraries struct {
	list   []*library           // by name
	byName map[string]*function // by the function's name in lower case: it is found in any case
	count  int                  // of functions
}

// library is a library of functions that was loaded.
type library struct {
	number    uint64
	name      string
	source    []byte
	body      []byte // of it, behind the first line
	functions []*function

	pinned bool                         // a function keeps something from one run to the next: the library is loaded once, not in each interpreter
	own    atomic.Pointer[script.State] // of a library that is pinned, once it has run
	used   atomic.Int64                 // by own
	alone  atomic.Bool                  // there is too much of what it keeps to be taken back
}

// function is a function of a library.
type function struct {
	program
	library     *library
	index       int
	description string
	described   bool
	all         script.FunctionFlags
}

const luaEngine = "LUA"

func (f *functions) init(pool *script.Pool, o script.Options) {
	f.pool, f.options = pool, o
	f.current.Store(&libraries{})
	f.pinned = map[*library]*script.State{}
}

// librariesFor returns the libraries as an invocation sees them.
func librariesFor(c *Invocation) *libraries {
	if changed, ok := c.ChangedLibraries().(*libraries); ok {
		return changed
	}
	return keptBy(c.Engine).functions.current.Load()
}

// function finds a function by its name in any case; nil if there is none. It doesn't allocate.
func (l *libraries) function(name []byte) *function {
	var lower [64]byte
	if len(name) > len(lower) {
		return l.byName[strings.ToLower(string(name))]
	}
	for i, c := range name {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		lower[i] = c
	}
	return l.byName[string(lower[:len(name)])]
}

func (l *libraries) find(name string) (index int, found bool) {
	return slices.BinarySearchFunc(l.list, name, func(one *library, name string) int { return cmp.Compare(one.name, name) })
}

// named finds a library; nil if there is none.
func (l *libraries) named(name string) *library {
	if index, found := l.find(name); found {
		return l.list[index]
	}
	return nil
}

// with returns the libraries and another one, instead of the one of that name if it may replace
// that.
func (l *libraries) with(added *library, replace bool) (*libraries, error) {
	if l.named(added.name) != nil {
		if !replace {
			return nil, errLibraryExists(added.name)
		}
		l = l.without(added.name)
	}
	for _, f := range added.functions {
		if l.function([]byte(f.name)) != nil {
			return nil, Errorf("ERR Function %s already exists", f.name)
		}
	}
	index, _ := l.find(added.name)
	return newLibraries(slices.Insert(slices.Clone(l.list), index, added)), nil
}

// join returns the libraries and others, instead of those of their names if they may replace them.
// Those go first: a function may have moved from one library to another.
func (l *libraries) join(others *libraries, replace bool) (joined *libraries, err error) {
	joined = l
	for _, one := range others.list {
		if joined.named(one.name) == nil {
			continue
		}
		if !replace {
			return nil, Errorf("ERR Library %s already exists", one.name)
		}
		joined = joined.without(one.name)
	}
	for _, one := range others.list {
		if joined, err = joined.with(one, false); err != nil {
			return nil, err
		}
	}
	return joined, nil
}

func errLibraryExists(name string) error { return Errorf("ERR Library '%s' already exists", name) }

// without returns the libraries without one of them.
func (l *libraries) without(name string) *libraries {
	index, _ := l.find(name)
	return newLibraries(slices.Delete(slices.Clone(l.list), index, index+1))
}

func newLibraries(list []*library) *libraries {
	l := &libraries{list: list, byName: map[string]*function{}}
	for _, one := range list {
		for _, f := range one.functions {
			if lower := strings.ToLower(f.name); l.byName[lower] == nil {
				l.byName[lower] = f
			}
			l.count++
		}
	}
	return l
}

// stripe is the lock of a library that is pinned.
func (l *library) stripe(c *Invocation) uint32 {
	store := c.Engine.Store
	return store.Stripe(store.Libraries(), []byte(l.name))
}

// loading is how a library is loaded.
type loading struct {
	replace bool
	within  time.Duration // 0: it may take as long as it likes
	log     func(level int, message string)
}

// load loads a library by its source, beside others. Errors are replies.
func (f *functions) load(beside *libraries, source []byte, o loading) (*library, *libraries, error) {
	head, err := shebang.ParseLibrary(source)
	if err != nil {
		return nil, nil, Errorf("ERR %v", err)
	}
	if !strings.EqualFold(head.Engine, luaEngine) {
		return nil, nil, Errorf("ERR Engine '%s' not found", head.Engine)
	}
	if beside.named(head.Name) != nil && !o.replace {
		return nil, nil, errLibraryExists(head.Name)
	}
	l := &library{number: f.last.Add(1), name: head.Name, source: slices.Clone(source)}
	l.body = l.source[head.Line:]
	if err := f.tryOut(l, o); err != nil {
		return nil, nil, err
	}
	next, err := beside.with(l, o.replace)
	return l, next, err
}

// tryOut loads a library for the first time, to see what it registers.
func (f *functions) tryOut(l *library, o loading) error {
	state, err := f.pool.Get()
	if err != nil {
		return err
	}
	defer f.pool.Put(state)
	registered, err := state.Load(loadingHost{log: o.log}, l.number, l.body, o.within)
	if err != nil {
		return loadError(err)
	}
	defer state.Unload(l.number) // others come before it is run, or it is pinned
	if len(registered) == 0 {
		return Error("ERR No functions registered")
	}
	for index := range registered {
		r := &registered[index]
		flags := scriptFlags{declared: true, noWrites: r.Flags&script.NoWrites != 0, allowStale: r.Flags&script.AllowStale != 0}
		l.functions = append(l.functions, &function{program: program{name: r.Name, flags: flags}, library: l, index: index,
			description: r.Description, described: r.Described, all: r.Flags})
		l.pinned = l.pinned || r.Keeps
	}
	return nil
}

func loadError(err error) error {
	var compile script.CompileError
	var register script.RegisterError
	switch {
	case errors.As(err, &compile):
		return Errorf("ERR Error compiling function: %v", err)
	case errors.As(err, &register):
		return Errorf("ERR Error registering functions: %v", err)
	}
	return err
}

// loadingHost is what the source of a library works with: it calls nothing.
type loadingHost struct {
	log func(level int, message string)
}

func (loadingHost) Room(bytes, words int) ([]byte, [][]byte) {
	return make([]byte, bytes), make([][]byte, words)
}
func (loadingHost) Call([][]byte, int) ([]byte, bool) { return nil, false }
func (loadingHost) May([][]byte) (may, known bool)    { return false, false }

// Log writes what a source has to say when it is loaded for the first time.
func (h loadingHost) Log(level int, message string) {
	if h.log != nil {
		h.log(level, message)
	}
}

// ready returns an interpreter in which a library is loaded. Who uses that of a pinned library has
// its lock.
func (f *functions) ready(l *library, within time.Duration) (*script.State, error) {
	if own := l.own.Load(); own != nil {
		return own, nil
	}
	state, err := f.interpreter(l)
	if err != nil {
		return nil, err
	}
	if !state.Loaded(l.number) {
		if err := l.loadInto(state, within); err != nil {
			f.giveUp(l, state)
			return nil, err
		}
	}
	if l.pinned {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.pinned[l] = state
		l.own.Store(state)
	}
	return state, nil
}

// loadInto loads the library. If there isn't as much time as it likes, there is none to compile a
// long text.
func (l *library) loadInto(state *script.State, within time.Duration) error {
	if within > 0 && len(l.body) > longText {
		return script.ErrLoadLate
	}
	_, err := state.Load(loadingHost{}, l.number, l.body, within)
	if err == nil || errors.Is(err, script.ErrLoadLate) {
		return err
	}
	return loadError(err)
}

func (f *functions) interpreter(l *library) (*script.State, error) {
	if l.pinned {
		return script.Open(f.options)
	}
	return f.pool.Get()
}

func (f *functions) giveUp(l *library, state *script.State) {
	if l.pinned {
		state.Close()
		return
	}
	f.pool.Put(state)
}

// drop has a library that is pinned be loaded anew when it runs next.
func (f *functions) drop(l *library) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if state := f.pinned[l]; state != nil {
		l.own.Store(nil)
		state.Close()
		delete(f.pinned, l)
	}
}

// publish makes libraries the ones that everybody sees. Nothing else runs.
func (f *functions) publish(next *libraries) {
	f.current.Store(next)
	f.pool.Forget()
	f.mu.Lock()
	defer f.mu.Unlock()
	for l, state := range f.pinned {
		if next.named(l.name) != l {
			l.own.Store(nil)
			state.Close()
			delete(f.pinned, l)
		}
	}
}

// PrepareLibraries loads libraries by their sources; adopt makes them the only ones.
func (k *kept) PrepareLibraries(sources [][]byte) (adopt func(), err error) {
	next := &libraries{}
	for _, source := range sources {
		if _, next, err = k.functions.load(next, source, loading{}); err != nil {
			return nil, err
		}
	}
	return func() { k.functions.publish(next) }, nil
}

// Functions is how many libraries and functions there are, and what they take.
func (k *kept) Functions() execute.FunctionStatistics {
	now := k.functions.current.Load()
	s := execute.FunctionStatistics{Libraries: len(now.list), Functions: now.count}
	for _, l := range now.list {
		s.Sources += int64(len(l.source))
		s.Interpreters += l.used.Load()
		for _, f := range l.functions {
			s.Sources += int64(len(f.name) + len(f.description))
		}
	}
	return s
}
