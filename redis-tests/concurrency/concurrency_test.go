// Package concurrency lets many connections work on the same few keys, singly, in pipelines and in
// transactions, and checks that every request is answered and that what all of them see and leave
// is what some order of the commands gives.
//
// It imports the standard library and its neighbours in redis-tests, nothing of Kedis.
package concurrency

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"kedis/redis-tests/launch"
	"kedis/redis-tests/resp"
	"kedis/redis-tests/seed"
)

var scale = flag.Int("scale", 1, "how many times the work of the short form")

const (
	clients = 16
	// A server that has lost a request never answers it; one that is only slow isn't to be taken
	// for that.
	patience = 30 * time.Second
)

// together runs one function on each of several connections at the same time.
func together(t *testing.T, server *launch.Server, work func(c *resp.Connection, number int, random *rand.Rand) error) {
	t.Helper()
	results, first := make(chan error, clients), seed.Of(t)
	for number := range clients {
		connection := server.MustDial(t)
		connection.SetTimeout(patience)
		go func() {
			err := work(connection, number, rand.New(rand.NewPCG(first, uint64(number))))
			if err != nil {
				err = fmt.Errorf("client %d: %w", number, err)
			}
			results <- err
		}()
	}
	for range clients {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
}

// do sends requests in one write and reads the replies to all of them; an error reply is an error.
func do(c *resp.Connection, requests ...[]string) ([]resp.Reply, error) {
	for _, request := range requests {
		c.Queue(request...)
	}
	if err := c.Flush(); err != nil {
		return nil, err
	}
	replies := make([]resp.Reply, len(requests))
	for i := range requests {
		var err error
		if replies[i], err = c.Read(); err != nil {
			return nil, fmt.Errorf("reply %d of %d, to %s: %w", i+1, len(requests), resp.Line(requests[i]), err)
		}
		if replies[i].IsError() {
			return nil, fmt.Errorf("%s was answered %s", resp.Line(requests[i]), replies[i])
		}
	}
	return replies, nil
}

func expect(t *testing.T, c *resp.Connection, want string, request ...string) {
	t.Helper()
	if reply, err := c.Do(request...); err != nil || reply.String() != want {
		t.Errorf("%s: %s (%v), want %s", resp.Line(request), reply, err, want)
	}
}

func start(t *testing.T) *launch.Server { return launch.ForTest(t, launch.MustUnderTest(t)) }

func TestCounters(t *testing.T) {
	server := start(t)
	rounds := 300 * *scale
	together(t, server, func(c *resp.Connection, _ int, random *rand.Rand) error {
		for range rounds {
			requests := [][]string{{"incr", "counter"}, {"hincrby", "hash", "field", "1"}, {"zincrby", "zset", "1", "member"}, {"append", "text", "x"}}
			random.Shuffle(len(requests), func(i, j int) { requests[i], requests[j] = requests[j], requests[i] })
			if _, err := do(c, requests...); err != nil {
				return err
			}
		}
		return nil
	})
	total := strconv.Itoa(clients * rounds)
	c := server.MustDial(t)
	expect(t, c, `"`+total+`"`, "get", "counter")
	expect(t, c, `"`+total+`"`, "hget", "hash", "field")
	expect(t, c, `"`+total+`"`, "zscore", "zset", "member")
	expect(t, c, ":"+total, "strlen", "text")
}

// TestSale sells a stock under WATCH: whoever was overtaken tries again, and each piece is sold
// once.
func TestSale(t *testing.T) {
	server := start(t)
	c := server.MustDial(t)
	stock := 200 * *scale
	expect(t, c, "+OK", "set", "stock", strconv.Itoa(stock))
	together(t, server, func(c *resp.Connection, number int, _ *rand.Rand) error {
		for {
			replies, err := do(c, []string{"watch", "stock"}, []string{"get", "stock"})
			if err != nil {
				return err
			}
			if string(replies[1].Text) == "0" {
				return nil
			}
			// One by one and in one write by turns.
			sale := [][]string{{"multi"}, {"decr", "stock"}, {"rpush", "sales", strconv.Itoa(number)}, {"exec"}}
			if number%2 == 0 {
				_, err = do(c, sale...)
			} else {
				for _, request := range sale {
					if _, err = do(c, request); err != nil {
						break
					}
				}
			}
			if err != nil {
				return err
			}
		}
	})
	expect(t, c, `"0"`, "get", "stock")
	expect(t, c, ":"+strconv.Itoa(stock), "llen", "sales")
}

// TestTransfers moves money between accounts; the sum that anyone sees is always the same.
func TestTransfers(t *testing.T) {
	const accounts, each = 10, 1000
	server := start(t)
	c := server.MustDial(t)
	read := []string{"mget"}
	for i := range accounts {
		expect(t, c, "+OK", "set", account(i), strconv.Itoa(each))
		read = append(read, account(i))
	}
	rounds := 300 * *scale
	together(t, server, func(c *resp.Connection, number int, random *rand.Rand) error {
		for range rounds {
			if number%4 == 0 {
				if err := checkSum(c, read, accounts*each); err != nil {
					return err
				}
				continue
			}
			from, to, amount := account(random.IntN(accounts)), account(random.IntN(accounts)), strconv.Itoa(random.IntN(50))
			if _, err := do(c, []string{"multi"}, []string{"decrby", from, amount}, []string{"incrby", to, amount}, []string{"exec"}); err != nil {
				return err
			}
		}
		return nil
	})
	if err := checkSum(c, read, accounts*each); err != nil {
		t.Error(err)
	}
}

func account(i int) string { return "account" + strconv.Itoa(i) }

func checkSum(c *resp.Connection, read []string, want int) error {
	replies, err := do(c, read)
	if err != nil {
		return err
	}
	sum := 0
	for _, text := range replies[0].Strings() {
		n, err := strconv.Atoi(text)
		if err != nil {
			return err
		}
		sum += n
	}
	if sum != want {
		return fmt.Errorf("the accounts hold %d together, and should hold %d", sum, want)
	}
	return nil
}

// TestPairs writes two keys at once, in other orders and by other commands; nobody sees them
// differ.
func TestPairs(t *testing.T) {
	server := start(t)
	expect(t, server.MustDial(t), "+OK", "mset", "one", "0", "other", "0")
	rounds := 400 * *scale
	together(t, server, func(c *resp.Connection, number int, _ *rand.Rand) error {
		for i := range rounds {
			text := strconv.Itoa(number*rounds + i)
			var err error
			switch number % 3 {
			case 0:
				_, err = do(c, []string{"mset", "one", text, "other", text})
			case 1:
				_, err = do(c, []string{"multi"}, []string{"set", "other", text}, []string{"set", "one", text}, []string{"exec"})
			case 2:
				var replies []resp.Reply
				if replies, err = do(c, []string{"mget", "other", "one"}); err == nil {
					if seen := replies[0].Strings(); seen[0] != seen[1] {
						err = fmt.Errorf("saw %s and %s", seen[0], seen[1])
					}
				}
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// TestRing moves elements round a ring of lists; none is lost and none doubled.
func TestRing(t *testing.T) {
	const lists, elements = 5, 50
	server := start(t)
	c := server.MustDial(t)
	for i := range elements {
		if _, err := c.Must("rpush", "ring"+strconv.Itoa(i%lists), "element"+strconv.Itoa(i)); err != nil {
			t.Fatal(err)
		}
	}
	rounds := 150 * *scale
	together(t, server, func(c *resp.Connection, _ int, random *rand.Rand) error {
		for range rounds {
			var requests [][]string
			for range 1 + random.IntN(10) {
				from := random.IntN(lists)
				requests = append(requests, []string{"lmove", "ring" + strconv.Itoa(from), "ring" + strconv.Itoa((from+1)%lists), "left", "right"})
			}
			if _, err := do(c, requests...); err != nil {
				return err
			}
		}
		return nil
	})
	seen := map[string]int{}
	for i := range lists {
		reply, err := c.Must("lrange", "ring"+strconv.Itoa(i), "0", "-1")
		if err != nil {
			t.Fatal(err)
		}
		for _, element := range reply.Strings() {
			seen[element]++
		}
	}
	for i := range elements {
		if n := seen["element"+strconv.Itoa(i)]; n != 1 {
			t.Errorf("element %d is there %d times", i, n)
		}
	}
}

// TestWholeDatabases mixes writers with commands that take a whole database. Each writer sees its
// own pair of keys, or none of it.
func TestWholeDatabases(t *testing.T) {
	server := start(t)
	rounds := 100 * *scale
	together(t, server, func(c *resp.Connection, number int, random *rand.Rand) error {
		for range rounds {
			if number == 0 {
				requests := [][][]string{{{"flushdb"}}, {{"swapdb", "0", "1"}}, {{"dbsize"}, {"keys", "*"}}, {{"scan", "0", "count", "1000"}}}
				if _, err := do(c, requests[random.IntN(len(requests))]...); err != nil {
					return err
				}
				continue
			}
			one, other := "a"+strconv.Itoa(number), "b"+strconv.Itoa(number)
			replies, err := do(c, []string{"mset", one, "x", other, "x"}, []string{"exists", one, other}, []string{"mget", one, other})
			if err != nil {
				return err
			}
			if shown := replies[1].String(); shown != ":0" && shown != ":2" {
				return fmt.Errorf("%s of the two keys exist", shown)
			}
			if pair := replies[2].Elements; pair[0].Null != pair[1].Null {
				return errors.New("one key of the two is gone")
			}
		}
		return nil
	})
}

// TestLargeAndSmall mixes commands over large collections, which a server may run aside, with small
// ones on the same keys.
func TestLargeAndSmall(t *testing.T) {
	const members = 20_000
	server := start(t)
	c := server.MustDial(t)
	for _, key := range []string{"large", "other"} {
		request := []string{"sadd", key}
		for i := range members {
			request = append(request, key+strconv.Itoa(i))
		}
		expect(t, c, ":"+strconv.Itoa(members), request...)
	}
	rounds := 6 * *scale
	together(t, server, func(c *resp.Connection, number int, _ *rand.Rand) error {
		for i := range rounds {
			var requests [][]string
			switch number % 4 {
			case 0:
				requests = [][]string{{"sunionstore", "union", "large", "other"}, {"smembers", "large"}}
			case 1:
				requests = [][]string{{"sinter", "large", "other", "union"}, {"get", "small"}}
			default:
				member := fmt.Sprintf("added-%d-%d", number, i)
				requests = [][]string{{"sadd", "large", member}, {"incr", "small"}, {"scard", "union"}, {"sismember", "large", member}}
			}
			replies, err := do(c, requests...)
			if err != nil {
				return err
			}
			if last := replies[len(replies)-1]; number%4 > 1 && last.String() != ":1" {
				return fmt.Errorf("what was added isn't there: %s", last)
			}
		}
		return nil
	})
	added := clients / 2 * rounds
	expect(t, c, ":"+strconv.Itoa(members+added), "scard", "large")
	expect(t, c, `"`+strconv.Itoa(added)+`"`, "get", "small")
}
