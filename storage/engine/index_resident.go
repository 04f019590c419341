package engine

import (
	"bytes"

	"kedis/storage/ordered"
)

// ResidentPiece is what is left of a part of an index that is in memory. It doesn't change when the
// index does. The zero value is empty.
type ResidentPiece struct {
	block    ordered.Block
	at, size int
	behind   []byte
}

// Take returns the key of the next entry; nil behind the last one.
func (r *ResidentPiece) Take() []byte {
	if r.at == r.size {
		return nil
	}
	key, _ := r.block.At(r.at)
	r.at++
	return key
}

// Behind is where the index goes on; nil is its end.
func (r *ResidentPiece) Behind() []byte { return r.behind }

// Resident finds the entries from a place on, if they are in memory: Scan reads others.
func (x *Index) Resident(lower []byte, r *ResidentPiece) (found bool, err error) {
	tree := x.tree()
	if tree == nil {
		return false, nil
	}
	p := tree.Find(lower, false)
	if !p.Resident {
		return false, nil
	}
	*r = ResidentPiece{block: p.Block, size: p.Block.Len(), behind: p.Upper}
	if bytes.Compare(p.Lower, lower) < 0 {
		r.at, _ = p.Block.Search(lower)
	}
	return true, x.txn.Spend(residentCost(r.block, r.size-r.at))
}
