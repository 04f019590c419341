package rdb

import (
	"encoding/binary"
	"errors"

	"kedis/storage/listpack"
)

// Format is what the reader of what is written knows of fields that expire, and of consumers of
// streams.
//
//	           file          payload               hash with fields that expire
//	Redis      REDIS0010     version 10, or 12     types 24 and 25; Redis from 7.4 on
//	                         with such a hash
//	Redis74    REDIS0012     the same              the same
//	Redis72    REDIS0011     version 10, or 11     types 4 and 16: the times are left out
//	                         of a stream
//	Redis70    REDIS0010     version 10            ErrFieldTimes
//	Untimed    REDIS0010     version 10            types 4 and 16: the times are left out
//	Valkey     VALKEY080     version 80            type 22; Valkey from 9.0 on
//
// A stream has type 21 in Redis72, with the time when a consumer last got something, and else type
// 19, without.
// A Redis before 7.4 refuses a Redis74 file at its header, and a Redis file at the first such hash.
type Format uint8

// The formats.
const (
	Redis Format = iota
	Redis74
	Redis72
	Redis70
	Untimed
	Valkey
)

// ErrFieldTimes says that a field expires, which what is written has no place for.
var ErrFieldTimes = errors.New("rdb: fields of a hash expire, which Redis before 7.4 doesn't know")

// header is what a file begins with.
func (f Format) header() string {
	switch f {
	case Redis74:
		return "REDIS0012"
	case Redis72:
		return "REDIS0011"
	case Valkey:
		return "VALKEY080"
	}
	return "REDIS0010"
}

// payloadVersion is what a payload ends with.
func (e *Encoder) payloadVersion() uint16 {
	if e.format == Valkey {
		return ValkeyVersion
	}
	return e.version
}

// SetFormat says for whom payloads are written from now on; at first it is Redis.
func (p *PayloadWriter) SetFormat(f Format) { p.format = f }

// ExpiringHashListpack writes a hash that is a listpack of fields, values and times, the first of
// which is given.
func (e *Encoder) ExpiringHashListpack(firstMs int64, l listpack.Listpack) {
	if e.format == Redis || e.format == Redis74 {
		e.begin(typeHashListpackExpiry)
		e.version = NewestVersion
		e.buf = binary.LittleEndian.AppendUint64(e.buf, uint64(firstMs))
		e.string(l)
		return
	}
	e.BeginExpiringHash(firstMs, uint64(l.Len()/3))
	var field, value []byte
	for at := l.First(); at != listpack.None; {
		first, behind := l.Step(at)
		second, last := l.Step(behind)
		expiry, next := l.Step(last)
		field, value = first.AppendTo(field[:0]), second.AppendTo(value[:0])
		e.ExpiringField(field, value, expiry.Int)
		at = next
	}
	e.End()
}

// BeginExpiringHash begins a hash with fields that expire, none of them before a time.
// ExpiringField for each follows.
func (e *Encoder) BeginExpiringHash(firstMs int64, fields uint64) {
	switch e.format {
	case Redis, Redis74:
		e.begin(typeHashMetadata)
		e.version = NewestVersion
		e.buf = binary.LittleEndian.AppendUint64(e.buf, uint64(firstMs))
		e.length(fields)
		e.left, e.nodes, e.firstMs = fields, false, firstMs
	case Valkey:
		e.beginCounted(typeHashValkey, fields)
	default:
		e.BeginHash(fields)
	}
}

// ExpiringField writes the next field of a hash that was begun so; an expireMs of 0 is none.
func (e *Encoder) ExpiringField(field, value []byte, expireMs int64) {
	switch e.format {
	case Redis, Redis74:
		relative := uint64(0)
		if expireMs != 0 {
			relative = uint64(expireMs-e.firstMs) + 1
		}
		e.length(relative)
	case Redis70:
		if expireMs != 0 {
			e.fail(ErrFieldTimes)
		}
	}
	e.Field(field, value)
	if e.format == Valkey {
		if expireMs == 0 {
			expireMs = -1
		}
		e.buf = binary.LittleEndian.AppendUint64(e.buf, uint64(expireMs))
	}
}

// PayloadHasFieldTimes reports whether what should be a payload is a hash whose fields may expire.
func PayloadHasFieldTimes(payload []byte) bool {
	if len(payload) < payloadFooter {
		return false
	}
	return Type(payload[0]) >= typeHashMetadataPreGA && Type(payload[0]) <= typeHashListpackExpiry
}

// AsUntimed returns a payload of the same value that Redis 7.0 reads, in which no fields expire. A
// server has taken the payload, as those of FieldTimes.
func AsUntimed(payload []byte) ([]byte, error) {
	v, err := (&Decoder{Trusted: true}).Payload(payload)
	if err != nil {
		return nil, err
	}
	w := NewPayloadWriter()
	w.SetFormat(Untimed)
	w.Begin(nil)
	if err := v.CopyTo(&w.Encoder); err != nil {
		return nil, err
	}
	return w.Finish()
}

// IsNewerStreamPayload reports whether what should be a payload is a stream as Redis72 has it.
func IsNewerStreamPayload(payload []byte) bool {
	return len(payload) >= payloadFooter && Type(payload[0]) == typeStreamListpacks3
}

// IsNewerPayload reports whether what should be a payload is one that a Redis 7.0 can't read.
func IsNewerPayload(payload []byte) bool {
	return len(payload) >= payloadFooter && PayloadVersion(payload) > Version || PayloadHasFieldTimes(payload)
}

// IsStringPayload reports whether what should be a payload is a string.
func IsStringPayload(payload []byte) bool {
	return len(payload) > 0 && Type(payload[0]) == typeString
}

// FieldTimes visits the fields of a payload that expire. The field is valid during the call.
func FieldTimes(payload []byte, visit func(field []byte, expireMs int64)) error {
	if !PayloadHasFieldTimes(payload) {
		return nil
	}
	v, err := (&Decoder{Trusted: true}).Payload(payload)
	if err != nil {
		return err
	}
	for v.Next() {
		if v.Element.ExpireMs != 0 {
			visit(v.Element.Bytes, v.Element.ExpireMs)
		}
	}
	return v.Err()
}
