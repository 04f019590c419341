// Package script runs Lua: interpreters, their sandbox, conversion between replies and values of
// Lua, and the libraries that Redis's scripts have. It knows no command: what a script calls goes
// to its Host. It imports the standard library only.
//
// The interpreter is PUC's Lua 5.1, a library of the system (docs/scripts.md says why). The C files
// around it are the sandbox:
//
//	interpreter.c   a state, its memory, its time, its globals; how a run begins and ends
//	base.c          basic functions that respect protected tables and the end of a run
//	strings.c       find, match, gmatch, gsub and rep, which can be interrupted
//	tables.c        insert, remove, concat and sort, likewise
//	random.c        math.random with Redis's generator
//	convert.c       RESP to Lua and back
//	redis.c         the table redis
//	functions.c     libraries of functions; upvalues.c finds those that keep state, snapshot.c takes it back
//	json.c, messagepack.c, struct.c, bit.c   the libraries
//
// A crossing between Go and C costs about as much as a lookup, so there is one for a run and one
// for each call that it makes. Words cross in one buffer, one behind the other, each behind its
// length (uint32, in the processor's order); replies cross as RESP.
package script

/*
#cgo CFLAGS: -I/usr/include/lua5.1 -std=gnu11 -O2 -Wall
#cgo LDFLAGS: -l:liblua5.1.a -lm -ldl
#include <stdlib.h>
#include "interpreter.h"
*/
import "C"

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"runtime/cgo"
	"time"
	"unsafe"
)

// Host is what a running script works with.
type Host interface {
	// Room returns memory for a request: for all bytes of it, and for its words.
	Room(bytes, words int) ([]byte, [][]byte)
	// Call runs a request, whose words stand in memory of Room, and returns the reply in RESP of a
	// protocol, which is valid until the next call. False ends the script, whatever it has around
	// the call to catch errors.
	Call(words [][]byte, protocol int) (reply []byte, ok bool)
	// May reports whether the script's user may run a request; known is false if it isn't one.
	May(words [][]byte) (may, known bool)
	// Log writes to the server's log.
	Log(level int, message string)
}

// State is an interpreter. It is used by one goroutine at a time.
type State struct {
	c        *C.struct_interpreter
	handle   cgo.Handle
	compiled map[string]Script  // by SHA
	loaded   map[uint64]library // by their numbers
	epoch    uint64             // see Pool

	host     Host
	panicked any // what the host has panicked with

	parameters []byte // of the run
}

// Script is one that a state has compiled; it holds for that state only.
type Script struct {
	reference C.int
	literals  C.size_t // the longest one, if it is long
}

// Options are what the states of a server have in common.
type Options struct {
	Memory  int64  // bytes that a script may use
	Version string // of Redis, as scripts are told
	Number  int    // the version as a number
}

var errNoMemory = errors.New("script: no memory for an interpreter")

// Open makes a state.
func Open(o Options) (*State, error) {
	s := &State{compiled: map[string]Script{}, loaded: map[uint64]library{}}
	s.handle = cgo.NewHandle(s)
	version := C.CString(o.Version)
	defer C.free(unsafe.Pointer(version))
	if s.c = C.interpreter_open(C.uintptr_t(s.handle), C.size_t(o.Memory), version, C.int(o.Number), C.uint64_t(rand.Uint64())); s.c == nil {
		s.handle.Delete()
		return nil, errNoMemory
	}
	return s, nil
}

// Close frees the state's memory.
func (s *State) Close() {
	C.interpreter_close(s.c)
	s.handle.Delete()
}

// Used is how many bytes the state's values take.
func (s *State) Used() int64 { return int64(s.c.used) }

// CompileError is what is wrong with a script's text.
type CompileError string

func (e CompileError) Error() string { return string(e) }

// Compiled reports whether a script is ready to run.
func (s *State) Compiled(sha string) bool {
	_, compiled := s.compiled[sha]
	return compiled
}

// Compile makes a script ready to run, if it isn't.
func (s *State) Compile(sha string, source []byte) (Script, error) {
	if script, known := s.compiled[sha]; known {
		return script, nil
	}
	var reference C.int
	if C.interpreter_compile(s.c, chars(source), C.size_t(len(source)), &reference) != C.END_DONE {
		return Script{}, CompileError(s.output())
	}
	script := Script{reference, min(s.c.largest, C.size_t(len(source)))}
	s.compiled[sha] = script
	return script, nil
}

// forgetAll forgets the scripts and the libraries.
func (s *State) forgetAll() {
	for sha, script := range s.compiled {
		C.interpreter_forget(s.c, script.reference)
		delete(s.compiled, sha)
	}
	for library := range s.loaded {
		s.Unload(library)
	}
}

// End says how a run has ended.
type End int

const (
	// Done: Result.Output is the reply.
	Done End = C.END_DONE
	// Failed: Result.Output is the error's text.
	Failed End = C.END_ERROR
	// TakenBack: the host has ended the run.
	TakenBack End = C.END_TAKEN_BACK
	// Late: the run has taken longer than it was given.
	Late End = C.END_LATE
	// Killed: somebody has called Kill.
	Killed End = C.END_KILLED
)

// Result is what a run has come to.
type Result struct {
	End    End
	Output []byte // valid until the state is used again
	Met    bool   // the error, raised or replied, is what a call was answered
	Source string // where the error was raised; "" if that isn't known
	Line   int
}

// Run is what a script is run with.
type Run struct {
	Script          Script // none: a function is run
	Library         uint64
	Function        int // its place in the library
	Keys, Arguments [][]byte
	Protocol        int           // of the client
	Within          time.Duration // of the processor; 0: it may take as long as it likes
}

// Run runs a script that was compiled, or a function of a library that was loaded. What the host
// panics with goes on to the caller.
func (s *State) Run(host Host, r *Run) Result {
	s.host = host
	s.parameters = appendWords(appendWords(s.parameters[:0], r.Keys), r.Arguments)
	function, registered, literals := r.Script.reference, C.int(0), r.Script.literals
	if function == 0 {
		from := s.loaded[r.Library]
		function, registered, literals = from.functions[r.Function], 1, from.literals
	}
	end := C.interpreter_run(s.c, function, registered, literals, chars(s.parameters), C.size_t(len(r.Keys)),
		C.size_t(len(r.Arguments)), C.int(r.Protocol), C.int64_t(r.Within))
	if cap(s.parameters) > retainedParameters {
		s.parameters = nil
	}
	s.leave()
	result := Result{End: End(end), Output: s.output(), Met: s.c.met != 0}
	if (result.End == Failed || result.End == Killed) && s.c.line > 0 {
		result.Line, result.Source = int(s.c.line), C.GoString(&s.c.source[0])
	}
	return result
}

// leave lets go of the host. What that has panicked with goes on to the caller.
func (s *State) leave() {
	s.host = nil
	if p := s.panicked; p != nil {
		s.panicked = nil
		panic(p)
	}
}

// Kill ends the run. It is called from another goroutine, while Run is under way: a call that comes
// later ends the next one.
func (s *State) Kill() { C.interpreter_kill(s.c) }

// Spare takes back a Kill that came after the run which it was for.
func (s *State) Spare() { C.interpreter_spare(s.c) }

const retainedParameters = 64 << 10

func appendWords(dst []byte, words [][]byte) []byte {
	for _, word := range words {
		dst = binary.NativeEndian.AppendUint32(dst, uint32(len(word)))
		dst = append(dst, word...)
	}
	return dst
}

// output is what C has left of a run.
func (s *State) output() []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(s.c.output.data)), int(s.c.output.length))
}

func chars(b []byte) *C.char { return (*C.char)(unsafe.Pointer(unsafe.SliceData(b))) }

// words copies the words of a call, which C holds only until it returns.
func (s *State) words(text *C.char, length C.size_t, count C.int) [][]byte {
	from, list := s.host.Room(int(length), int(count))
	copy(from, unsafe.Slice((*byte)(unsafe.Pointer(text)), int(length)))
	for i := range list {
		end := 4 + int(binary.NativeEndian.Uint32(from))
		list[i] = from[4:end:end]
		from = from[end:]
	}
	return list
}

// setInput gives C a reply.
func (s *State) setInput(reply []byte) bool {
	input := &s.c.input
	input.length = 0
	if int(input.capacity) < len(reply) && C.interpreter_reserve(s.c, input, C.size_t(len(reply))) == 0 {
		return false
	}
	input.length = C.size_t(copy(unsafe.Slice((*byte)(unsafe.Pointer(input.data)), int(input.capacity)), reply))
	return true
}

// noRoom is what a script gets instead of a reply that is too long for it.
var noRoom = []byte("-ERR not enough memory for the reply\r\n")
