package main

import (
	"bytes"
	"fmt"
	"strconv"
	"time"

	"kedis/redis-tests/launch"
)

// keysOf is how many clients wait for each key.
const clientsPerKey = 4

// handing is a run in which elements are pushed and handed to clients that wait.
type handing struct {
	crowd  *crowd
	pusher *member
	keys   int

	polls bool // clients don't wait: each asks for an element when one was pushed for it

	interval time.Duration // between two pushes
	began    time.Time     // when the first was due
	late     distribution  // how long after it was due each element came to a client
	seen     []bool        // by the element's number
	pushed   int           // sent
	taken    int           // that clients got
	replies  int           // to pushes
	request  [][]byte      // of each client
}

// handover has clients wait for elements while others push them, at half and at full rate.
func (b *bench) handover(server *launch.Server) error { return b.hand(server, false) }

// polling is handover with clients that don't wait. When a push was answered, the client that the
// element is for takes it with LPOP, LMOVE or ZPOPMIN. Handing over is to be compared with that.
func (b *bench) polling(server *launch.Server) error { return b.hand(server, true) }

func (b *bench) hand(server *launch.Server, polls bool) error {
	before, err := launch.ProcessMemory(server.ProcessID(), "VmRSS")
	if err != nil {
		return err
	}
	c, err := newCrowd()
	if err != nil {
		return err
	}
	defer c.close()
	h := &handing{crowd: c, keys: max(b.clients/clientsPerKey, 3), polls: polls}
	if err := h.start(b.clients, server); err != nil {
		return err
	}
	after, err := launch.ProcessMemory(server.ProcessID(), "VmRSS")
	if err != nil {
		return err
	}
	b.say("  %d clients: %d MB, %d bytes for each", b.clients, after>>20, int(after-before)/b.clients)
	for _, rate := range []float64{b.rate / 2, b.rate} {
		used, err := launch.ProcessorTime(server.ProcessID())
		if err != nil {
			return err
		}
		if err := h.push(rate, b.length); err != nil {
			return err
		}
		took := time.Since(h.began)
		now, err := launch.ProcessorTime(server.ProcessID())
		if err != nil {
			return err
		}
		b.say("  %.0f pushes/s: %.0f/s handed over, %v; %.1f µs of the server's processor each", rate, float64(h.taken)/took.Seconds(), h.late,
			float64((now-used).Microseconds())/float64(h.taken))
	}
	return nil
}

// start connects all clients, and has them wait.
func (h *handing) start(clients int, server *launch.Server) error {
	for i := range clients {
		m, err := h.crowd.dial(server.Port)
		if err != nil {
			return err
		}
		if h.polls {
			h.request = append(h.request, h.asking(i))
			continue
		}
		h.request = append(h.request, h.wanting(i))
		if err := m.send(h.request[i]); err != nil {
			return err
		}
	}
	var err error
	if h.pusher, err = h.crowd.dial(server.Port); err != nil || h.polls {
		return err
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		blocked, err := field(server, "blocked_clients")
		if err != nil || blocked == clients {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("%d of %d clients wait", blocked, clients)
		}
	}
}

// wanting is how a client waits: for a list, for a list from which it is moved, or for a sorted
// set.
func (h *handing) wanting(client int) []byte {
	key := strconv.Itoa(client % h.keys)
	switch client % h.keys % 3 {
	case 0:
		return command("BLPOP", key, "0")
	case 1:
		return command("BLMOVE", key, "moved:"+key, "LEFT", "RIGHT", "0")
	}
	return command("BZPOPMIN", key, "0")
}

// asking is how a client takes an element that is there.
func (h *handing) asking(client int) []byte {
	key := strconv.Itoa(client % h.keys)
	switch client % h.keys % 3 {
	case 0:
		return command("LPOP", key)
	case 1:
		return command("LMOVE", key, "moved:"+key, "LEFT", "RIGHT")
	}
	return command("ZPOPMIN", key)
}

// appendPush appends the request that pushes an element.
func (h *handing) appendPush(requests []byte, number int) []byte {
	key, element := number%h.keys, strconv.Itoa(number)
	if key%3 == 2 {
		return append(requests, command("ZADD", strconv.Itoa(key), element, element)...)
	}
	return append(requests, command("RPUSH", strconv.Itoa(key), element)...)
}

// push pushes so many elements a second, each when it is due, whatever the server does, and waits
// until all were handed over.
func (h *handing) push(rate float64, length time.Duration) error {
	count := int(rate * length.Seconds())
	h.interval, h.began = time.Duration(float64(time.Second)/rate), time.Now()
	h.seen, h.late = make([]bool, count), make(distribution, 0, count)
	h.pushed, h.taken, h.replies = 0, 0, 0
	var requests []byte
	for h.pushed < count {
		requests = requests[:0]
		for due := min(int(time.Since(h.began)/h.interval)+1, count); h.pushed < due; h.pushed++ {
			requests = h.appendPush(requests, h.pushed)
		}
		if err := h.pusher.send(requests); err != nil {
			return err
		}
		if err := h.crowd.wait(time.Millisecond, h.received); err != nil {
			return err
		}
	}
	return h.crowd.until("elements", func() bool { return h.taken == count && h.replies == count }, h.received)
}

// received takes up replies. A client that waits does so again at once.
func (h *handing) received(m *member, received []byte) (used int, err error) {
	if m == h.pusher {
		return h.answered(received)
	}
	words, whole := wordsOf(received)
	if !whole {
		return 0, nil
	}
	if err := h.got(m.number, words); err != nil {
		return 0, err
	}
	if h.polls {
		return len(received), nil
	}
	return len(received), m.send(h.request[m.number])
}

// answered counts the replies to pushes. The client that an element is for asks now, if none waits.
func (h *handing) answered(received []byte) (used int, err error) {
	for {
		end := bytes.IndexByte(received[used:], '\n')
		if end < 0 {
			return used, nil
		}
		if received[used] != ':' {
			return used, fmt.Errorf("a push was answered %q", received[used:])
		}
		if h.polls {
			turn := h.replies / h.keys % (len(h.request) / h.keys)
			client := h.replies%h.keys + turn*h.keys
			if err := h.crowd.members[client].send(h.request[client]); err != nil {
				return used, err
			}
		}
		h.replies++
		used += end + 1
	}
}

// got checks what a client got: an element of the key that it waits for, which no other one got.
func (h *handing) got(client int, words [][]byte) error {
	element := words[len(words)-1]
	number, err := strconv.Atoi(string(element))
	key := client % h.keys
	switch {
	case err != nil, number < 0, number >= h.pushed:
		return fmt.Errorf("client %d got %q", client, words)
	case number%h.keys != key, !h.polls && len(words) > 1 && string(words[0]) != strconv.Itoa(key):
		return fmt.Errorf("client %d waits for key %d and got %q", client, key, words)
	case h.seen[number]:
		return fmt.Errorf("element %d was handed over twice", number)
	}
	h.seen[number] = true
	h.taken++
	h.late = append(h.late, time.Since(h.began)-time.Duration(number)*h.interval)
	return nil
}

// wordsOf are the bulk strings of a reply, which is one or an array of them. whole is false when
// more is to come.
func wordsOf(reply []byte) (words [][]byte, whole bool) {
	count := 1
	for i := 0; i < count; i++ {
		end := bytes.Index(reply, []byte("\r\n"))
		if end < 0 {
			return nil, false
		}
		n, err := strconv.Atoi(string(reply[1:end]))
		if err != nil {
			return [][]byte{reply[:end]}, true
		}
		kind := reply[0]
		reply = reply[end+2:]
		switch {
		case kind == '*':
			count += n
		case n < 0:
			words = append(words, nil)
		case len(reply) < n+2:
			return nil, false
		default:
			words = append(words, reply[:n])
			reply = reply[n+2:]
		}
	}
	return words, true
}
