package filter

import (
	"encoding/binary"
	"errors"
	"io"
)

// A filter that is kept, numbers little-endian:
//
//	| layers:4 | Layer … |, the newest first
//
//	Layer   records:8 | blocks:8 | Block …
//	Block   eight words of 64 bits

// errKept is returned for what is no filter.
var errKept = errors.New("filter: what was kept is damaged")

const blocksAtOnce = 1024 // that are written or read together

// Write writes a filter to which nothing is added meanwhile, for Read.
func (f *Filter) Write(w io.Writer) error {
	layers := f.all()
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(layers)))
	for _, l := range layers {
		b = binary.LittleEndian.AppendUint64(b, uint64(l.records.Load()))
		b = binary.LittleEndian.AppendUint64(b, uint64(len(l.blocks)))
		for i := range l.blocks {
			for word := range l.blocks[i] {
				b = binary.LittleEndian.AppendUint64(b, l.blocks[i][word].Load())
			}
			if len(b) < blocksAtOnce*blockBytes {
				continue
			}
			if _, err := w.Write(b); err != nil {
				return err
			}
			b = b[:0]
		}
	}
	_, err := w.Write(b)
	return err
}

// Read makes the filter that was written. One of more than most bytes is refused; room is asked for
// more memory only when it grows.
func Read(r io.Reader, most int64, room Room) (*Filter, error) {
	f := New(0, room)
	count, err := readNumber(r, 4)
	if err != nil {
		return nil, err
	}
	var layers []*layer
	for range count {
		l, err := readLayer(r, most)
		if err != nil {
			return nil, err
		}
		most -= l.bytes()
		layers = append(layers, l)
	}
	if len(layers) > 0 {
		f.layers.Store(&layers)
	}
	return f, nil
}

func readNumber(r io.Reader, bytes int) (uint64, error) {
	var b [8]byte
	_, err := io.ReadFull(r, b[:bytes])
	return binary.LittleEndian.Uint64(b[:]), err
}

func readLayer(r io.Reader, most int64) (*layer, error) {
	records, err := readNumber(r, 8)
	if err != nil {
		return nil, err
	}
	blocks, err := readNumber(r, 8)
	if err != nil {
		return nil, err
	}
	if blocks == 0 || blocks > uint64(max(most, 0)/blockBytes) {
		return nil, errKept
	}
	l := newLayer(int64(blocks) * blockBytes)
	l.records.Store(int64(records))
	return l, l.read(r)
}

func (l *layer) read(r io.Reader) error {
	memory := make([]byte, blocksAtOnce*blockBytes)
	for left := l.blocks; len(left) > 0; {
		some := left[:min(len(left), blocksAtOnce)]
		left = left[len(some):]
		b := memory[:len(some)*blockBytes]
		if _, err := io.ReadFull(r, b); err != nil {
			return err
		}
		for i := range some {
			for word := range some[i] {
				some[i][word].Store(binary.LittleEndian.Uint64(b))
				b = b[8:]
			}
		}
	}
	return nil
}
