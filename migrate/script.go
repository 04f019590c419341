package migrate

import (
	"bytes"
	"cmp"
	"container/list"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
)

// scripts are the bodies of scripts that a stream has, by their SHA-1. A Redis up to 4 sends a
// script and not what it does, the body only once; by then the command that has it may have gone
// to another master, not have been chosen, or still be under way in another lane. When there are
// too many, those are forgotten that weren't used for the longest time.
type scripts struct {
	bodies map[string]*list.Element // of used
	used   list.List                // of scripts, the one that was used last in front
	bytes  int                      // of bodies
	most   int                      // how many there may be; 0 is mostScripts
}

type script struct {
	name string
	body []byte
}

// mostScripts is how many bytes of bodies are kept: a source has its replicas remember no more than
// 10,000 scripts.
const mostScripts = 256 << 20

// errNoBody says that a stream has a script whose body came before it was read, or was forgotten.
// Only behind a new snapshot does a source send bodies again.
var errNoBody = errors.New("the stream has a script by its SHA-1 alone, and was not read where it has the body")

// note keeps a body.
func (s *scripts) note(body []byte) {
	sum := sha1.Sum(body)
	name := hex.EncodeToString(sum[:])
	if known := s.bodies[name]; known != nil {
		s.used.MoveToFront(known)
		return
	}
	if s.bodies == nil {
		s.bodies = map[string]*list.Element{}
	}
	s.bodies[name] = s.used.PushFront(script{name, bytes.Clone(body)})
	s.bytes += len(body)
	for s.bytes > cmp.Or(s.most, mostScripts) && s.used.Len() > 1 {
		oldest := s.used.Remove(s.used.Back()).(script)
		delete(s.bodies, oldest.name)
		s.bytes -= len(oldest.body)
	}
}

// whole is an EVALSHA as the EVAL that it stands for.
func (s *scripts) whole(args [][]byte) ([][]byte, error) {
	known := s.bodies[string(bytes.ToLower(args[1]))]
	if known == nil {
		return nil, fmt.Errorf("%w: %s", errNoBody, brief(args))
	}
	s.used.MoveToFront(known)
	return append([][]byte{[]byte("EVAL"), known.Value.(script).body}, args[2:]...), nil
}
