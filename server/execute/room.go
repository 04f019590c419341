package execute

// room is memory for the words of requests that a batch makes itself. They stay as long as those
// that were parsed: until the batch is cleared.
type room struct {
	memory []byte
	list   [][]byte
}

const (
	// leastRoom and mostRoom are how long a piece of memory is, unless more is needed at once. What
	// is used up is the collector's.
	leastRoom = 1 << 10
	mostRoom  = 64 << 10
	// wordRoom is how much of it there is for each word's place in a list.
	wordRoom = 32
)

// Room returns memory for a request that is to run inside of this one: for its bytes, and for its
// words. A large one has its own, to which nothing refers for longer than what the request has left
// does: a script may make many of them.
func (c *Invocation) Room(bytes, words int) (memory []byte, list [][]byte) {
	if bytes > mostRoom {
		return make([]byte, bytes), make([][]byte, words)
	}
	r := &c.batch.running.room
	if cap(r.memory)-len(r.memory) < bytes {
		r.memory = make([]byte, 0, max(bytes, nextRoom(cap(r.memory))))
	}
	if cap(r.list)-len(r.list) < words {
		r.list = make([][]byte, 0, max(words, nextRoom(cap(r.list)*wordRoom)/wordRoom))
	}
	memory, r.memory = take(r.memory, bytes)
	list, r.list = take(r.list, words)
	return memory, list
}

func nextRoom(now int) int { return min(max(2*now, leastRoom), mostRoom) }

// take takes a number of elements behind the end of a slice that has room for them.
func take[T any](from []T, count int) (taken, rest []T) {
	end := len(from) + count
	return from[len(from):end:end], from[:end]
}

// reset makes all room free.
func (r *room) reset() {
	r.memory = r.memory[:0]
	if cap(r.memory) > mostRoom {
		r.memory = nil
	}
	if cap(r.list) > mostRoom/wordRoom {
		r.list = nil
	}
	clear(r.list)
	r.list = r.list[:0]
}
