package hyperloglog

import "strconv"

// The opcodes of a sparse value, each a run of equal registers:
//
//	00nnnnnn           n+1 registers of 0, up to 64
//	01nnnnnn nnnnnnnn  n+1 registers of 0, up to 16384; the first byte is the high one
//	1vvvvvnn           n+1 registers of v+1: up to 4 registers, of 1 to 32
//
// Together they cover all registers, in order.
const (
	longZerosBit = 1 << 6
	ranksBit     = 1 << 7

	maxZeros    = 1 << 6
	maxRanks    = 1 << 2
	maxSparse   = 1 << 5 // the highest rank that an opcode holds
	mergeWindow = 5      // how many opcodes are looked at for runs to join after a change
)

type opcode struct {
	size int // in bytes
	run  int // in registers
	rank uint8
}

// decodeOpcode returns the first opcode, and false when there is none, or only half of one.
func decodeOpcode(code []byte) (opcode, bool) {
	switch {
	case len(code) == 0:
		return opcode{}, false
	case code[0]&ranksBit != 0:
		return opcode{size: 1, run: int(code[0]%maxRanks) + 1, rank: code[0]>>2%maxSparse + 1}, true
	case code[0]&longZerosBit == 0:
		return opcode{size: 1, run: int(code[0]) + 1}, true
	case len(code) == 1:
		return opcode{}, false
	}
	return opcode{size: 2, run: int(code[0]&^longZerosBit)<<8 + int(code[1]) + 1}, true
}

// appendZeros appends the opcode for a run of zero registers, of which there may be none.
func appendZeros(dst []byte, run int) []byte {
	switch {
	case run == 0:
		return dst
	case run <= maxZeros:
		return append(dst, byte(run-1))
	}
	return append(dst, longZerosBit|byte((run-1)>>8), byte(run-1))
}

// appendRanks appends the opcode for a run of registers of one rank, of which there may be none.
func appendRanks(dst []byte, run int, rank uint8) []byte {
	if run == 0 {
		return dst
	}
	return append(dst, ranksBit|(rank-1)<<2|byte(run-1))
}

// appendRun appends the opcode for a run of up to 4 registers, or of any number when rank is 0.
func appendRun(dst []byte, run int, rank uint8) []byte {
	if rank == 0 {
		return appendZeros(dst, run)
	}
	return appendRanks(dst, run, rank)
}

// Opcodes appends the opcodes of a sparse value to dst as PFDEBUG DECODE shows them: z and Z for
// zeros, v for ranks.
func Opcodes(dst, value []byte) ([]byte, error) {
	if err := Validate(value); err != nil {
		return nil, err
	}
	if encodingOf(value) != Sparse {
		return nil, ErrNotSparse
	}
	start := len(dst)
	for code := value[HeaderSize:]; len(code) > 0; {
		op, ok := decodeOpcode(code)
		if !ok {
			return nil, ErrCorrupt
		}
		if len(dst) > start {
			dst = append(dst, ' ')
		}
		dst = op.appendText(dst)
		code = code[op.size:]
	}
	return dst, nil
}

func (o opcode) appendText(dst []byte) []byte {
	switch {
	case o.rank > 0:
		dst = append(dst, "v:"...)
		dst = strconv.AppendUint(dst, uint64(o.rank), 10)
		dst = append(dst, ',')
	case o.size == 2:
		dst = append(dst, "Z:"...)
	default:
		dst = append(dst, "z:"...)
	}
	return strconv.AppendInt(dst, int64(o.run), 10)
}

// A mark is an opcode's offset in the opcodes of a sparse value, and the first register that it
// covers.
type mark struct {
	offset, register int
}

// find returns the opcode that covers a register, where it stands, and where the one before it
// stands (the same place when it is the first).
func (s *sketch) find(register int) (op opcode, at, previous mark, err error) {
	if register < s.reached {
		s.resume = mark{}
	}
	s.reached = register
	opcodes := s.value[HeaderSize:]
	at, previous = s.resume, s.resume
	for {
		var ok bool
		if op, ok = decodeOpcode(opcodes[at.offset:]); !ok {
			return op, at, previous, ErrCorrupt
		}
		if register < at.register+op.run {
			return op, at, previous, nil
		}
		// A joined run has at most maxRanks registers. So an opcode that starts this far back never
		// comes to cover the register, and nothing is ever joined to its left.
		if at.register+maxRanks <= register {
			s.resume = at
		}
		previous = at
		at = mark{at.offset + op.size, at.register + op.run}
	}
}

// raiseSparse is raise for a sparse value: the opcode that covers the register becomes up to three.
// Neighbours are joined exactly where Redis joins them, for the bytes to be the same.
func (s *sketch) raiseSparse(register int, rank uint8) error {
	if rank > maxSparse {
		return s.raisePromoted(register, rank)
	}
	op, at, previous, err := s.find(register)
	if err != nil {
		return err
	}
	if rank <= op.rank {
		return nil
	}
	var buffer [5]byte
	replacement := appendRun(buffer[:0], register-at.register, op.rank)
	replacement = appendRanks(replacement, 1, rank)
	replacement = appendRun(replacement, at.register+op.run-1-register, op.rank)
	growth := len(replacement) - op.size
	if growth > 0 && len(s.value)+growth > s.sparseMaxBytes {
		return s.raisePromoted(register, rank)
	}
	s.own()
	s.value = replace(s.value, HeaderSize+at.offset, op.size, replacement)
	s.joinRuns(previous.offset)
	return nil
}

// raisePromoted raises a register of a sparse value that has to become dense for it.
func (s *sketch) raisePromoted(register int, rank uint8) error {
	if err := s.promote(); err != nil {
		return err
	}
	return s.raise(register, rank)
}

// joinRuns joins adjacent opcodes of one rank among the few that start at an offset.
func (s *sketch) joinRuns(offset int) {
	offset += HeaderSize
	for range mergeWindow {
		op, ok := decodeOpcode(s.value[offset:])
		if !ok {
			return
		}
		next, ok := decodeOpcode(s.value[offset+op.size:])
		if !ok {
			return
		}
		run := op.run + next.run
		if op.rank == 0 || op.rank != next.rank || run > maxRanks {
			offset += op.size
			continue
		}
		var joined [1]byte
		s.value = replace(s.value, offset, 2, appendRanks(joined[:0], run, op.rank))
	}
}

// replace puts other bytes in the place of size bytes at an offset, moving what follows.
func replace(value []byte, offset, size int, replacement []byte) []byte {
	end := len(value)
	if growth := len(replacement) - size; growth > 0 {
		value = append(value, replacement[:growth]...)
	}
	copy(value[offset+len(replacement):], value[offset+size:end])
	copy(value[offset:], replacement)
	return value[:end+len(replacement)-size]
}
