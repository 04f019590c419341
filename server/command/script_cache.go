package command

import (
	"bytes"
	"container/list"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"strings"
	"sync"
	"sync/atomic"

	"kedis/internal/quotes"
	"kedis/server/script"
)

// scripts are the scripts that a server knows, by their SHA-1. Those that SCRIPT LOAD brought stay
// until SCRIPT FLUSH; of those that EVAL brought, the ones that were not used for longest go when
// there are too many, as in Redis 7.4.
type scripts struct {
	pool    *script.Pool
	running longScripts
	marked  atomic.Bool // some script was found to be long, or to need whole databases
	runs    sync.Pool   // of scriptRun, which are over

	mu    sync.Mutex
	known map[string]*knownScript
	used  list.List // of those that may go, the one that was used last at the front
}

// mostEvaluated is how many scripts stay that EVAL brought.
const mostEvaluated = 500

// knownScript is a script that has been compiled once.
type knownScript struct {
	program
	text    []byte        // without the first line, if that tells what it is
	element *list.Element // nil: it stays
}

// scriptFlags are what a script says of itself in its first line, if it begins with #!, or a
// function when it is registered.
type scriptFlags struct {
	declared   bool // it does
	noWrites   bool
	allowStale bool
}

// of are the flags of a command that runs it. Who says nothing may do what the command may.
func (f *scriptFlags) of(command Flags) Flags {
	if !f.declared {
		return command
	}
	command &^= MayReplicate | Stale
	if !f.noWrites {
		command |= Write | DenyOOM
	}
	if f.allowStale {
		command |= Stale
	}
	return command
}

func (s *scripts) init(o script.Options) {
	s.known = map[string]*knownScript{}
	s.pool = script.NewPool(o)
}

// shaLength is the length of a SHA-1 in hexadecimal digits.
const shaLength = 2 * sha1.Size

// find returns a script by its SHA-1 in any case; nil if it isn't known.
func (s *scripts) find(sha []byte) *knownScript {
	if len(sha) != shaLength {
		return nil
	}
	var lower [shaLength]byte
	for i, c := range sha {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		lower[i] = c
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.touch(lower[:])
}

// touch is find for digits in lower case, under the lock.
func (s *scripts) touch(sha []byte) *knownScript {
	known := s.known[string(sha)]
	if known != nil && known.element != nil {
		s.used.MoveToFront(known.element)
	}
	return known
}

// peek returns the script that a request is about to run, if it is known and something may be known
// of it.
func (s *scripts) peek(c *Invocation) *knownScript {
	if !s.marked.Load() {
		return nil
	}
	if name := c.Command.Name; name == "evalsha" || name == "evalsha_ro" {
		return s.find(c.Args[1])
	}
	digits := scriptDigest(c.Args[1])
	return s.find(digits[:])
}

// declared is what a script, which is given by its text or by its SHA-1, says of itself.
func (s *scripts) declared(script []byte, byText bool) (flags scriptFlags) {
	if !byText {
		if known := s.find(script); known != nil {
			flags = known.flags
		}
		return flags
	}
	if !bytes.HasPrefix(script, []byte("#!")) {
		return flags
	}
	flags, _, err := parseShebang(string(script))
	if err != nil {
		return scriptFlags{} // it doesn't run
	}
	return flags
}

func scriptDigest(text []byte) (digits [shaLength]byte) {
	sum := sha1.Sum(text)
	hex.Encode(digits[:], sum[:])
	return digits
}

// evaluated returns the script that has a text. It is known from now on, for some time.
func (s *scripts) evaluated(text []byte) (*knownScript, error) { return s.take(text, false) }

// load returns the script that has a text. It is known from now on.
func (s *scripts) load(text []byte) (*knownScript, error) { return s.take(text, true) }

func (s *scripts) take(text []byte, stays bool) (*knownScript, error) {
	digits := scriptDigest(text)
	s.mu.Lock()
	known := s.keep(digits[:], stays)
	s.mu.Unlock()
	if known != nil {
		return known, nil
	}
	known, err := s.prepare(string(digits[:]), text)
	if err != nil {
		return nil, err
	}
	return s.put(known, stays), nil
}

// keep is touch for a script that stays from now on, if it is to.
func (s *scripts) keep(sha []byte, stays bool) *knownScript {
	known := s.touch(sha)
	if known != nil && stays && known.element != nil {
		s.used.Remove(known.element)
		known.element = nil
	}
	return known
}

// put makes a script known. It returns the one that came meanwhile, if there is one.
func (s *scripts) put(known *knownScript, stays bool) *knownScript {
	s.mu.Lock()
	defer s.mu.Unlock()
	if other := s.keep([]byte(known.name), stays); other != nil {
		return other
	}
	s.known[known.name] = known
	if !stays {
		known.element = s.used.PushFront(known)
		for s.used.Len() > mostEvaluated {
			oldest := s.used.Remove(s.used.Back()).(*knownScript)
			delete(s.known, oldest.name)
		}
	}
	return known
}

// prepare compiles a script, to see whether it can be.
func (s *scripts) prepare(sha string, text []byte) (*knownScript, error) {
	flags, body, err := parseShebang(string(text))
	if err != nil {
		return nil, err
	}
	known := &knownScript{program: program{name: sha, flags: flags}, text: []byte(body)}
	state, err := s.pool.Get()
	if err != nil {
		return nil, err
	}
	defer s.pool.Put(state)
	if _, err := state.Compile(sha, known.text); err != nil {
		var wrong script.CompileError
		if errors.As(err, &wrong) {
			return nil, compileError(err)
		}
		return nil, err
	}
	return known, nil
}

// flush forgets all scripts.
func (s *scripts) flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.known)
	s.used.Init()
	s.pool.Forget()
}

// count returns how many scripts are known, and how many bytes their texts take.
func (s *scripts) count() (number int, bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, known := range s.known {
		bytes += int64(len(known.text)) + shaLength
	}
	return len(s.known), bytes
}

// stop ends the scripts that run.
func (s *scripts) stop() { s.running.stop() }

// knownFlags are the flags that a script may have. Those of clusters and of a bound on memory mean
// nothing here.
var knownFlags = map[string]bool{"no-writes": true, "allow-oom": true, "allow-stale": true, "no-cluster": true, "allow-cross-slot-keys": true}

// parseShebang reads a script's first line, if it tells what the script is. What is left begins
// with the end of that line, so that lines have their numbers.
func parseShebang(text string) (flags scriptFlags, body string, err error) {
	if !strings.HasPrefix(text, "#!") {
		return flags, text, nil
	}
	line, _, found := strings.Cut(text, "\n")
	if !found || strings.IndexByte(line, 0) >= 0 { // C's text ends at a zero byte
		return flags, "", Error("ERR Invalid script shebang")
	}
	words, ok := quotes.Split(nil, []byte(line))
	if !ok {
		return flags, "", Error("ERR Invalid engine in script shebang")
	}
	if string(words[0]) != "#!lua" {
		return flags, "", Errorf("ERR Unexpected engine in script shebang: %s", words[0])
	}
	flags.declared = true
	for _, word := range words[1:] {
		names, isFlags := strings.CutPrefix(string(word), "flags=")
		if !isFlags {
			return flags, "", Errorf("ERR Unknown lua shebang option: %s", word)
		}
		for name := range strings.SplitSeq(names, ",") {
			if !knownFlags[name] && names != "" {
				return flags, "", Errorf("ERR Unexpected flag in script shebang: %s", name)
			}
			flags.noWrites = flags.noWrites || name == "no-writes"
			flags.allowStale = flags.allowStale || name == "allow-stale"
		}
	}
	return flags, text[len(line):], nil
}
