// Command ranks measures how fast a large sorted set answers questions for ranks, beside
// redis-server: the first question after a start, then each kind of question, first alone and then
// with writes in between.
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
	"time"

	"kedis/redis-tests/launch"
	"kedis/redis-tests/resp"
)

var (
	members = flag.Int("members", 1000000, "members of the sorted set")
	calls   = flag.Int("calls", 1000, "how often each question is asked")
	longest = flag.Duration("longest", 15*time.Second, "how long each question is asked at most")
)

const (
	scores         = 100000000
	writesBetween  = 5   // ZADDs before each question of the second part
	pairsPerZAdd   = 250 // when the set is filled
	membersAtATime = 10 * pairsPerZAdd
)

// questions are commands; {member}, {score} and {rank} stand for random ones.
var questions = [][]string{
	{"ZRANK", "board", "{member}"},
	{"ZREVRANK", "board", "{member}"},
	{"ZRANGE", "board", "{rank}", "{rank}"},
	{"ZCOUNT", "board", "{score}", "+inf"},
	{"ZRANGE", "board", "-inf", "+inf", "BYSCORE", "LIMIT", "{half}", "10"},
	{"ZRANDMEMBER", "board"},
	{"ZREMRANGEBYRANK", "board", "{rank}", "{rank}"},
	{"ZSCORE", "board", "{member}"},
}

func main() {
	flag.Parse()
	log.SetFlags(0)
	if err := compare(); err != nil {
		log.Fatal(err)
	}
}

func compare() error {
	kedis, err := launch.UnderTest()
	if err != nil {
		return err
	}
	if err := measure("Kedis", kedis); err != nil {
		return err
	}
	redis, err := launch.Oracle()
	if err != nil {
		return err
	}
	return measure("Redis", redis, "--save", "", "--appendonly", "yes", "--auto-aof-rewrite-percentage", "0")
}

func measure(name string, program launch.Program, options ...string) error {
	directory, err := os.MkdirTemp("", "kedis-bench-ranks-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(directory) }()
	server, err := program.Start(directory, options...)
	if err != nil {
		return err
	}
	defer func() { server.Kill() }()
	b := bench{random: rand.New(rand.NewPCG(1, 1))}
	if err := b.connect(server); err != nil {
		return err
	}
	if err := b.fill(); err != nil {
		return err
	}
	if err := server.Shutdown(); err != nil {
		return err
	}
	restarted, err := server.Restart()
	if err != nil {
		return err
	}
	server = restarted
	if err := b.connect(server); err != nil {
		return err
	}
	return b.run(name)
}

type bench struct {
	random     *rand.Rand
	server     *launch.Server
	connection *resp.Connection
}

func (b *bench) connect(server *launch.Server) (err error) {
	b.server = server
	if b.connection, err = server.Dial(); err == nil {
		b.connection.SetTimeout(5 * time.Minute)
	}
	return err
}

func (b *bench) member() string { return fmt.Sprintf("player:%08d", b.random.IntN(*members)) }
func (b *bench) score() string  { return strconv.Itoa(b.random.IntN(scores)) }

func (b *bench) fill() error {
	for from := 0; from < *members; from += membersAtATime {
		for i := from; i < min(from+membersAtATime, *members); i += pairsPerZAdd {
			request := []string{"ZADD", "board"}
			for k := i; k < min(i+pairsPerZAdd, *members); k++ {
				request = append(request, b.score(), fmt.Sprintf("player:%08d", k))
			}
			b.connection.Queue(request...)
		}
		if err := b.connection.Flush(); err != nil {
			return err
		}
		for i := from; i < min(from+membersAtATime, *members); i += pairsPerZAdd {
			if _, err := b.connection.Read(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *bench) run(name string) error {
	last, err := b.connection.Do("ZREVRANGE", "board", "0", "0")
	if err != nil {
		return err
	}
	used, err := launch.ProcessorTime(b.server.ProcessID())
	if err != nil {
		return err
	}
	began := time.Now()
	if _, err := b.connection.Do("ZRANK", "board", string(last.Elements[0].Text)); err != nil {
		return err
	}
	took := time.Since(began)
	after, err := launch.ProcessorTime(b.server.ProcessID())
	if err != nil {
		return err
	}
	fmt.Printf("\n%s, %d members: the first question after a start, the rank of the last member, takes %.0f ms (%.0f ms of the processor)\n\n",
		name, *members, took.Seconds()*1e3, (after-used).Seconds()*1e3)
	fmt.Println("| | p50 µs | p99 µs | processor µs | with writes: p50 µs | p99 µs |\n|---|---|---|---|---|---|")
	for _, question := range questions {
		alone, processor, err := b.ask(question, 0)
		if err != nil {
			return err
		}
		beside, _, err := b.ask(question, writesBetween)
		if err != nil {
			return err
		}
		fmt.Printf("| %s | %d | %d | %d | %d | %d |\n", resp.Line(question), at(alone, 0.5), at(alone, 0.99), processor.Microseconds(),
			at(beside, 0.5), at(beside, 0.99))
	}
	return nil
}

func at(sorted []time.Duration, share float64) int64 {
	return sorted[int(float64(len(sorted)-1)*share)].Microseconds()
}

// ask asks a question again and again, with writes before each, and returns how long the answers
// took, in order, and the server's time of the processor for each.
func (b *bench) ask(question []string, writes int) (took []time.Duration, processor time.Duration, err error) {
	used, err := launch.ProcessorTime(b.server.ProcessID())
	if err != nil {
		return nil, 0, err
	}
	end := time.Now().Add(*longest)
	for len(took) < *calls && time.Now().Before(end) {
		for range writes {
			if _, err := b.connection.Do("ZADD", "board", b.score(), b.member()); err != nil {
				return nil, 0, err
			}
		}
		request := b.fillIn(question)
		began := time.Now()
		if _, err := b.connection.Do(request...); err != nil {
			return nil, 0, err
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	after, err := launch.ProcessorTime(b.server.ProcessID())
	return took, (after - used) / time.Duration(max(len(took), 1)), err
}

func (b *bench) fillIn(question []string) []string {
	request, rank := slices.Clone(question), strconv.Itoa(b.random.IntN(*members))
	for i, word := range request {
		switch word {
		case "{member}":
			request[i] = b.member()
		case "{score}":
			request[i] = b.score()
		case "{rank}":
			request[i] = rank
		case "{half}":
			request[i] = strconv.Itoa(*members / 2)
		}
	}
	return request
}
