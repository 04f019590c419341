// Command streams measures a stream that is larger than the server's memory, and a group with many
// pending entries: how long each request takes, how long requests of others take meanwhile, and how
// much memory the server has.
//
//	make bench-streams ENTRIES=100000000 PENDING=10000000
//
// It imports the standard library and its neighbours in redis-tests, nothing of Kedis.
package main

import (
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"kedis/redis-tests/launch"
	"kedis/redis-tests/resp"
)

var (
	entries = flag.Int("entries", 10_000_000, "entries of the stream")
	pending = flag.Int("pending", 1_000_000, "entries that are pending for a group")
	calls   = flag.Int("calls", 1000, "how often each request is sent")
	longest = flag.Duration("longest", 20*time.Second, "how long each request is sent at most")
	options = flag.String("options", "--memory-tier 512mb", "options of the server")
)

const (
	atATime   = 5000 // requests of a pipeline
	readCount = 2000 // entries of an XREADGROUP that fills
	consumers = 10
	patience  = 30 * time.Minute
)

func main() {
	flag.Parse()
	log.SetFlags(log.Ltime)
	if err := measure(); err != nil {
		log.Fatal(err)
	}
}

func measure() error {
	program, err := launch.UnderTest()
	if err != nil {
		return err
	}
	directory, err := os.MkdirTemp("", "kedis-bench-streams-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(directory) }()
	server, err := program.Start(directory, strings.Fields(*options)...)
	if err != nil {
		return err
	}
	defer func() { server.Kill() }()
	b := bench{server: server, random: rand.New(rand.NewPCG(1, 1))}
	if b.connection, err = server.Dial(); err != nil {
		return err
	}
	b.connection.SetTimeout(patience)
	if err := b.fill(); err != nil {
		return fmt.Errorf("%w\n%s", err, server.Output())
	}
	return b.run()
}

type bench struct {
	server     *launch.Server
	random     *rand.Rand
	connection *resp.Connection
	next       int // number of the entry that is added next
	read       int // entries that the group has got
}

// id is the id of an entry by its number.
func id(n int) string { return strconv.Itoa(n) + "-0" }

func (b *bench) fill() error {
	began := time.Now()
	for b.next < *entries {
		n := min(atATime, *entries-b.next)
		for range n {
			b.connection.Queue("XADD", "s", id(b.next+1), "sensor", strconv.Itoa(b.random.IntN(1000)), "value", strconv.Itoa(b.random.IntN(1e9)))
			b.next++
		}
		if err := b.replies(n); err != nil {
			return err
		}
		if b.next%(atATime*1000) == 0 {
			log.Printf("%d entries after %v, %d MB of memory", b.next, time.Since(began).Round(time.Second), b.memory())
		}
	}
	b.connection.Queue("XGROUP", "CREATE", "s", "g", "0")
	b.connection.Queue("SET", "other", "value")
	if err := b.replies(2); err != nil {
		return err
	}
	log.Printf("%d XADDs in %v, %d MB of memory", *entries, time.Since(began).Round(time.Second), b.memory())
	began = time.Now()
	for b.read < *pending {
		b.connection.Queue("XREADGROUP", "GROUP", "g", "c"+strconv.Itoa(b.random.IntN(consumers)), "COUNT", strconv.Itoa(readCount), "STREAMS", "s", ">")
		if err := b.replies(1); err != nil {
			return err
		}
		b.read += readCount
	}
	log.Printf("%d entries read by the group in %v, %d MB of memory", b.read, time.Since(began).Round(time.Second), b.memory())
	return nil
}

// replies reads the replies to what is queued.
func (b *bench) replies(n int) error {
	if err := b.connection.Flush(); err != nil {
		return err
	}
	for range n {
		if reply, err := b.connection.Read(); err != nil || reply.IsError() {
			return fmt.Errorf("%s %w", reply, err)
		}
	}
	return nil
}

// memory is the server's memory, in MB.
func (b *bench) memory() int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", b.server.ProcessID()))
	if err != nil {
		return 0
	}
	_, behind, _ := strings.Cut(string(text), "VmRSS:")
	kilobytes := 0
	_, _ = fmt.Sscan(behind, &kilobytes)
	return kilobytes / 1024
}

// measurement is a kind of request; {new}, {any}, {pending} and {consumer} stand for what they say.
type measurement struct {
	name, request string
	calls         int // 0: as many as ever
}

var measurements = []measurement{
	{"XADD", "XADD s {new} sensor 1 value 2", 0},
	{"XADD MAXLEN ~", "XADD s MAXLEN ~ {most} {new} sensor 1 value 2", 0},
	{"XRANGE COUNT 10", "XRANGE s {any} + COUNT 10", 0},
	{"XREAD of the last ten", "XREAD COUNT 10 STREAMS s {tenth}", 0},
	{"XREADGROUP", "XREADGROUP GROUP g {consumer} COUNT 10 STREAMS s >", 0},
	{"XREADGROUP of history", "XREADGROUP GROUP g {consumer} COUNT 10 STREAMS s 0", 0},
	{"XACK", "XACK s g {pending}", 0},
	{"XPENDING", "XPENDING s g", 0},
	{"XPENDING COUNT 10", "XPENDING s g {pending} + 10", 0},
	{"XPENDING IDLE, none", "XPENDING s g IDLE 86400000 - + 10", 1},
	{"XCLAIM", "XCLAIM s g {consumer} 0 {pending}", 0},
	{"XAUTOCLAIM COUNT 100", "XAUTOCLAIM s g {consumer} 0 {pending} COUNT 100", 0},
	{"XREADGROUP CLAIM COUNT 10", "XREADGROUP GROUP g {consumer} COUNT 10 CLAIM 1000 STREAMS s >", 0},
	{"XINFO STREAM", "XINFO STREAM s", 0},
	{"XINFO GROUPS", "XINFO GROUPS s", 0},
	{"XDEL", "XDEL s {any}", 0},
	{"XTRIM MAXLEN ~ by 100,000", "XTRIM s MAXLEN ~ {fewer}", 20},
	{"XTRIM MAXLEN by 1", "XTRIM s MAXLEN {one}", 0},
	{"XTRIM to half", "XTRIM s MAXLEN {half}", 1},
	{"XGROUP DELCONSUMER", "XGROUP DELCONSUMER s g {consumer}", 2},
	{"XGROUP DESTROY", "XGROUP DESTROY s g", 1},
	{"DEL", "DEL s", 1},
}

func (b *bench) run() error {
	fmt.Printf("| request | median | p99 | slowest | others' p99 | others' slowest |\n|---|---|---|---|---|---|\n")
	for _, m := range measurements {
		if err := b.measure(m); err != nil {
			return fmt.Errorf("%s: %w\n%s", m.name, err, b.server.Output())
		}
	}
	log.Printf("%d MB of memory", b.memory())
	return nil
}

func (b *bench) measure(m measurement) error {
	length, err := b.length()
	if err != nil {
		return err
	}
	others, err := b.others()
	if err != nil {
		return err
	}
	var times []time.Duration
	n := m.calls
	if n == 0 {
		n = *calls
	}
	for began := time.Now(); len(times) < n && time.Since(began) < *longest; {
		request := b.words(m.request, &length)
		sent := time.Now()
		reply, err := b.connection.Do(request...)
		if err != nil || reply.IsError() {
			return fmt.Errorf("%s %w", reply, err)
		}
		times = append(times, time.Since(sent))
	}
	meanwhile, err := others()
	if err != nil {
		return err
	}
	fmt.Printf("| %s | %v | %v | %v | %v | %v |\n", m.name, at(times, 0.5), at(times, 0.99), at(times, 1), at(meanwhile, 0.99), at(meanwhile, 1))
	return nil
}

func (b *bench) length() (int, error) {
	reply, err := b.connection.Do("XLEN", "s")
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(string(reply.Text))
}

func (b *bench) words(request string, length *int) []string {
	words := strings.Fields(request)
	for i, word := range words {
		switch word {
		case "{new}":
			b.next++
			words[i] = id(b.next)
		case "{any}":
			words[i] = id(1 + b.random.IntN(*entries))
		case "{tenth}":
			words[i] = id(b.next - 10)
		case "{pending}":
			words[i] = id(1 + b.random.IntN(*pending))
		case "{consumer}":
			words[i] = "c" + strconv.Itoa(b.random.IntN(consumers))
		case "{most}":
			words[i] = strconv.Itoa(*entries)
		case "{fewer}":
			*length = max(*length-100_000, 0)
			words[i] = strconv.Itoa(*length)
		case "{one}":
			*length = max(*length-1, 0)
			words[i] = strconv.Itoa(*length)
		case "{half}":
			words[i] = strconv.Itoa(*length / 2)
		}
	}
	return words
}

// others begins to send the requests of another client, one after the other, and returns what ends
// that and tells how long each took.
func (b *bench) others() (end func() ([]time.Duration, error), err error) {
	connection, err := b.server.Dial()
	if err != nil {
		return nil, err
	}
	stop, done := make(chan struct{}), make(chan error, 1)
	var times []time.Duration
	go func() {
		for {
			select {
			case <-stop:
				done <- connection.Close()
				return
			default:
			}
			sent := time.Now()
			if _, err := connection.Do("GET", "other"); err != nil {
				done <- err
				return
			}
			times = append(times, time.Since(sent))
			time.Sleep(500 * time.Microsecond)
		}
	}()
	return func() ([]time.Duration, error) {
		close(stop)
		err := <-done
		return times, err
	}, nil
}

// at is the time below which a share of the times is.
func at(times []time.Duration, share float64) time.Duration {
	if len(times) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(times))
	return sorted[min(int(share*float64(len(sorted))), len(sorted)-1)].Round(10 * time.Microsecond)
}
