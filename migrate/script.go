package migrate

import (
	"bytes"
	"crypto/sha1"
	"encoding/hex"
)

// scripts are the bodies of scripts that a stream has, by their SHA-1. A Redis up to 4 sends a
// script and not what it does, the body only once; by then the command that has it may have gone
// to another master, not have been chosen, or still be under way in another lane.
type scripts struct {
	bodies map[string][]byte
	bytes  int
}

// mostScripts is how many bytes of bodies are kept. A source that makes up so many is one that
// doesn't use them twice.
const mostScripts = 256 << 20

// note keeps a body.
func (s *scripts) note(body []byte) {
	sum := sha1.Sum(body)
	name := hex.EncodeToString(sum[:])
	if _, known := s.bodies[name]; known {
		return
	}
	if s.bodies == nil || s.bytes+len(body) > mostScripts {
		s.bodies, s.bytes = map[string][]byte{}, 0
	}
	s.bodies[name], s.bytes = bytes.Clone(body), s.bytes+len(body)
}

// whole is an EVALSHA as the EVAL that it stands for.
func (s *scripts) whole(args [][]byte) ([][]byte, error) {
	body, known := s.bodies[string(bytes.ToLower(args[1]))]
	if !known {
		return nil, failure(ExitUnsupported, "the stream has a script by its SHA-1 alone, and was not read where it has the body, so everything has to be moved anew: %s", brief(args))
	}
	return append([][]byte{[]byte("EVAL"), body}, args[2:]...), nil
}
