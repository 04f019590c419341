package quota

import "testing"

func TestDiskCountsAWriteUntilTheFilesHaveIt(t *testing.T) {
	var d Disk
	is := func(what string, want int64) {
		t.Helper()
		if got := d.Bytes(1); got != want {
			t.Errorf("%s it is %d, want %d", what, got, want)
		}
	}
	measured := func(files, persisted, end int64) { d.Measured(map[uint32]int64{1: files}, persisted, end) }
	measured(500, 0, 0)
	d.Add(1, 100)
	is("after a write", 600)
	measured(500, 10, 10)
	d.Add(1, 30)
	is("while the files lack both", 630)
	measured(500, 20, 20)
	is("while the first one may have been under way", 530)
	measured(520, 25, 30)
	is("when the files have come further", 550)
	for range 3 {
		measured(560, 30, 30)
	}
	is("when the files have all", 560)
	measured(0, 30, 30)
	for range 3 * mostWritten {
		d.Add(1, 1)
		measured(0, 0, 40)
	}
	if is("however long the files lack it", 3*mostWritten); len(d.owners[1].recent) > mostWritten {
		t.Errorf("%d parts are told apart", len(d.owners[1].recent))
	}
}

// TestDiskTellsOwnersApart: each has its own writes, and is forgotten when there is none of it any
// more, but not before it may have been measured.
func TestDiskTellsOwnersApart(t *testing.T) {
	var d Disk
	are := func(when string, first, second int64) {
		t.Helper()
		if d.Bytes(1) != first || d.Bytes(2) != second {
			t.Errorf("%s they take %d and %d, want %d and %d", when, d.Bytes(1), d.Bytes(2), first, second)
		}
	}
	d.Measured(map[uint32]int64{1: 500}, 0, 0)
	d.Add(1, 100)
	d.Add(2, 7)
	are("after their first writes", 600, 7)
	d.Measured(map[uint32]int64{1: 500}, 0, 10)
	are("when the second one isn't there yet", 600, 7)
	d.Add(2, 1)
	d.Measured(map[uint32]int64{1: 500}, 0, 20)
	are("when it goes on", 600, 8)
	d.Measured(map[uint32]int64{2: 20}, 0, 30)
	are("when the first one is gone", 600, 28)
	d.Measured(map[uint32]int64{2: 20}, 0, 40)
	if are("when it stays away", 0, 28); d.Knows(1) || !d.Knows(2) {
		t.Errorf("known are the first, %v, and the second, %v", d.Knows(1), d.Knows(2))
	}
}
