package rdb

import "errors"

// ErrNotFunction is returned for a payload that holds something else than libraries of functions.
var ErrNotFunction = errors.New("rdb: the payload holds something else than functions")

// Function writes a library of functions as its source:
//
//	| opFunction2 | string |
//
// A payload of FUNCTION DUMP has one for each library, and nothing else before its footer.
func (e *Encoder) Function(source []byte) {
	e.buf = append(e.buf, opFunction2)
	e.string(source)
}

// Functions reads a payload of FUNCTION DUMP, and visits the sources, which are valid until it
// returns. Errors: ErrPayloadVersion, ErrPayloadChecksum, ErrNotFunction, those of visit, and what
// says that the bytes are wrong.
func (d *Decoder) Functions(payload []byte, visit func(source []byte) error) error {
	if err := checkPayload(payload); err != nil {
		return err
	}
	d.src.reset(payload[:len(payload)-payloadFooter])
	for d.src.pos < d.src.end {
		op, err := d.src.byte()
		if err != nil {
			return err
		}
		if op != opFunction2 {
			return ErrNotFunction
		}
		source, err := d.string(&d.first)
		if err != nil {
			return err
		}
		if err := visit(source); err != nil {
			return err
		}
	}
	return nil
}
