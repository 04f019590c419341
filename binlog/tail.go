package binlog

import (
	"fmt"
	"os"
)

// LinkTail makes a log in a directory that must not exist: the segments of a closed log which hold
// what lies behind a position, shared as hard links. It begins with the segment that holds the
// position, or with the first that is left. All of it is durable when LinkTail returns, and the
// directory gets its name last.
func LinkTail(from, to string, at Position) error {
	n, err := load(from, 0)
	if err != nil {
		return err
	}
	first := 0
	for i, f := range n.files {
		if f.begun() && f.start <= at {
			first = i
		}
	}
	return makeWhole(disk{}, to, func(partial string) error {
		for _, f := range n.files[first:] {
			if err := os.Link(f.path, segmentPath(partial, f.number)); err != nil {
				return fmt.Errorf("binlog: sharing a segment: %w", err)
			}
		}
		return nil
	})
}
