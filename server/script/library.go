package script

// #include "interpreter.h"
import "C"

import (
	"encoding/binary"
	"time"
	"unsafe"
)

// Function is what a library says of one of its functions.
type Function struct {
	Name        string
	Description string
	Described   bool
	Flags       FunctionFlags
	Keeps       bool // something from one run to the next: it writes variables of its library, or refers to tables of it
}

// FunctionFlags are what a function says that it does, or may do.
type FunctionFlags uint32

// The flags, in the order in which Redis shows them.
const (
	NoWrites FunctionFlags = 1 << iota
	AllowOOM
	AllowStale
	NoCluster
	AllowCrossSlotKeys
)

// FunctionFlagNames are their names, in the same order.
var FunctionFlagNames = []string{"no-writes", "allow-oom", "allow-stale", "no-cluster", "allow-cross-slot-keys"}

// RegisterError is what went wrong while the source of a library was run.
type RegisterError string

func (e RegisterError) Error() string { return string(e) }

// ErrLoadLate is returned by Load for a source that runs for too long.
const ErrLoadLate = RegisterError("ERR FUNCTION LOAD timeout")

// library is what a state has made of one.
type library struct {
	functions []C.int  // references
	literals  C.size_t // the longest text that its source has or makes, if it is long
}

// Loaded reports whether a library is loaded.
func (s *State) Loaded(library uint64) bool {
	_, loaded := s.loaded[library]
	return loaded
}

// Load runs the source of a library, and makes the functions that it registers ready to run under
// the number of the library. within is how long that may take; 0 is as long as it likes. Errors:
// CompileError, RegisterError.
func (s *State) Load(host Host, number uint64, source []byte, within time.Duration) ([]Function, error) {
	s.host = host
	defer s.leave()
	var compiled C.int
	end := End(C.interpreter_load(s.c, chars(source), C.size_t(len(source)), C.int64_t(within), &compiled))
	functions, references := s.registered()
	switch {
	case end == Done:
		s.loaded[number] = library{references, s.c.largest}
		return functions, nil
	case compiled == 0:
		return nil, CompileError(s.output())
	}
	for _, reference := range references {
		C.interpreter_forget(s.c, reference)
	}
	if end != Failed {
		return nil, ErrLoadLate
	}
	return nil, RegisterError(s.output())
}

// registered reads what functions.c has left of the source of a library.
func (s *State) registered() (functions []Function, references []C.int) {
	words := C.GoBytes(unsafe.Pointer(s.c.registered.data), C.int(s.c.registered.length))
	next := func() []byte {
		end := 4 + int(binary.NativeEndian.Uint32(words))
		word := words[4:end]
		words = words[end:]
		return word
	}
	for len(words) > 0 {
		f := Function{Name: string(next()), Description: string(next())}
		last := next()
		f.Flags = FunctionFlags(binary.NativeEndian.Uint32(last))
		f.Described, f.Keeps = last[8] != 0, last[9] != 0
		functions = append(functions, f)
		references = append(references, C.int(binary.NativeEndian.Uint32(last[4:])))
	}
	return functions, references
}

// Snapshot notes what a function of a library that was loaded finds of what it keeps, for Restore,
// until it is called again. It returns false if that is too much.
func (s *State) Snapshot(library uint64, function int) bool {
	return C.interpreter_snapshot(s.c, s.loaded[library].functions[function]) != 0
}

// Restore has the function find again what it found when Snapshot was called. It returns false if
// there is no memory for that.
func (s *State) Restore() bool { return C.interpreter_restore(s.c) != 0 }

// Unload forgets a library.
func (s *State) Unload(library uint64) {
	for _, reference := range s.loaded[library].functions {
		C.interpreter_forget(s.c, reference)
	}
	delete(s.loaded, library)
}
