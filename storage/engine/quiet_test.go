package engine

import (
	"fmt"
	"testing"
	"time"

	"kedis/storage/layout"
)

// TestChunksAreMergedWhenNothingComes writes some chunks, and waits until the active generation has
// the order of all, which takes memory, though nobody walks.
func TestChunksAreMergedWhenNothingComes(t *testing.T) {
	o := testOptions(t.TempDir(), 64<<20, 0)
	o.FlushLogBytes = constant[int64](1 << 30)
	s := openStore(t, o)
	chunk := s.chunkBytes()
	for round := range 5 { // a machine may stop for as long as it takes
		commit(t, s, 0, func(txn *Txn, ns *Namespace) error {
			for i := range 8 {
				key := layout.AppendMetadataKey(nil, fmt.Append(nil, round, " ", i))
				if err := txn.Put(ns, key, make([]byte, chunk*3/4)); err != nil {
					return err
				}
			}
			return nil
		})
		active := s.tiers.Load().active
		before := active.Bytes()
		for deadline := time.Now().Add(20 * quiet); time.Now().Before(deadline); time.Sleep(quiet / 10) {
			if active.Bytes() > before {
				return
			}
		}
	}
	t.Error("nothing was merged")
}
