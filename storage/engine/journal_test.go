package engine

import "testing"

// TestJournalKeepsWhatIsUsedNowAndThen resets a journal as an import of large collections does: a
// large piece, the small rest, and so on.
func TestJournalKeepsWhatIsUsedNowAndThen(t *testing.T) {
	var j journal
	use := func(bytes int) {
		j.put(1, 0, []byte("Mkey"), make([]byte, bytes), nil)
		j.reset()
	}
	use(2 * largeBuffer)
	kept := cap(j.buffer)
	for range 3 * unusedResets {
		use(1)
		use(2 * largeBuffer)
	}
	if cap(j.buffer) != kept {
		t.Errorf("the buffer has %d bytes, and had %d", cap(j.buffer), kept)
	}
	for range unusedResets {
		use(1)
	}
	if cap(j.buffer) > largeBuffer {
		t.Errorf("%d bytes are kept though few are used", cap(j.buffer))
	}
	if use(hugeBuffer + 1); cap(j.buffer) != 0 {
		t.Errorf("%d bytes are kept, more than may be", cap(j.buffer))
	}
}
