package script

// #include "interpreter.h"
import "C"

import (
	"crypto/sha1"
	"encoding/hex"
	"runtime/cgo"
	"unsafe"
)

// What C calls. No panic may cross C: Run and Load pass it on.

func stateOf(handle C.uintptr_t) *State { return cgo.Handle(handle).Value().(*State) }

// catch keeps what the host has panicked with, and has the script end.
func (s *State) catch() {
	if p := recover(); p != nil {
		s.panicked, s.c.ending = p, C.END_TAKEN_BACK
	}
}

//export scriptCall
func scriptCall(handle C.uintptr_t, words *C.char, length C.size_t, count C.int) (ok C.int) {
	s := stateOf(handle)
	defer s.catch()
	reply, going := s.host.Call(s.words(words, length, count), int(s.c.protocol))
	if !going {
		return 0
	}
	if !s.setInput(reply) {
		s.setInput(noRoom) // C finds nothing if there is no memory for that either
	}
	return 1
}

//export scriptMay
func scriptMay(handle C.uintptr_t, words *C.char, length C.size_t, count C.int) C.int {
	s := stateOf(handle)
	defer s.catch()
	switch may, known := s.host.May(s.words(words, length, count)); {
	case !known:
		return -1
	case may:
		return 1
	}
	return 0
}

//export scriptLog
func scriptLog(handle C.uintptr_t, level C.int, text *C.char, length C.size_t) {
	s := stateOf(handle)
	defer s.catch()
	s.host.Log(int(level), C.GoStringN(text, C.int(length)))
}

//export scriptSHA1
func scriptSHA1(text *C.char, length C.size_t, digits *C.char) {
	sum := sha1.Sum(unsafe.Slice((*byte)(unsafe.Pointer(text)), int(length)))
	hex.Encode(unsafe.Slice((*byte)(unsafe.Pointer(digits)), 2*len(sum)), sum[:])
}
