package rdb

// StreamCounts makes up for what Redis before 7.0 didn't count, as Redis 7.0 does when it reads
// such a stream. Its zero value is for one stream.
type StreamCounts struct {
	first, last StreamID
	length      uint64
}

// Complete gets each part of a stream in turn.
func (c *StreamCounts) Complete(e *StreamElement) {
	switch {
	case e.Part == StreamEntry && c.first == StreamID{}:
		c.first = e.ID
	case e.Part == StreamTotals && e.Uncounted:
		e.FirstID, c.last, c.length = c.first, e.ID, e.Length
	case e.Part == StreamGroup && e.Uncounted:
		e.EntriesRead = c.read(e.ID)
	}
}

// read is how many entries a group has read, the last of which is given; -1 if that can't be told.
func (c *StreamCounts) read(id StreamID) int64 {
	switch {
	case c.length == 0 || id.Less(c.first):
		return 0
	case id == c.last:
		return int64(c.length)
	case id == c.first:
		return 1
	}
	return -1
}
