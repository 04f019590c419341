// Package hyperloglog estimates how many distinct elements a set has had, in the bytes in which
// Redis 7.0 keeps such an estimate: the same commands leave the same string, so values move between
// the two servers by GET and SET, DUMP and RESTORE or replication.
//
// A value is a header and 16384 registers of 6 bits each, in one of two encodings:
//
//	"HYLL" | encoding:1 | unused:3 | cached count:8 | registers
//
// The cached count is little endian; the top bit of its last byte says that it is out of date. An
// encoding of 0 is dense: all registers in 12288 bytes, six bits each from the lowest bit of the
// first byte upwards. An encoding of 1 is sparse: opcodes for runs of equal registers, which
// sparse.go draws.
//
// The package works on plain bytes and imports only the standard library. It knows neither keys nor
// storage nor commands. No function writes to a value that it was given: one that changes something
// returns a new value, in the memory of its dst argument where that is large enough (dst may be nil
// and must not overlap the input).
package hyperloglog

import (
	"encoding/binary"
	"errors"
)

const (
	magic = "HYLL"
	// HeaderSize is how many bytes of a value are before the registers.
	HeaderSize = 16
	// staleCount is the bit of the cached count that says that it is out of date.
	staleCount = 1 << 63

	// RegisterCount is the number of registers; the low indexBits bits of an element's hash choose
	// one.
	RegisterCount = 1 << indexBits
	indexBits     = 14
	registerBits  = 6
	maxRegister   = 1<<registerBits - 1

	denseSize = HeaderSize + RegisterCount*registerBits/8

	// MostBytes is the longest that a value can be that isn't corrupt: sparse, with an opcode of
	// two bytes for each register.
	MostBytes = HeaderSize + 2*RegisterCount
)

// Encoding is how a value holds its registers.
type Encoding byte

const (
	Dense  Encoding = 0
	Sparse Encoding = 1
)

// String returns the name that PFDEBUG ENCODING answers.
func (e Encoding) String() string {
	if e == Dense {
		return "dense"
	}
	return "sparse"
}

var (
	// ErrInvalid says that a string isn't a HyperLogLog. Redis's reply is
	// "WRONGTYPE Key is not a valid HyperLogLog string value."
	ErrInvalid = errors.New("hyperloglog: not a HyperLogLog")
	// ErrCorrupt says that the opcodes of a sparse value don't cover exactly the registers.
	// Redis's reply is "INVALIDOBJ Corrupted HLL object detected".
	ErrCorrupt = errors.New("hyperloglog: corrupt opcodes")
	// ErrNotSparse is Opcodes's answer to a dense value. Redis's reply is "ERR HLL encoding is not
	// sparse".
	ErrNotSparse = errors.New("hyperloglog: encoding is not sparse")
)

// New returns the value for no elements: sparse, its cached count out of date, as PFADD without
// elements leaves it.
func New() []byte {
	value := make([]byte, HeaderSize, HeaderSize+8)
	copy(value, magic)
	value[len(magic)] = byte(Sparse)
	invalidate(value)
	return appendZeros(value, RegisterCount)
}

// Validate returns ErrInvalid unless value has the header and the size of a HyperLogLog. The
// opcodes of a sparse value are not looked at. All other functions validate by themselves.
func Validate(value []byte) error { return ValidateHeader(value, len(value)) }

// ValidateHeader is Validate for a value of a length, of which there is only the header, or as much
// as it has of one.
func ValidateHeader(header []byte, length int) error {
	if len(header) < HeaderSize || string(header[:len(magic)]) != magic {
		return ErrInvalid
	}
	switch encodingOf(header) {
	case Dense:
		if length != denseSize {
			return ErrInvalid
		}
	case Sparse:
	default:
		return ErrInvalid
	}
	return nil
}

// EncodingOf returns how value holds its registers.
func EncodingOf(value []byte) (Encoding, error) {
	return encodingOf(value), Validate(value)
}

func encodingOf(value []byte) Encoding {
	if len(value) <= len(magic) {
		return Dense
	}
	return Encoding(value[len(magic)])
}

func cachedCount(value []byte) uint64 {
	return binary.LittleEndian.Uint64(value[8:HeaderSize])
}

func invalidate(value []byte) {
	value[HeaderSize-1] |= staleCount >> 56
}

// Add returns value with the elements in it, and whether any of them changed a register. Without a
// change it returns value itself. A sparse value becomes dense when it would exceed sparseMaxBytes
// bytes, header included (hll-sparse-max-bytes), or when a register exceeds 32.
func Add(dst, value []byte, elements [][]byte, sparseMaxBytes int) ([]byte, bool, error) {
	if err := Validate(value); err != nil {
		return nil, false, err
	}
	s := sketch{value: value, spare: dst, sparseMaxBytes: sparseMaxBytes}
	for _, element := range elements {
		register, rank := locate(element)
		if err := s.raise(register, rank); err != nil {
			return nil, false, err
		}
	}
	if s.owned {
		invalidate(s.value)
	}
	return s.value, s.owned, nil
}

// Count estimates the number of distinct elements of value. When the cached count is out of date,
// stale is true, and the caller should store what WithCount returns, as Redis's PFCOUNT does.
func Count(value []byte) (count uint64, stale bool, err error) {
	if err := Validate(value); err != nil {
		return 0, false, err
	}
	if cached := cachedCount(value); cached&staleCount == 0 {
		return cached, false, nil
	}
	var h histogram
	if encodingOf(value) == Dense {
		h.addDense(value[HeaderSize:])
	} else if err := h.addSparse(value[HeaderSize:]); err != nil {
		return 0, true, err
	}
	return h.estimate(), true, nil
}

// WithCount returns a valid value with count as its cached count.
func WithCount(dst, value []byte, count uint64) []byte {
	dst = append(dst[:0], value...)
	binary.LittleEndian.PutUint64(dst[8:HeaderSize], count)
	return dst
}

// A Union is what several values have seen together.
type Union struct {
	registers Registers
	dense     bool // one of them is
}

// Add adds what a value has seen.
func (u *Union) Add(value []byte) error {
	u.dense = u.dense || encodingOf(value) == Dense
	return u.registers.merge(value)
}

// Count estimates the number of distinct elements.
func (u *Union) Count() uint64 {
	var h histogram
	for _, rank := range u.registers {
		h[rank]++
	}
	return h.estimate()
}

// MergeInto returns target with the elements of the union in it, which has target's own. The result
// is dense when any of the union's values is, or when it has to be as Add tells.
func (u *Union) MergeInto(dst, target []byte, sparseMaxBytes int) ([]byte, error) {
	s := sketch{value: target, spare: dst, sparseMaxBytes: sparseMaxBytes}
	if u.dense && encodingOf(target) == Sparse {
		if err := s.promote(); err != nil {
			return nil, err
		}
	}
	for register, rank := range u.registers {
		if rank == 0 {
			continue
		}
		if err := s.raise(register, rank); err != nil {
			return nil, err
		}
	}
	s.own()
	invalidate(s.value)
	return s.value, nil
}

// ToDense returns value in the dense encoding, and value itself when it already is. The cached
// count stays as it is. It serves PFDEBUG TODENSE and GETREG, which convert the key.
func ToDense(dst, value []byte) ([]byte, error) {
	if err := Validate(value); err != nil {
		return nil, err
	}
	if encodingOf(value) == Dense {
		return value, nil
	}
	s := sketch{value: value, spare: dst}
	err := s.promote()
	return s.value, err
}

// A sketch is a value on its way to a new one. value is the caller's, and not written to, until own
// or promote has replaced it by a copy.
type sketch struct {
	value          []byte
	owned          bool
	spare          []byte
	sparseMaxBytes int
	// The search for a register of a sparse value starts at resume unless the register lies before
	// reached, the one of the last search. So going through the registers in order is one walk.
	resume  mark
	reached int
}

// own makes value writable.
func (s *sketch) own() {
	if !s.owned {
		s.value, s.spare, s.owned = append(s.spare[:0], s.value...), nil, true
	}
}

// raise sets a register to rank unless it is that high already.
func (s *sketch) raise(register int, rank uint8) error {
	if encodingOf(s.value) == Sparse {
		return s.raiseSparse(register, rank)
	}
	if denseRegister(s.value[HeaderSize:], register) < rank {
		s.own()
		setDenseRegister(s.value[HeaderSize:], register, rank)
	}
	return nil
}

// promote makes a sparse value dense.
func (s *sketch) promote() error {
	var registers Registers
	if err := registers.mergeSparse(s.value[HeaderSize:]); err != nil {
		return err
	}
	var dense []byte
	if cap(s.spare) >= denseSize {
		dense = s.spare[:denseSize]
		clear(dense[HeaderSize:])
	} else {
		dense = make([]byte, denseSize)
	}
	copy(dense, s.value[:HeaderSize])
	dense[len(magic)] = byte(Dense)
	for register, rank := range registers {
		if rank > 0 {
			setDenseRegister(dense[HeaderSize:], register, rank)
		}
	}
	s.value, s.spare, s.owned = dense, nil, true
	return nil
}
