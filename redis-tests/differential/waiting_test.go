package differential

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"kedis/redis-tests/launch"
	"kedis/redis-tests/resp"
	seeds "kedis/redis-tests/seed"
)

// Several connections, some of which wait for keys, beside redis-server: who is served with what,
// and in which order.

const (
	waitingConnections = 7
	waitingKeys        = 4
)

// waitingSide is one of the servers with its connections.
type waitingSide struct {
	server  *launch.Server
	control *resp.Connection
	members []*waitingMember
}

// waitingMember is a connection that may wait.
type waitingMember struct {
	*resp.Connection
	id      string
	replies chan string
	owed    int // replies to what it has sent
}

func newWaitingSide(t *testing.T, server *launch.Server) *waitingSide {
	s := &waitingSide{server: server, control: server.MustDial(t)}
	for range waitingConnections {
		s.members = append(s.members, s.dial(t))
	}
	return s
}

func (s *waitingSide) dial(t *testing.T) *waitingMember {
	t.Helper()
	m := &waitingMember{Connection: s.server.MustDial(t), replies: make(chan string, 64)}
	reply, err := m.Must("CLIENT", "ID")
	if err != nil {
		t.Fatal(err)
	}
	id, _ := reply.Integer()
	m.id = strconv.FormatInt(id, 10)
	go func() {
		for {
			reply, err := m.Read()
			if err != nil {
				close(m.replies)
				return
			}
			m.replies <- reply.String()
		}
	}()
	return m
}

// send sends requests of one connection, and returns what each connection is told because of them.
func (s *waitingSide) send(t *testing.T, number int, requests [][]string) string {
	t.Helper()
	m := s.members[number]
	for _, request := range requests {
		words := slices.Clone(request)
		for i, word := range words {
			if other, found := strings.CutPrefix(word, "id:"); found {
				n, err := strconv.Atoi(other)
				if err != nil {
					t.Fatal(err)
				}
				words[i] = s.members[n].id
			}
		}
		m.Queue(words...)
		m.owed++
	}
	if err := m.Flush(); err != nil {
		t.Fatal(err)
	}
	return s.told(t, number)
}

// told collects the replies. A connection that has sent something is waited for until it is
// answered or waits itself; one that waited is answered when it doesn't any more.
func (s *waitingSide) told(t *testing.T, number int) string {
	t.Helper()
	var told strings.Builder
	take := func(i int, reply string) {
		s.members[i].owed--
		fmt.Fprintf(&told, "%d: %s\n", i, reply)
	}
	sender := s.members[number]
	for end := time.Now().Add(20 * time.Second); sender.owed > 0 && !s.waiting(t)[sender.id]; {
		select {
		case reply, open := <-sender.replies:
			if !open {
				t.Fatal("the server has closed a connection")
			}
			take(number, reply)
		case <-time.After(2 * time.Millisecond):
		}
		if time.Now().After(end) {
			t.Fatalf("connection %d neither waits nor is answered", number)
		}
	}
	waiting := s.waiting(t)
	for i, m := range s.members {
		for m.owed > 0 && !waiting[m.id] {
			select {
			case reply := <-m.replies:
				take(i, reply)
			case <-time.After(20 * time.Second):
				t.Fatalf("connection %d isn't answered", i)
			}
		}
	}
	return told.String()
}

// waiting are the ids of those who wait.
func (s *waitingSide) waiting(t *testing.T) map[string]bool {
	t.Helper()
	reply, err := s.control.Must("CLIENT", "LIST")
	if err != nil {
		t.Fatal(err)
	}
	waiting := map[string]bool{}
	for line := range strings.Lines(string(reply.Text)) {
		fields := strings.Fields(line)
		flags := slices.IndexFunc(fields, func(f string) bool { return strings.HasPrefix(f, "flags=") })
		waiting[strings.TrimPrefix(fields[0], "id=")] = flags >= 0 && strings.Contains(fields[flags], "b")
	}
	return waiting
}

// sortedOverLists sorts into a key that doesn't exist or holds a list, as it comes. No Redis wakes
// those who wait for a list when a key of another type is overwritten with one, and Kedis does: see
// scripts/blocking.txt.
const sortedOverLists = `local kind = redis.call('type', KEYS[2]).ok
if kind ~= 'list' and kind ~= 'none' then redis.call('del', KEYS[2]) end
return redis.call('sort', KEYS[1], 'by', 'nosort', 'store', KEYS[2])`

// waitingRequests makes what a connection sends.
type waitingRequests struct{ *rand.Rand }

func (r waitingRequests) key() string { return "k" + strconv.Itoa(r.IntN(waitingKeys)) }

func (r waitingRequests) end() string { return []string{"LEFT", "RIGHT"}[r.IntN(2)] }

func (r waitingRequests) number() string { return strconv.Itoa(r.IntN(100)) }

// wait waits for something, if there is nothing.
func (r waitingRequests) wait() []string {
	switch r.IntN(8) {
	case 0:
		return []string{"BLPOP", r.key(), "0"}
	case 1:
		return []string{"BRPOP", r.key(), r.key(), "0"}
	case 2, 3:
		return []string{"BLMOVE", r.key(), r.key(), r.end(), r.end(), "0"}
	case 4:
		return []string{"BRPOPLPUSH", r.key(), r.key(), "0"}
	case 5:
		return []string{"BLMPOP", "0", "2", r.key(), r.key(), r.end(), "COUNT", "2"}
	case 6:
		return []string{[]string{"BZPOPMIN", "BZPOPMAX"}[r.IntN(2)], r.key(), r.key(), "0"}
	}
	return []string{"BZMPOP", "0", "1", r.key(), "MIN", "COUNT", "2"}
}

// change changes a key.
func (r waitingRequests) change() []string {
	switch r.IntN(14) {
	case 0, 1, 2:
		return []string{"RPUSH", r.key(), r.number()}
	case 3:
		return []string{"LPUSH", r.key(), r.number(), r.number(), r.number()}
	case 4, 5:
		return []string{"ZADD", r.key(), r.number(), "m" + r.number()}
	case 6:
		return []string{"RENAME", r.key(), r.key()}
	case 7:
		return []string{"COPY", r.key(), r.key(), "REPLACE"}
	case 8:
		return []string{"LMOVE", r.key(), r.key(), r.end(), r.end()}
	case 9:
		return []string{"EVAL", sortedOverLists, "2", r.key(), r.key()}
	case 10:
		return []string{"SET", r.key(), "text"}
	case 11:
		return []string{"PEXPIRE", r.key(), "0"}
	case 12:
		return []string{"EVAL", "redis.call('rpush', KEYS[1], 1, 2); return redis.call('lpush', KEYS[2], 3)", "2", r.key(), r.key()}
	}
	return []string{"DEL", r.key(), r.key()}
}

// next are the requests of a step.
func (r waitingRequests) next() (requests [][]string) {
	switch n := r.IntN(20); {
	case n < 9:
		return [][]string{r.wait()}
	case n < 15:
		return [][]string{r.change()}
	case n < 18:
		requests = append(requests, []string{"MULTI"})
		for range 1 + r.IntN(4) {
			if r.IntN(6) == 0 {
				requests = append(requests, r.wait())
			} else {
				requests = append(requests, r.change())
			}
		}
		return append(requests, []string{"EXEC"})
	}
	return [][]string{{"CLIENT", "UNBLOCK", "id:" + strconv.Itoa(r.IntN(waitingConnections)), []string{"TIMEOUT", "ERROR"}[r.IntN(2)]}}
}

// TestWaitingClients compares what each of several connections is told, step by step, and what the
// keys hold in the end.
func TestWaitingClients(t *testing.T) {
	redis, kedis := launch.Pair(t)
	steps := max(1500, *commands/40)
	requests := waitingRequests{rand.New(rand.NewPCG(seeds.Of(t), 7))}
	oracle, tested := newWaitingSide(t, redis), newWaitingSide(t, kedis)
	var history []string
	handed := 0
	for step := range steps {
		number := freeMember(oracle, requests)
		if number < 0 { // all wait
			history = append(history, unblockAll(t, requests, oracle, tested)...)
			continue
		}
		sent := requests.next()
		for _, request := range sent {
			history = append(history, fmt.Sprintf("[%d] %s", number, resp.Line(request)))
		}
		want, got := oracle.send(t, number, sent), tested.send(t, number, sent)
		for line := range strings.Lines(want) {
			if !strings.HasPrefix(line, strconv.Itoa(number)+": ") {
				handed++
			}
		}
		if want != got {
			t.Fatalf("step %d:\n%s\ntold\n%s\nand redis-server\n%s", step, strings.Join(history[max(0, len(history)-40):], "\n"), got, want)
		}
	}
	if t.Logf("%d were served while they waited", handed); handed < steps/20 {
		t.Error("hardly anybody was served")
	}
	for i := range waitingKeys {
		key := "k" + strconv.Itoa(i)
		var dumps [2]string
		for j, s := range []*waitingSide{oracle, tested} {
			reply, err := s.control.Do("DUMP", key)
			if err != nil {
				t.Fatal(err)
			}
			dumps[j] = reply.String()
		}
		if dumps[0] != dumps[1] {
			t.Errorf("%s is %s, and on redis-server %s", key, dumps[1], dumps[0])
		}
	}
}

// freeMember is a connection that doesn't wait; -1 if all do.
func freeMember(s *waitingSide, random waitingRequests) int {
	for _, i := range random.Perm(len(s.members)) {
		if s.members[i].owed == 0 {
			return i
		}
	}
	return -1
}

// unblockAll ends the waiting of some connections, by their controls.
func unblockAll(t *testing.T, random waitingRequests, sides ...*waitingSide) (history []string) {
	t.Helper()
	for _, number := range random.Perm(waitingConnections)[:1+random.IntN(3)] {
		history = append(history, fmt.Sprintf("unblock %d", number))
		var told [2]string
		for i, s := range sides {
			if _, err := s.control.Must("CLIENT", "UNBLOCK", s.members[number].id); err != nil {
				t.Fatal(err)
			}
			told[i] = s.told(t, number)
		}
		if told[0] != told[1] {
			t.Fatalf("%s: told\n%s\nand redis-server\n%s", history[len(history)-1], told[1], told[0])
		}
	}
	return history
}
