package filter

import (
	"math/rand/v2"
	"sync"
	"testing"
)

func plenty(bytes int64) int64 { return bytes }

// limited grants so many bytes in all.
func limited(bytes int64) Room {
	return func(wanted int64) int64 {
		granted := min(wanted, bytes)
		bytes -= granted
		return granted
	}
}

func TestNothingIsThereBeforeItIsAdded(t *testing.T) {
	f := New(100, plenty)
	for hash := range Hash(1000) {
		if f.MayHave(hash) {
			t.Fatalf("an empty filter may have %d", hash)
		}
	}
	if f.Bytes() != 0 || f.Records() != 0 || f.Layers() != 0 || f.Touch(1) != 0 {
		t.Errorf("an empty filter takes %d bytes", f.Bytes())
	}
}

// TestWhatWasAddedIsKnown, in filters that grow freely, a little, and not at all.
func TestWhatWasAddedIsKnown(t *testing.T) {
	for name, room := range map[string]Room{"plenty": plenty, "little": limited(100 << 10), "none": limited(0)} {
		t.Run(name, func(t *testing.T) {
			f := New(0, room)
			random := rand.New(rand.NewPCG(1, 2))
			var added []Hash
			for i := range 200_000 {
				hash := Hash(random.Uint64())
				f.Add(hash)
				if added = append(added, hash); !f.MayHave(hash) {
					t.Fatalf("record %d isn't known after it was added", i)
				}
			}
			for i, hash := range added {
				if !f.MayHave(hash) {
					t.Fatalf("record %d isn't known any more", i)
				}
			}
		})
	}
}

// TestSomeSeemToBeThere tells how many, and at which cost.
func TestSomeSeemToBeThere(t *testing.T) {
	const records = 1 << 18
	for _, c := range []struct {
		name        string
		expected    int64
		room        Room
		layers      int
		bits, error float64 // at most
	}{
		{"as many as expected", records, plenty, 1, 10.1, 0.015},
		{"unexpectedly many", 0, plenty, 8, 20, 0.09},
		{"room for half", records, limited(BytesFor(records) / 2), 1, 5.1, 0.16},
		{"room for a quarter", records, limited(BytesFor(records) / 4), 1, 2.6, 0.6},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := New(c.expected, c.room)
			random := rand.New(rand.NewPCG(3, 4))
			for range records {
				f.Add(Hash(random.Uint64()))
			}
			seem := 0
			for range records {
				if f.MayHave(Hash(random.Uint64())) {
					seem++
				}
			}
			bits, share := float64(f.Bytes()*8)/records, float64(seem)/records
			t.Logf("%d layers, %.1f bits a record, %.4f of what isn't there seems to be", f.Layers(), bits, share)
			if f.Layers() != c.layers || bits > c.bits || share > c.error {
				t.Errorf("%d layers, want %d; at most %.1f bits and %.4f", f.Layers(), c.layers, c.bits, c.error)
			}
			if crowded := f.Crowded(); crowded != (c.bits < 5) {
				t.Errorf("crowded: %v", crowded)
			}
		})
	}
}

// TestRepeatedRecordsTakeNoRoom, however often they are added.
func TestRepeatedRecordsTakeNoRoom(t *testing.T) {
	f := New(1000, plenty)
	for range 1000 {
		for hash := range Hash(1000) {
			f.Add(hash * 0x9E3779B97F4A7C15)
		}
	}
	if f.Records() > 1000 || f.Layers() != 1 {
		t.Errorf("%d records in %d layers", f.Records(), f.Layers())
	}
}

// TestRoomThatComesLaterIsTaken by a filter that has had none for a while.
func TestRoomThatComesLaterIsTaken(t *testing.T) {
	var free int64
	f := New(0, func(wanted int64) int64 { return min(wanted, free) })
	random := rand.New(rand.NewPCG(5, 6))
	for range 8000 { // more than twice as many as it has room for
		f.Add(Hash(random.Uint64()))
	}
	if f.Layers() != 1 || !f.Crowded() {
		t.Fatalf("%d layers without room", f.Layers())
	}
	free = 1 << 20
	for range 100_000 {
		f.Add(Hash(random.Uint64()))
	}
	if f.Layers() < 2 || f.Crowded() {
		t.Error("no layer was added when there was room")
	}
}

// TestManyAddAndAsk at once, while layers come.
func TestManyAddAndAsk(t *testing.T) {
	f := New(0, plenty)
	var wait sync.WaitGroup
	for writer := range uint64(4) {
		wait.Go(func() {
			random := rand.New(rand.NewPCG(writer, 7))
			var own []Hash
			for i := range 50_000 {
				hash := Hash(random.Uint64())
				f.Add(hash)
				own = append(own, hash)
				if asked := own[random.IntN(i+1)]; !f.MayHave(asked) {
					t.Errorf("what writer %d has added isn't known", writer)
					return
				}
			}
		})
	}
	wait.Wait()
	// What seems to be there is not added: the more, the later a layer comes that writers race for.
	if n := f.Records(); n < 150_000 || n > 200_000 {
		t.Errorf("%d records", n)
	}
}

// FuzzFilter holds a filter against a set. Hashes are chosen so that many share a block, or their
// bits.
func FuzzFilter(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 255}, uint16(0))
	f.Add([]byte("some records that come again and again and again"), uint16(60000))
	f.Fuzz(func(t *testing.T, steps []byte, room uint16) {
		filter, model := New(int64(room%100), limited(int64(room))), map[Hash]bool{}
		hash := Hash(room)
		for _, step := range steps {
			hash = hash<<(step%64) ^ Hash(step)*0x0101010101010101
			for range 1 + int(step)/8 {
				filter.Add(hash)
				model[hash] = true
				hash += Hash(step) << (step % 61)
			}
		}
		for hash := range model {
			if !filter.MayHave(hash) {
				t.Fatalf("%x was added and isn't there", hash)
			}
		}
		if filter.Records() > int64(len(model)) {
			t.Fatalf("%d records of %d", filter.Records(), len(model))
		}
	})
}
