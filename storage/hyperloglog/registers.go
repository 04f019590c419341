package hyperloglog

// Registers holds all registers, one byte each: for every index the highest rank of its elements,
// and 0 where there were none.
type Registers [RegisterCount]uint8

// RegistersOf returns the registers of value, as PFDEBUG GETREG lists them.
func RegistersOf(value []byte) (*Registers, error) {
	registers := new(Registers)
	if err := registers.merge(value); err != nil {
		return nil, err
	}
	return registers, nil
}

// merge raises each register to that of value.
func (r *Registers) merge(value []byte) error {
	if err := Validate(value); err != nil {
		return err
	}
	if encodingOf(value) == Sparse {
		return r.mergeSparse(value[HeaderSize:])
	}
	r.mergeDense(value[HeaderSize:])
	return nil
}

func (r *Registers) mergeDense(dense []byte) {
	for i := 0; i < RegisterCount; i += 4 {
		a, b, c, d := unpackDense(dense[i/4*3:])
		r[i] = max(r[i], a)
		r[i+1] = max(r[i+1], b)
		r[i+2] = max(r[i+2], c)
		r[i+3] = max(r[i+3], d)
	}
}

func (r *Registers) mergeSparse(opcodes []byte) error {
	register := 0
	for len(opcodes) > 0 {
		op, ok := decodeOpcode(opcodes)
		if !ok || op.run > RegisterCount-register {
			return ErrCorrupt
		}
		if op.rank > 0 {
			for i := range op.run {
				r[register+i] = max(r[register+i], op.rank)
			}
		}
		register += op.run
		opcodes = opcodes[op.size:]
	}
	if register != RegisterCount {
		return ErrCorrupt
	}
	return nil
}

// unpackDense returns four registers from three bytes:
//
//	bit of the byte  7 6 5 4 3 2 1 0
//	first byte       b b a a a a a a
//	second byte      c c c c b b b b
//	third byte       d d d d d d c c
func unpackDense(packed []byte) (a, b, c, d uint8) {
	x, y, z := packed[0], packed[1], packed[2]
	return x & maxRegister, (x>>6 | y<<2) & maxRegister, (y>>4 | z<<4) & maxRegister, z >> 2
}

func denseRegister(dense []byte, register int) uint8 {
	at, shift := register*registerBits/8, register*registerBits%8
	bits := uint16(dense[at]) >> shift
	if shift > 8-registerBits {
		bits |= uint16(dense[at+1]) << (8 - shift)
	}
	return uint8(bits & maxRegister)
}

func setDenseRegister(dense []byte, register int, rank uint8) {
	at, shift := register*registerBits/8, register*registerBits%8
	mask, bits := uint16(maxRegister)<<shift, uint16(rank)<<shift
	dense[at] = dense[at]&^uint8(mask) | uint8(bits)
	if shift > 8-registerBits {
		dense[at+1] = dense[at+1]&^uint8(mask>>8) | uint8(bits>>8)
	}
}
