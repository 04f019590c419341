package filter

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// TestAKeptFilter knows what the one knew that was written.
func TestAKeptFilter(t *testing.T) {
	for _, records := range []int{0, 1, 5000, 200_000} {
		f, random := New(0, plenty), rand.New(rand.NewPCG(3, 4))
		for range records {
			f.Add(Hash(random.Uint64()))
		}
		var written bytes.Buffer
		if err := f.Write(&written); err != nil {
			t.Fatal(err)
		}
		read, err := Read(bytes.NewReader(written.Bytes()), f.Bytes(), plenty)
		if err != nil {
			t.Fatal(err)
		}
		if read.Records() != f.Records() || read.Layers() != f.Layers() || read.Bytes() != f.Bytes() {
			t.Errorf("of %d records in %d layers: %d in %d", f.Records(), f.Layers(), read.Records(), read.Layers())
		}
		random = rand.New(rand.NewPCG(3, 4))
		for i := range 2 * records {
			if hash := Hash(random.Uint64()); read.MayHave(hash) != f.MayHave(hash) {
				t.Fatalf("hash %d of %d records is known to one only", i, records)
			}
		}
		for range records/2 + 10 { // it grows on
			hash := Hash(random.Uint64())
			if read.Add(hash); !read.MayHave(hash) {
				t.Fatal("what was added isn't known")
			}
		}
		if _, err := Read(bytes.NewReader(written.Bytes()), f.Bytes()-1, plenty); err == nil && records > 0 {
			t.Error("one that is too large is taken")
		}
		for _, length := range []int{0, 3, 19, written.Len() - 1} {
			if length >= written.Len() {
				continue
			}
			if _, err := Read(bytes.NewReader(written.Bytes()[:length]), f.Bytes(), plenty); err == nil {
				t.Errorf("%d of %d bytes are taken", length, written.Len())
			}
		}
	}
}

func TestHashesAreTheSameInEachProcess(t *testing.T) {
	if got := HashOf([]byte("a record")); got != 0xa9b05bb91f948f48 {
		t.Errorf("the hash is %#x: filters that were kept are of no use", uint64(got))
	}
}
