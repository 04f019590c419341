package failover

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"kedis/redis-tests/resp"
)

// crowd is clients that work on a few objects, each on its own connection, and note what they see.
type crowd struct {
	address atomic.Pointer[string] // of the primary, as they know it
	began   time.Time
	stop    chan struct{}
	running sync.WaitGroup

	mu      sync.Mutex
	history []porcupine.Operation
	values  int // that were written
}

const (
	clients  = 6
	objects  = 4
	patience = 3 * time.Second // of a client
)

func newCrowd(address string) *crowd {
	c := &crowd{began: time.Now(), stop: make(chan struct{})}
	c.address.Store(&address)
	return c
}

// begin has clients work until end.
func (c *crowd) begin(random *rand.Rand) {
	for id := range clients {
		own := rand.New(rand.NewPCG(random.Uint64(), uint64(id)))
		c.running.Go(func() { c.work(id, own) })
	}
}

func (c *crowd) end() {
	close(c.stop)
	c.running.Wait()
}

// readAll reads every object from the primary, when all is over.
func (c *crowd) readAll(t *testing.T) {
	t.Helper()
	connection, err := resp.Dial(*c.address.Load(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer hangUp(connection)
	for _, read := range []kind{get, list, getBoth} {
		for number := range objects {
			if !c.operate(clients, connection, input{kind: read, object: object(read, number)}) {
				t.Fatal("the primary answers with an error at last")
			}
		}
	}
}

// object is the name of one of those that a kind of operations is for.
func object(of kind, number int) string {
	return fmt.Sprintf("%s%d", [...]string{"register", "list", "pair"}[of/2], number)
}

// work sends one request after the other to whom it takes for the primary. It stays with a
// connection as long as that answers, also when another server is the primary by then.
func (c *crowd) work(id int, random *rand.Rand) {
	var connection *resp.Connection
	defer func() { hangUp(connection) }()
	for {
		select {
		case <-c.stop:
			return
		case <-time.After(time.Duration(random.IntN(4)) * time.Millisecond):
		}
		if connection == nil {
			dialled, err := resp.Dial(*c.address.Load(), patience)
			if err != nil {
				continue
			}
			connection = dialled
		}
		if !c.operate(id, connection, c.choose(random)) {
			hangUp(connection)
			connection = nil
		}
	}
}

// goesOn waits until clients were told of so many more operations.
func (c *crowd) goesOn(t *testing.T, more int) {
	t.Helper()
	done := func() int {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.history)
	}
	deadline := time.Now().Add(time.Minute)
	for wanted := done() + more; done() < wanted; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("clients are told nothing any more")
		}
	}
}

func hangUp(c *resp.Connection) {
	if c != nil {
		_ = c.Close() // it may be closed by the server
	}
}

func (c *crowd) choose(random *rand.Rand) input {
	i := input{kind: kind(random.IntN(6))}
	i.object = object(i.kind, random.IntN(objects))
	if i.writes() {
		c.mu.Lock()
		c.values++
		i.value = fmt.Sprint("v", c.values)
		c.mu.Unlock()
	}
	return i
}

// operate sends a request and notes it. It returns false when the connection is of no use any more.
func (c *crowd) operate(id int, connection *resp.Connection, i input) bool {
	began := time.Since(c.began)
	out, refused, err := ask(connection, i)
	ended := time.Since(c.began)
	o := porcupine.Operation{ClientId: id, Input: i, Call: int64(began), Output: out, Return: int64(ended)}
	switch {
	case refused || err != nil && !i.writes():
		return false
	case err != nil:
		o.Output, o.Return = output{unknown: true}, math.MaxInt64
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.history = append(c.history, o)
	return err == nil
}

// ask returns what a request was answered. refused: it was not executed, for certain.
func ask(c *resp.Connection, i input) (out output, refused bool, err error) {
	for _, words := range requests(i) {
		c.Queue(words...)
	}
	if err := c.Flush(); err != nil {
		return out, false, err
	}
	var reply resp.Reply
	for range requests(i) {
		if reply, err = c.Read(); err != nil {
			return out, false, err
		}
		if text := string(reply.Text); reply.IsError() {
			for _, definite := range []string{"READONLY", "LOADING", "NOREPLICAS Not enough", "MASTERDOWN", "EXECABORT", "UNBLOCKED"} {
				refused = refused || strings.HasPrefix(text, definite)
			}
			return out, refused, fmt.Errorf("%s", text)
		}
	}
	return output{text: shown(i, reply)}, false, nil
}

func requests(i input) [][]string {
	a, b := i.object+"a", i.object+"b"
	switch i.kind {
	case set:
		return [][]string{{"SET", i.object, i.value}}
	case get:
		return [][]string{{"GET", i.object}}
	case push:
		return [][]string{{"RPUSH", i.object, i.value}}
	case list:
		return [][]string{{"LRANGE", i.object, "0", "-1"}}
	case setBoth:
		return [][]string{{"MULTI"}, {"SET", a, i.value}, {"SET", b, i.value}, {"EXEC"}}
	}
	return [][]string{{"MULTI"}, {"GET", a}, {"GET", b}, {"EXEC"}}
}

// shown is a reply as the model knows it.
func shown(i input, reply resp.Reply) string {
	switch i.kind {
	case list:
		var text strings.Builder
		for _, element := range reply.Strings() {
			text.WriteString(element + " ")
		}
		return text.String()
	case getBoth:
		both := reply.Strings()
		if len(both) != 2 || both[0] != both[1] {
			return "torn: " + strings.Join(both, ",")
		}
		return both[0]
	}
	return string(reply.Text)
}
