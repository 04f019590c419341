package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"kedis/redis-tests/launch"
	"kedis/redis-tests/resp"
)

const (
	elementSize   = 16  // bytes of fields and members, which can't be compressed
	fieldSize     = 100 // bytes of a field's value
	scoreRange    = 1 << 30
	askers        = 8    // connections that ask a question, each at depth 1
	otherKeys     = 1000 // small strings that somebody else reads and writes meanwhile
	betweenOthers = time.Millisecond
)

// recordBytes are the bytes of the records that an element of each collection has.
var recordBytes = map[string]int64{"hash": 125, "board": 66, "set": 25}

// collectionRun is one server in a control group, with a hash, a sorted set and a set that its
// memory can't hold.
type collectionRun struct {
	*bench
	report *report
	server *launch.Server
	count  int // elements of each
}

// question is a request on a collection; {element}, {score}, {rank} and {last} stand for random
// ones.
type question struct {
	name    string
	request []string
}

var collectionQuestions = []question{
	{"HGET", []string{"HGET", "hash", "{element}"}},
	{"HRANDFIELD", []string{"HRANDFIELD", "hash"}},
	{"ZSCORE", []string{"ZSCORE", "board", "{element}"}},
	{"ZRANGEBYSCORE LIMIT 10", []string{"ZRANGEBYSCORE", "board", "{score}", "+inf", "LIMIT", "0", "10"}},
	{"ZRANK", []string{"ZRANK", "board", "{element}"}},
	{"ZRANGE of 10", []string{"ZRANGE", "board", "{rank}", "{last}"}},
	{"ZPOPMIN", []string{"ZPOPMIN", "board"}},
	{"SISMEMBER", []string{"SISMEMBER", "set", "{element}"}},
	{"SRANDMEMBER", []string{"SRANDMEMBER", "set"}},
	{"SPOP", []string{"SPOP", "set"}},
}

// firstQuestions are asked right after a start.
var firstQuestions = []question{collectionQuestions[4], collectionQuestions[5], collectionQuestions[9], collectionQuestions[1]}

// collections measures collections that are many times larger than the memory that the process and
// its page cache may use together: what a request reads, how long it takes, and how long others
// wait meanwhile.
func (b *bench) collections(r *report) (err error) {
	g, err := newGroup(b.memory)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.end()) }()
	return b.withServer(g.wrap(b.program), settings(b.memory), func(server *launch.Server) error {
		c := &collectionRun{b, r, server, b.elements}
		var bytes int64
		for _, kind := range b.kinds {
			bytes += recordBytes[kind]
		}
		if c.count == 0 {
			c.count = int(b.excess * b.memory / bytes)
		}
		r.text("Memory of the process and its page cache: at most %s. %v of %d elements each, %s; %d connections ask, another one reads and writes %d small "+
			"strings, a request each %v.", megabytes(b.memory), b.kinds, c.count, megabytes(int64(c.count)*bytes), askers, otherKeys, betweenOthers)
		defer func() { c.server.Kill() }()
		return errors.Join(c.run(), c.memory("at the end", g.peak()))
	})
}

func (c *collectionRun) run() error {
	began := time.Now()
	if err := c.load(); err != nil {
		return fmt.Errorf("load: %w", err)
	}
	c.report.line("the load: %v, %.0f elements/s", time.Since(began).Round(time.Second), float64(len(c.kinds)*c.count)/time.Since(began).Seconds())
	if err := c.settle(); err != nil {
		return err
	}
	c.report.header("after a start: the first", "ms", "the next 100: p50 ms", "p99", "others: p50 ms", "p99", "p99.9", "longest")
	for _, q := range c.asked(firstQuestions) {
		if err := c.askFirst(q); err != nil {
			return fmt.Errorf("%s after a start: %w", q.name, err)
		}
	}
	c.report.header("", "requests/s", "p50 ms", "p99", "p99.9", "longest", "blocks missed", "KB from disk", "others: p50 ms", "p99", "p99.9", "longest")
	for _, q := range c.asked(collectionQuestions) {
		if err := c.ask(q); err != nil {
			return fmt.Errorf("%s: %w", q.name, err)
		}
	}
	c.report.header("", "ms", "others: p50 ms", "p99", "p99.9", "longest")
	for _, key := range c.kinds {
		if err := c.remove(key); err != nil {
			return fmt.Errorf("UNLINK %s: %w", key, err)
		}
	}
	return nil
}

// asked are those of some questions whose collections there are.
func (c *collectionRun) asked(of []question) []question {
	return slices.DeleteFunc(slices.Clone(of), func(q question) bool { return !slices.Contains(c.kinds, q.request[1]) })
}

func (c *collectionRun) memory(when string, peak int64) error {
	now, err := resident(c.server, "VmRSS")
	if err != nil {
		return err
	}
	most, err := resident(c.server, "VmHWM")
	c.report.line("memory %s: resident %s, at most %s, the group at most %s", when, megabytes(now), megabytes(most), megabytes(peak))
	return err
}

func (c *collectionRun) settle() error {
	o, err := observe(c.server)
	if err != nil {
		return err
	}
	defer o.close()
	return o.settle(longest)
}

// element is that with a number.
func element(i int) string {
	var bytes [elementSize]byte
	binary.BigEndian.PutUint64(bytes[:], mix(uint64(i)))
	binary.BigEndian.PutUint64(bytes[8:], mix(uint64(i)<<32+1))
	return string(bytes[:])
}

func score(i int) string { return strconv.FormatUint(mix(uint64(i)+1<<40)%scoreRange, 10) }

// load adds all elements, in pipelines over some connections.
func (c *collectionRun) load() error {
	const connections, elements, requests = 4, 100, 8
	values := newData(0, fieldSize)
	return parallel(connections, func(n int) error {
		connection, err := c.dial()
		if err != nil {
			return err
		}
		defer connection.Close()
		random := rand.New(rand.NewPCG(1, uint64(n)))
		until := c.count * (n + 1) / connections
		for from := c.count * n / connections; from < until; from += elements * requests {
			if err := c.addElements(connection, values, random, from, min(from+elements*requests, until), elements); err != nil {
				return err
			}
		}
		return nil
	})
}

// addElements adds elements of a range to each collection, so many with a request.
func (c *collectionRun) addElements(connection *resp.Connection, values *data, random *rand.Rand, from, to, each int) error {
	sent := 0
	for ; from < to; from += each {
		for _, kind := range c.kinds {
			connection.Queue(additionOf(kind, values, random, from, min(from+each, to))...)
			sent++
		}
	}
	if err := connection.Flush(); err != nil {
		return err
	}
	for range sent {
		if reply, err := connection.Read(); err != nil || reply.IsError() {
			return errors.Join(err, fmt.Errorf("the server answered %s", reply))
		}
	}
	return nil
}

// additionOf is a request that adds the elements of a range to a collection.
func additionOf(kind string, values *data, random *rand.Rand, from, to int) []string {
	request := []string{map[string]string{"hash": "HSET", "board": "ZADD", "set": "SADD"}[kind], kind}
	for i := from; i < to; i++ {
		switch kind {
		case "hash":
			at := random.IntN(len(values.random) - fieldSize)
			request = append(request, element(i), string(values.random[at:at+fieldSize]))
		case "board":
			request = append(request, score(i), element(i))
		default:
			request = append(request, element(i))
		}
	}
	return request
}

func (c *collectionRun) dial() (*resp.Connection, error) {
	connection, err := c.server.Dial()
	if err == nil {
		connection.SetTimeout(5 * time.Minute)
	}
	return connection, err
}

// fill puts random words into a request.
func (c *collectionRun) fill(q question, random *rand.Rand) []string {
	request, rank := append([]string(nil), q.request...), random.IntN(c.count*9/10)
	for i, word := range request {
		switch word {
		case "{element}":
			request[i] = element(random.IntN(c.count))
		case "{score}":
			request[i] = strconv.Itoa(random.IntN(scoreRange))
		case "{rank}":
			request[i] = strconv.Itoa(rank)
		case "{last}":
			request[i] = strconv.Itoa(rank + 9)
		}
	}
	return request
}

// pace says when a question is asked again: every so often, or, 0, as soon as it is answered.
type pace struct{ first, every time.Duration }

// askAgain asks a question some times, or until a time. At a pace it counts how long an answer
// takes from when the question was due: what waits behind a slow one counts as slow too.
func (c *collectionRun) askAgain(q question, random *rand.Rand, p pace, times int, until time.Time, took *histogram) error {
	connection, err := c.dial()
	if err != nil {
		return err
	}
	defer connection.Close()
	due := time.Now().Add(p.first)
	for i := 0; i < times; i, due = i+1, due.Add(p.every) {
		if p.every == 0 {
			due = time.Now()
		}
		if !due.Before(until) {
			break
		}
		time.Sleep(time.Until(due))
		reply, err := connection.Do(c.fill(q, random)...)
		if err != nil || reply.IsError() {
			return errors.Join(err, fmt.Errorf("%s was answered %s", q.name, reply))
		}
		took.record(time.Since(due))
	}
	return nil
}

// others reads and writes small strings until work has ended, and returns how long each request has
// taken.
func (c *collectionRun) others(work func() error) (took *histogram, err error) {
	connection, err := c.dial()
	if err != nil {
		return nil, err
	}
	defer connection.Close()
	ended := make(chan error, 1)
	go func() { ended <- work() }()
	took = &histogram{}
	for i := 0; ; i++ {
		select {
		case err := <-ended:
			return took, err
		case <-time.After(betweenOthers):
		}
		request := []string{"SET", "other:" + strconv.Itoa(i/2%otherKeys), "something"}
		if i%2 == 1 {
			request = []string{"GET", request[1]}
		}
		began := time.Now()
		if _, err := connection.Must(request...); err != nil {
			return nil, errors.Join(err, <-ended)
		}
		took.record(time.Since(began))
	}
}

// askFirst restarts the server and asks a question for the first time, and then some times more.
func (c *collectionRun) askFirst(q question) error {
	if err := c.server.Shutdown(); err != nil {
		return err
	}
	restarted, err := c.server.Restart()
	if err != nil {
		return err
	}
	c.server = restarted
	first, next, random := &histogram{}, &histogram{}, rand.New(rand.NewPCG(2, 1))
	others, err := c.others(func() error {
		never := time.Now().Add(time.Hour)
		return errors.Join(c.askAgain(q, random, pace{}, 1, never, first), c.askAgain(q, random, pace{}, 100, never, next))
	})
	if err != nil {
		return err
	}
	c.report.row(append([]string{q.name, milliseconds(first.most), milliseconds(next.quantile(0.5)), milliseconds(next.quantile(0.99))}, quantiles(others)...)...)
	return c.memory("then", 0)
}

// answers are those to a question that was asked on all connections for a while.
type answers struct {
	took, others *histogram
	rate         float64 // answers/s
	misses, disk float64 // of each: blocks of RocksDB, and KB
}

// ask asks a question as fast as it is answered, and then half as often.
func (c *collectionRun) ask(q question) error {
	fast, err := c.askAll(q, 0)
	if err != nil {
		return err
	}
	c.answered(q.name, fast)
	half, err := c.askAll(q, fast.rate/2)
	if err != nil {
		return err
	}
	c.answered("– half as often", half)
	return nil
}

// answered reports how a question was answered.
func (c *collectionRun) answered(how string, a *answers) {
	row := append([]string{how, fmt.Sprintf("%.0f", a.rate)}, quantiles(a.took)...)
	row = append(row, fmt.Sprintf("%.1f", a.misses), fmt.Sprintf("%.1f", a.disk))
	c.report.row(append(row, quantiles(a.others)...)...)
}

// askAll asks a question on all connections for a while, so many times a second, or, 0, as fast as
// it is answered.
func (c *collectionRun) askAll(q question, rate float64) (*answers, error) {
	o, err := observe(c.server)
	if err != nil {
		return nil, err
	}
	defer o.close()
	misses, disk, err := c.reads(o)
	if err != nil {
		return nil, err
	}
	var every time.Duration
	if rate > 0 {
		every = time.Duration(askers / rate * float64(time.Second))
	}
	began, took := time.Now(), make([]histogram, askers)
	others, err := c.others(func() error {
		return parallel(askers, func(i int) error {
			p, random := pace{every * time.Duration(i) / askers, every}, rand.New(rand.NewPCG(uint64(began.UnixNano()), uint64(i)))
			return c.askAgain(q, random, p, math.MaxInt, began.Add(c.length), &took[i])
		})
	})
	if err != nil {
		return nil, err
	}
	a := &answers{took: &histogram{}, others: others}
	for i := range took {
		a.took.add(&took[i])
	}
	a.rate = float64(a.took.count) / time.Since(began).Seconds()
	missesAfter, diskAfter, err := c.reads(o)
	a.misses, a.disk = float64(missesAfter-misses)/float64(a.took.count), float64(diskAfter-disk)/1024/float64(a.took.count)
	return a, err
}

// reads is how many blocks RocksDB has missed in its cache, and the bytes that the process has read
// from the disk.
func (c *collectionRun) reads(o *observer) (misses, disk int64, err error) {
	fields, err := o.fields("rocksdb")
	if err != nil {
		return 0, 0, err
	}
	disk, err = launch.ProcessField(c.server.ProcessID(), "io", "read_bytes")
	return fields["rocksdb_block_cache_misses"], disk, err
}

// remove removes a collection, and goes on with others for a while.
func (c *collectionRun) remove(key string) error {
	connection, err := c.dial()
	if err != nil {
		return err
	}
	defer connection.Close()
	var took time.Duration
	others, err := c.others(func() error {
		began := time.Now()
		_, err := connection.Must("UNLINK", key)
		took = time.Since(began)
		time.Sleep(c.length)
		return err
	})
	if err != nil {
		return err
	}
	c.report.row(append([]string{"UNLINK " + key, milliseconds(took)}, quantiles(others)...)...)
	return nil
}
