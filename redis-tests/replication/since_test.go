package replication

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"testing"
	"time"

	"kedis/redis-tests/launch"
	"kedis/redis-tests/resp"
	"kedis/redis-tests/seed"
)

// TestSinceRedis7 runs, on a primary, what Redis 7.0 doesn't have. Its replicas, a Kedis and a
// Redis 7.0, come to the same data, streams with their groups and pending entries included: they
// are told in words of 7.0.
func TestSinceRedis7(t *testing.T) {
	primary := launch.ForTest(t, launch.MustUnderTest(t))
	replicas := []*launch.Server{launch.ForTest(t, launch.MustUnderTest(t)), launch.ForTest(t, launch.MustOracle(t))}
	c := primary.MustDial(t)
	for _, replica := range replicas {
		do(t, replica.MustDial(t), "REPLICAOF", "127.0.0.1", strconv.Itoa(primary.Port))
	}
	do(t, c, "CONFIG", "SET", "stream-node-max-entries", "4")
	g := sinceGenerator{Rand: rand.New(rand.NewPCG(seed.Of(t), 28))}
	errors := 0
	for i := range 1500 {
		reply, err := c.Do(g.request(i)...)
		if err != nil {
			t.Fatal(err)
		}
		if reply.IsError() {
			errors++
		}
	}
	if errors > 500 { // groups that are there, or aren't
		t.Errorf("%d requests failed", errors)
	}
	all := knowledge(t, primary)
	deadline := time.Now().Add(30 * time.Second)
	for _, replica := range replicas {
		for {
			got, want := knowledge(t, replica), all
			if replica.Program.IsRedis { // which counts what deleted entries leave of a lag otherwise before 7.4
				got, want = lag.ReplaceAllString(got, ""), lag.ReplaceAllString(want, "")
			}
			if got == want {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("a replica has other data:\n%s\n%s", want, got)
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
}

var lag = regexp.MustCompile(`"lag" (:-?\d+|nil|\(nil\)|null|_)`)

// knowledge is all that a server tells of what the requests are about, but for when consumers were
// seen.
func knowledge(t *testing.T, s *launch.Server) string {
	t.Helper()
	c := s.MustDial(t)
	text := do(t, c, "DEBUG", "DIGEST").String()
	for i := range sinceStreams {
		key := "s" + strconv.Itoa(i)
		for _, words := range [][]string{{"XLEN", key}, {"XRANGE", key, "-", "+"}, {"XINFO", "GROUPS", key}} {
			text += "\n" + ask(t, c, words...)
		}
		for group := range sinceGroups {
			text += "\n" + pendingOf(t, c, key, "g"+strconv.Itoa(group))
		}
	}
	return text
}

func ask(t *testing.T, c *resp.Connection, words ...string) string {
	t.Helper()
	reply, err := c.Do(words...)
	if err != nil {
		t.Fatal(err)
	}
	return reply.String()
}

// pendingOf is what is pending for a group: the entry, the consumer and the number of deliveries.
func pendingOf(t *testing.T, c *resp.Connection, key, group string) (text string) {
	t.Helper()
	reply, err := c.Do("XPENDING", key, group, "-", "+", "1000")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range reply.Elements {
		text += fmt.Sprint(" ", p.Elements[0], p.Elements[1], p.Elements[3])
	}
	return text
}

const (
	sinceStreams = 3
	sinceGroups  = 3
)

type sinceGenerator struct {
	*rand.Rand
	last int // entry, of any stream
}

func (g *sinceGenerator) stream() string    { return "s" + strconv.Itoa(g.IntN(sinceStreams)) }
func (g *sinceGenerator) group() string     { return "g" + strconv.Itoa(g.IntN(sinceGroups)) }
func (g *sinceGenerator) consumer() string  { return "c" + strconv.Itoa(g.IntN(3)) }
func (g *sinceGenerator) text() string      { return "k" + strconv.Itoa(g.IntN(5)) }
func (g *sinceGenerator) reference() string { return pick(g.Rand, "KEEPREF", "DELREF", "ACKED") }
func (g *sinceGenerator) entry() string     { return strconv.Itoa(max(g.last-g.IntN(60), 1)) + "-1" }

func pick(r *rand.Rand, words ...string) string { return words[r.IntN(len(words))] }

func (g *sinceGenerator) trimming() []string {
	words := []string{pick(g.Rand, "MAXLEN", "MINID"), pick(g.Rand, "=", "~"), strconv.Itoa(5 + g.IntN(20))}
	if words[0] == "MINID" {
		words[2] = g.entry()
	}
	return append(words, g.reference())
}

func (g *sinceGenerator) ids() []string {
	words := []string{"IDS", strconv.Itoa(1 + g.IntN(4))}
	for n, _ := strconv.Atoi(words[1]); n > 0; n-- {
		words = append(words, g.entry())
	}
	return words
}

func (g *sinceGenerator) request(i int) []string {
	switch g.IntN(16) {
	case 0:
		return []string{"XGROUP", "CREATE", g.stream(), g.group(), pick(g.Rand, "0", "$", g.entry()), "MKSTREAM"}
	case 1, 2, 3:
		g.last++
		return []string{"XADD", g.stream(), g.entryAbove(), "f", strconv.Itoa(i)}
	case 4:
		g.last++
		return append(append([]string{"XADD", g.stream()}, g.trimming()...), g.entryAbove(), "f", strconv.Itoa(i))
	case 5:
		return append([]string{"XTRIM", g.stream()}, g.trimming()...)
	case 6, 7:
		return append([]string{"XDELEX", g.stream(), g.reference()}, g.ids()...)
	case 8, 9:
		return append([]string{"XACKDEL", g.stream(), g.group(), g.reference()}, g.ids()...)
	case 10:
		return []string{"XREADGROUP", "GROUP", g.group(), g.consumer(), "COUNT", "5", "STREAMS", g.stream(), ">"}
	case 11:
		return []string{"XREADGROUP", "GROUP", g.group(), g.consumer(), "COUNT", "7", "CLAIM", "0", "STREAMS", g.stream(), ">"}
	case 12:
		return []string{"SET", g.text(), g.text(), pick(g.Rand, "IFEQ", "IFNE"), g.text(), pick(g.Rand, "GET", "KEEPTTL", "PXAT"), "4102444800000"}[:6+g.IntN(2)]
	case 13:
		return []string{pick(g.Rand, "DELIFEQ", "DELEX"), g.text(), pick(g.Rand, "IFEQ", "IFNE", g.text()), g.text()}[:3+g.IntN(2)]
	case 14:
		return []string{"MSETEX", "2", g.text(), g.text(), g.text(), g.text(), pick(g.Rand, "NX", "XX", "KEEPTTL")}
	}
	return []string{"SET", g.text(), g.text()}
}

func (g *sinceGenerator) entryAbove() string { return strconv.Itoa(g.last) + "-1" }
