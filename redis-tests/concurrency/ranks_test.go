package concurrency

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"kedis/redis-tests/launch"
	"kedis/redis-tests/resp"
	"kedis/redis-tests/seed"
)

// ranked is how many members the sorted set of the tests has: so many that they aren't counted by
// one command on a reactor.
const ranked = 30000

// fill gives members scores that others have too.
func fill(t *testing.T, c *resp.Connection) {
	t.Helper()
	for from := 0; from < ranked; from += 500 {
		request := []string{"ZADD", "board"}
		for i := range 500 {
			request = append(request, strconv.Itoa((from+i)*7919%5000), fmt.Sprintf("m%05d", from+i))
		}
		expect(t, c, ":500", request...)
	}
}

// question asks for ranks, or for what is at one.
func question(random *rand.Rand) []string {
	member := fmt.Sprintf("m%05d", random.IntN(ranked+ranked/10))
	place, score := strconv.Itoa(random.IntN(2*ranked)-ranked), strconv.Itoa(random.IntN(5000))
	switch random.IntN(9) {
	case 0:
		return []string{"ZREVRANK", "board", member}
	case 1:
		return []string{"ZRANGE", "board", place, place, "REV", "WITHSCORES"}
	case 2:
		return []string{"ZRANGE", "board", place, "+inf", "BYSCORE", "LIMIT", strconv.Itoa(random.IntN(ranked)), "3"}
	case 3:
		return []string{"ZCOUNT", "board", "(" + score, strconv.Itoa(random.IntN(5000))}
	case 4:
		return []string{"ZREVRANGEBYSCORE", "board", "(" + score, "-inf", "LIMIT", strconv.Itoa(random.IntN(ranked)), "3"}
	case 5:
		return []string{"ZRANGE", "board", place, place}
	}
	return []string{"ZRANK", "board", member}
}

// change changes the set; what it does doesn't depend on chance of the server's.
func change(random *rand.Rand) []string {
	member := fmt.Sprintf("m%05d", random.IntN(ranked+ranked/10))
	switch random.IntN(12) {
	case 0:
		from := random.IntN(ranked)
		return []string{"ZREMRANGEBYRANK", "board", strconv.Itoa(from), strconv.Itoa(from + random.IntN(20))}
	case 1:
		return []string{"ZPOPMIN", "board", "3"}
	case 2:
		return []string{"ZPOPMAX", "board"}
	case 3, 4, 5:
		return []string{"ZREM", "board", member}
	case 6, 7:
		return []string{"ZINCRBY", "board", strconv.Itoa(random.IntN(2001) - 1000), member}
	}
	return []string{"ZADD", "board", strconv.Itoa(random.IntN(5000)), member}
}

// Writes, questions, and transactions of both, some of which are discarded or fail in part, are
// answered as Redis answers them.
func TestRanksAsRedis(t *testing.T) {
	oracle, underTest := launch.Pair(t)
	random := rand.New(rand.NewPCG(seed.Of(t), 1))
	one, other := oracle.MustDial(t), underTest.MustDial(t)
	fill(t, one)
	fill(t, other)
	for step := range 150 * *scale {
		var requests [][]string
		for range 20 {
			switch random.IntN(12) {
			case 0:
				requests = append(requests, []string{"MULTI"}, change(random), question(random), []string{"ZADD", "board", "1", "m00001", "x", "y"},
					change(random), question(random), []string{"EXEC"})
			case 1:
				requests = append(requests, []string{"MULTI"}, change(random), []string{"DISCARD"})
			case 2, 3, 4:
				requests = append(requests, change(random))
			default:
				requests = append(requests, question(random))
			}
		}
		want, got := answers(t, one, requests), answers(t, other, requests)
		for i := range requests {
			if got[i] != want[i] {
				t.Fatalf("step %d: %s was answered\n%s\nby Redis\n%s", step, resp.Line(requests[i]), got[i], want[i])
			}
		}
	}
}

// answers sends requests as a pipeline and returns the replies, errors among them.
func answers(t *testing.T, c *resp.Connection, requests [][]string) []string {
	t.Helper()
	for _, request := range requests {
		c.Queue(request...)
	}
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	replies := make([]string, len(requests))
	for i := range requests {
		reply, err := c.Read()
		if err != nil {
			t.Fatal(err)
		}
		replies[i] = reply.String()
	}
	return replies
}

// Beside writers, whatever one transaction sees of the ranks agrees, and in the end all ranks are
// right.
func TestRanks(t *testing.T) {
	server := start(t)
	fill(t, server.MustDial(t))
	together(t, server, func(c *resp.Connection, number int, random *rand.Rand) error {
		for range 60 * *scale {
			if number%4 > 0 {
				if _, err := do(c, change(random), change(random), change(random), question(random)); err != nil {
					return err
				}
				continue
			}
			if err := agree(c, fmt.Sprintf("m%05d", random.IntN(ranked)), strconv.Itoa(random.IntN(5000))); err != nil {
				return err
			}
		}
		return nil
	})
	checkRanks(t, server.MustDial(t))
}

// agree looks at one member in several ways at once.
func agree(c *resp.Connection, member, score string) error {
	replies, err := do(c, []string{"MULTI"}, []string{"ZADD", "board", score, member}, []string{"ZRANK", "board", member},
		[]string{"ZREVRANK", "board", member}, []string{"ZCARD", "board"}, []string{"ZCOUNT", "board", "-inf", "(" + score},
		[]string{"ZCOUNT", "board", "-inf", score}, []string{"EXEC"})
	if err != nil {
		return err
	}
	var seen [6]int
	for i, reply := range replies[len(replies)-1].Elements {
		if seen[i], err = strconv.Atoi(string(reply.Text)); err != nil {
			return err
		}
	}
	rank, reverse, members, below, upTo := seen[1], seen[2], seen[3], seen[4], seen[5]
	if rank+reverse+1 != members || rank < below || rank >= upTo {
		return fmt.Errorf("rank %d, from the end %d, of %d members; %d have lower scores, and %d no higher ones", rank, reverse, members, below, upTo)
	}
	return nil
}

// checkRanks compares ranks with the order of all members.
func checkRanks(t *testing.T, c *resp.Connection) {
	t.Helper()
	all, err := c.Do("ZRANGE", "board", "0", "-1")
	if err != nil {
		t.Fatal(err)
	}
	for i, member := range all.Elements {
		c.Queue("ZRANK", "board", string(member.Text))
		if i%500 == 499 || i == len(all.Elements)-1 {
			if err := c.Flush(); err != nil {
				t.Fatal(err)
			}
			for want := i / 500 * 500; want <= i; want++ {
				if reply, err := c.Read(); err != nil || string(reply.Text) != strconv.Itoa(want) {
					t.Fatalf("the rank of %q is %s (%v), want %d", all.Elements[want].Text, reply, err, want)
				}
			}
		}
	}
}
