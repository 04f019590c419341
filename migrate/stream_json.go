package migrate

import (
	"fmt"

	"kedis/storage/rdb"
)

// streamJSON writes a stream as a JSON object, part by part, as an RDB file has them:
//
//	{"entries":[["1-1",["field","value"]]],
//	 "last":"1-1","maxDeleted":"0-0","added":1,
//	 "groups":[{"name":"g","last":"1-1","read":1,
//	            "pending":[["1-1",1700000000000,1]],
//	            "consumers":[{"name":"c","seen":1700000000000,"active":1700000000000,"pending":["1-1"]}]}]}
//
// A pending entry has its id, when it was last delivered, and how often. Times are ms since 1970;
// active is -1 if never. read is -1 if it isn't known.
type streamJSON struct {
	b     []byte
	array streamArray
	begun bool // the array has an element
}

// streamArray is the array that is being written.
type streamArray int

const (
	entriesArray streamArray = iota
	groupsArray
	pendingArray // of a group
	ownedArray   // of a consumer
)

// ends are what closes an array, and what it is in, up to the array of groups.
var streamEnds = map[streamArray]string{pendingArray: `],"consumers":[]}`, ownedArray: "]}]}"}

// enter begins an array behind some text.
func (s *streamJSON) enter(array streamArray, text string) {
	s.b = append(s.b, text...)
	s.array, s.begun = array, false
}

// separate puts a comma between two elements.
func (s *streamJSON) separate() {
	if s.begun {
		s.b = append(s.b, ',')
	}
	s.begun = true
}

// begin begins the stream.
func (s *streamJSON) begin() { s.enter(entriesArray, `{"entries":[`) }

// end ends the stream.
func (s *streamJSON) end() { s.b = append(append(s.b, streamEnds[s.array]...), "]}"...) }

// add writes a part.
func (s *streamJSON) add(p *rdb.StreamElement) {
	switch p.Part {
	case rdb.StreamEntry:
		s.separate()
		s.entry(p)
	case rdb.StreamTotals:
		s.b = fmt.Appendf(s.b, `],"last":%q,"maxDeleted":%q,"added":%d`, streamID(p.ID), streamID(p.MaxDeletedID), p.EntriesAdded)
		s.enter(groupsArray, `,"groups":[`)
	case rdb.StreamGroup:
		s.group(p)
	case rdb.StreamPending:
		s.separate()
		s.b = fmt.Appendf(s.b, `[%q,%d,%d]`, streamID(p.ID), p.DeliveredMs, p.Deliveries)
	case rdb.StreamConsumer:
		s.consumer(p)
	case rdb.StreamOwned:
		s.separate()
		s.b = fmt.Appendf(s.b, `%q`, streamID(p.ID))
	}
}

func (s *streamJSON) entry(p *rdb.StreamElement) {
	s.b = fmt.Appendf(s.b, `[%q,`, streamID(p.ID))
	for i, word := range p.Fields {
		s.b = appendJSON(append(s.b, "[,"[min(i, 1)]), word)
	}
	s.b = append(s.b, "]]"...)
}

func (s *streamJSON) group(p *rdb.StreamElement) {
	if s.array != groupsArray {
		s.b = append(append(s.b, streamEnds[s.array]...), ',')
	}
	s.b = appendJSON(append(s.b, `{"name":`...), p.Name)
	s.b = fmt.Appendf(s.b, `,"last":%q,"read":%d`, streamID(p.ID), p.EntriesRead)
	s.enter(pendingArray, `,"pending":[`)
}

func (s *streamJSON) consumer(p *rdb.StreamElement) {
	if s.array == pendingArray {
		s.b = append(s.b, `],"consumers":[`...)
	} else {
		s.b = append(s.b, "]},"...)
	}
	s.b = appendJSON(append(s.b, `{"name":`...), p.Name)
	s.b = fmt.Appendf(s.b, `,"seen":%d,"active":%d`, p.SeenMs, p.ActiveMs)
	s.enter(ownedArray, `,"pending":[`)
}

// stream appends a stream's object, and writes what has become long.
func (o *jsonOutput) stream(b []byte, value *rdb.Value) ([]byte, error) {
	s := streamJSON{b: b}
	s.begin()
	for value.Next() {
		s.add(value.Element.Stream)
		if len(s.b) >= pieceBytes {
			if _, err := o.w.Write(s.b); err != nil {
				return s.b, err
			}
			s.b = s.b[:0]
		}
	}
	s.end()
	return s.b, value.Err()
}
