package quota

import "testing"

func TestDiskCountsAWriteUntilTheFilesHaveIt(t *testing.T) {
	var d Disk
	is := func(what string, want int64) {
		t.Helper()
		if got := d.Bytes(); got != want {
			t.Errorf("%s it is %d, want %d", what, got, want)
		}
	}
	d.Measured(1, 500, 0, 0)
	d.Add(100)
	is("after a write", 600)
	d.Measured(1, 500, 10, 10)
	d.Add(30)
	is("while the files lack both", 630)
	d.Measured(1, 500, 20, 20)
	is("while the first one may have been under way", 530)
	d.Measured(1, 520, 25, 30)
	is("when the files have come further", 550)
	for range 3 {
		d.Measured(1, 560, 30, 30)
	}
	is("when the files have all", 560)
	d.Add(1)
	d.Measured(2, 0, 30, 31)
	is("when the database was emptied", 0)
	for range 3 * mostWritten {
		d.Add(1)
		d.Measured(2, 0, 0, 40)
	}
	if is("however long the files lack it", 3*mostWritten); len(d.recent) > mostWritten {
		t.Errorf("%d parts are told apart", len(d.recent))
	}
}
