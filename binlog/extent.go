package binlog

// Extent returns the positions at which the records of the log in a directory begin and end, and
// the history at its end. The positions are the same for a log without records. Nothing on disk is
// changed or locked. It returns ErrNoLog for a directory without a log, and a CorruptError for
// damage other than the torn end of a crash.
func Extent(directory string) (history History, from, to Position, err error) {
	n, err := load(directory, 0)
	if err != nil {
		return History{}, 0, 0, err
	}
	if err := n.examine(Range{}, nil); err != nil {
		return History{}, 0, 0, err
	}
	for _, f := range n.files {
		if f.begun() {
			history = f.history
		}
	}
	return history, n.files[0].start, n.position, n.corruption()
}
