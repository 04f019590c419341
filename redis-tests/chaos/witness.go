package chaos

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"kedis/redis-tests/resp"
)

// witnessDatabase is one that nothing but witnesses writes to, and that is not flushed or swapped.
const witnessDatabase = "9"

// Witness writes the numbers from 1 on, each in one transaction with a counter, and with an entry
// of a stream that a group is given; odd ones are acknowledged. Since every number is written once
// and behind the one before it, what a server holds shows what was lost, came twice or came in the
// wrong order, and which deliveries and acknowledgements it has forgotten.
type Witness struct {
	list, counter string
	stream        string
	random        *rand.Rand

	sent     int // the last number that was sent
	answered int // the last one that was answered
	promises []promise
	strays   *atomic.Int64 // how often a replica has strayed in the round
}

// promise is what WAIT has answered: so many replicas have all numbers up to one. It was asked when
// replicas had strayed so often.
type promise struct {
	number, replicas int
	strays           int64
}

// NewWitness makes a witness with keys of its own.
func NewWitness(name string, seed uint64, strays *atomic.Int64) *Witness {
	return &Witness{list: name + ":list", counter: name + ":counter", stream: name + ":stream", random: rand.New(rand.NewPCG(seed, 3)), strays: strays}
}

// testify writes until the load ends.
func (w *Witness) testify(c *resp.Connection, l *Load) error {
	if _, err := c.Must("select", witnessDatabase); err != nil {
		return err
	}
	if err := w.resume(c); err != nil {
		return err
	}
	for !l.ending.Load() {
		if err := w.write(c); err != nil {
			return err
		}
		l.written.Add(1)
		if w.random.IntN(8) == 0 {
			if err := w.wait(c); err != nil {
				return err
			}
		}
		pause(w.random)
	}
	return nil
}

// resume finds out whether the number that had no answer was taken.
func (w *Witness) resume(c *resp.Connection) error {
	reply, err := c.Must("llen", w.list)
	if err != nil {
		return err
	}
	length, _ := reply.Integer()
	if int(length) < w.answered || int(length) > w.sent {
		return violationf("%s holds %d numbers on the primary; %d were sent and %d answered", w.list, length, w.sent, w.answered)
	}
	w.sent, w.answered = int(length), int(length)
	created, err := c.Do("xgroup", "create", w.stream, group, "0", "mkstream")
	if err == nil && created.IsError() && !strings.HasPrefix(string(created.Text), "BUSYGROUP") {
		err = fmt.Errorf("chaos: XGROUP answers %s", created)
	}
	return err
}

const (
	group    = "group"
	consumer = "consumer"
)

// entry is the id of a number's entry.
func entry(number int) string { return strconv.Itoa(number) + "-1" }

func (w *Witness) write(c *resp.Connection) error {
	w.sent++
	c.Queue("multi")
	c.Queue("incr", w.counter)
	c.Queue("rpush", w.list, strconv.Itoa(w.sent))
	c.Queue("xadd", w.stream, entry(w.sent), "number", strconv.Itoa(w.sent))
	c.Queue("xreadgroup", "group", group, consumer, "count", "1", "streams", w.stream, ">")
	acknowledged := w.sent // an even one stays pending: 0 is no entry
	if w.sent%2 == 0 {
		acknowledged = 0
	}
	c.Queue("xack", w.stream, group, entry(acknowledged))
	c.Queue("exec")
	if err := c.Flush(); err != nil {
		return err
	}
	var reply resp.Reply
	for range 7 {
		var err error
		if reply, err = c.Read(); err != nil {
			return err
		}
	}
	if len(reply.Elements) != 5 {
		return fmt.Errorf("chaos: EXEC answers %s", reply) // as a primary does that is about to end
	}
	if got := reply.Elements[3].String(); !strings.Contains(got, strconv.Quote(entry(w.sent))) || strings.Count(got, "-1") != 1 {
		return violationf("the group of %s was given %s, and not %s", w.stream, got, entry(w.sent))
	}
	if n, _ := reply.Elements[4].Integer(); int(n) != w.sent%2 {
		return violationf("%d acknowledgements of entry %d of %s", n, w.sent, w.stream)
	}
	for _, element := range reply.Elements[:2] {
		if n, _ := element.Integer(); int(n) != w.sent {
			return violationf("number %d of %s was answered with %s", w.sent, w.list, reply)
		}
	}
	w.answered = w.sent
	return nil
}

func (w *Witness) wait(c *resp.Connection) error {
	strays := w.strays.Load()
	reply, err := c.Must("wait", strconv.Itoa(1+w.random.IntN(3)), "500")
	if err != nil {
		return err
	}
	replicas, _ := reply.Integer()
	w.promises = append(w.promises, promise{w.answered, int(replicas), strays})
	return nil
}

// promised is the last number that some replica still has to have, when so many have lost what they
// had, beside those that have strayed since WAIT was asked.
func (w *Witness) promised(lost int) int {
	for _, p := range slices.Backward(w.promises) {
		if p.replicas > lost+int(w.strays.Load()-p.strays) {
			return p.number
		}
	}
	return 0
}

// check compares what a server holds with what it has to hold: everything up to the number least,
// and nothing out of order.
func (w *Witness) check(m *Member, least int) error {
	numbers, counter, err := w.read(m)
	if err != nil {
		return err
	}
	if len(numbers) < least || len(numbers) > w.sent {
		return fmt.Errorf("%s holds %d numbers of %s, and must hold between %d and %d", m.name, len(numbers), w.list, least, w.sent)
	}
	for i, n := range numbers {
		if n != strconv.Itoa(i+1) {
			return fmt.Errorf("%s holds %s as number %d of %s", m.name, n, i+1, w.list)
		}
	}
	if counter != len(numbers) {
		return fmt.Errorf("%s counts %d in %s, and holds %d numbers", m.name, counter, w.counter, len(numbers))
	}
	return w.checkStream(m, len(numbers))
}

// checkStream compares a server's stream with what it is after so many numbers.
func (w *Witness) checkStream(m *Member, numbers int) error {
	if numbers == 0 {
		return nil // the group may be there or not
	}
	c, err := m.dial()
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := c.Must("select", witnessDatabase); err != nil {
		return err
	}
	entries, err := c.Must("xrange", w.stream, "-", "+")
	if err != nil {
		return err
	}
	pending, err := c.Must("xpending", w.stream, group, "-", "+", strconv.Itoa(numbers+1))
	if err != nil {
		return err
	}
	if len(entries.Elements) != numbers || len(pending.Elements) != numbers/2 {
		return fmt.Errorf("%s holds %d entries of %s, of which %d are pending, and must hold %d and %d", m.name, len(entries.Elements), w.stream,
			len(pending.Elements), numbers, numbers/2)
	}
	for i, one := range entries.Elements {
		if id := string(one.Elements[0].Text); id != entry(i+1) {
			return fmt.Errorf("%s holds %s as entry %d of %s", m.name, id, i+1, w.stream)
		}
	}
	for i, one := range pending.Elements {
		if id := string(one.Elements[0].Text); id != entry(2*i+2) {
			return fmt.Errorf("%s has %s pending in place of %s of %s", m.name, id, entry(2*i+2), w.stream)
		}
	}
	return nil
}

func (w *Witness) read(m *Member) (numbers []string, counter int, err error) {
	c, err := m.dial()
	if err != nil {
		return nil, 0, err
	}
	defer c.Close()
	if _, err := c.Must("select", witnessDatabase); err != nil {
		return nil, 0, err
	}
	list, err := c.Must("lrange", w.list, "0", "-1")
	if err != nil {
		return nil, 0, err
	}
	count, err := c.Must("get", w.counter)
	if err != nil {
		return nil, 0, err
	}
	if !count.Null {
		if counter, err = strconv.Atoi(string(count.Text)); err != nil {
			return nil, 0, err
		}
	}
	return list.Strings(), counter, nil
}

// observe reads a replica as long as the load lasts: at no time may it show half of a transaction,
// or a part of a snapshot.
func observe(m *Member, witnesses []*Witness, l *Load) {
	l.clients.Go(func() {
		for !l.ending.Load() {
			err := l.observeOnce(m, witnesses)
			if v, ok := err.(violation); ok {
				l.fail(v)
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
	})
}

func (l *Load) observeOnce(m *Member, witnesses []*Witness) error {
	c, err := resp.Dial(m.server.Load().Address, time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := c.Must("select", witnessDatabase); err != nil {
		return err
	}
	for !l.ending.Load() {
		for _, w := range witnesses {
			c.Queue("multi")
			c.Queue("get", w.counter)
			c.Queue("llen", w.list)
			c.Queue("exec")
			if err := c.Flush(); err != nil {
				return err
			}
			var reply resp.Reply
			for range 4 {
				if reply, err = c.Read(); err != nil {
					return err
				}
			}
			if len(reply.Elements) != 2 || reply.Elements[0].IsError() || reply.Elements[1].IsError() {
				return fmt.Errorf("chaos: EXEC answers %s", reply)
			}
			counter := string(reply.Elements[0].Text)
			if reply.Elements[0].Null {
				counter = "0"
			}
			if length := string(reply.Elements[1].Text); counter != length {
				return violationf("%s shows a counter of %s and %s numbers of %s", m.name, counter, length, w.list)
			}
		}
		time.Sleep(5 * time.Millisecond)
	}
	return nil
}
