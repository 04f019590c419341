package differential

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// Step is one thing that is done to both servers.
type Step struct {
	Connection int
	Line       []string // a request; or, when it begins with @, one of the driver's own doings (see driver.go)
	Joined     bool     // sent in one write with the step before it
	Random     uint64   // for the driver's own choices in this step
}

// Generator makes steps from a seed: equal seeds make equal steps.
type Generator struct {
	random    *rand.Rand
	parsed    []weighted
	total     int
	connected int // how many connections there are
	waiting   []Step
	inside    map[int]bool // connections that are in a transaction
	entries   int          // how many have an id of laterID
}

type weighted struct {
	until     int // cumulated weights
	templates []template
}

const connections = 3

// NewGenerator returns the generator of an epoch of a run.
func NewGenerator(seed, epoch uint64) *Generator {
	g := &Generator{random: rand.New(rand.NewPCG(seed, epoch)), connected: connections, inside: map[int]bool{}}
	for _, family := range families {
		g.total += family.weight
		w := weighted{until: g.total}
		for _, text := range family.templates {
			w.templates = append(w.templates, parseTemplate(text))
		}
		g.parsed = append(g.parsed, w)
	}
	return g
}

func (g *Generator) chance(probability float64) bool { return g.random.Float64() < probability }
func (g *Generator) below(n int) int                 { return g.random.IntN(n) }

// bytes makes n bytes of any value.
func (g *Generator) bytes(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(g.random.Uint32())
	}
	return string(b)
}

// large makes a value of up to a few thousand bytes, which compresses or doesn't.
func (g *Generator) large() string {
	n := 1000 + g.below(4000)
	if g.chance(0.5) {
		return g.bytes(n)
	}
	return strings.Repeat("compressible ", n/13)
}

// anyFloat makes a float64 of random bits, but none that is not a number.
func (g *Generator) anyFloat() float64 {
	for {
		if f := math.Float64frombits(g.random.Uint64()); !math.IsNaN(f) {
			return f
		}
	}
}

// numbered makes a number of keys, with that number before them; now and then with a wrong one.
func (g *Generator) numbered(kind string) []string {
	n := 1 + g.below(3)
	said := strconv.Itoa(n)
	if g.chance(0.05) {
		said = pick(g, "0", "-1", "2", "5", "abc", "9223372036854775807")
	}
	line := []string{said}
	for range n {
		line = append(line, keyOf(kind, 4)(g)...)
	}
	return line
}

// Next makes one step.
func (g *Generator) Next() Step {
	if len(g.waiting) == 0 {
		g.plan()
	}
	step := g.waiting[0]
	g.waiting = g.waiting[1:]
	step.Random = g.random.Uint64()
	return step
}

// plan appends a step or several that belong together to g.waiting.
func (g *Generator) plan() {
	connection := g.below(g.connected)
	switch roll := g.random.Float64(); {
	case roll < 0.02:
		g.transaction(connection)
	case roll < 0.06:
		g.pipeline(connection)
	case roll < 0.065:
		g.add(connection, pick(g, "multi", "exec", "discard", "unwatch", "watch"))
	default:
		g.addAlone(connection, g.command())
	}
}

func (g *Generator) add(connection int, line ...string) {
	g.waiting = append(g.waiting, Step{Connection: connection, Line: line})
}

// addAlone adds a command, and the pause that a short expiry needs behind it.
func (g *Generator) addAlone(connection int, line []string) {
	g.add(connection, line...)
	if line[0] == "@short" {
		g.add(connection, "@pause")
	}
}

// pipeline adds commands that are sent in one write.
func (g *Generator) pipeline(connection int) {
	for i := range 2 + g.below(20) {
		line := g.plainCommand()
		g.waiting = append(g.waiting, Step{Connection: connection, Line: line, Joined: i > 0})
	}
}

// transaction adds a MULTI with what may come before, within and after it, other connections'
// commands included.
func (g *Generator) transaction(connection int) {
	if g.chance(0.5) {
		g.add(connection, "watch", anyKey(g), anyKey(g))
		for range g.below(3) {
			g.addAlone(g.below(g.connected), g.command())
		}
	}
	joined := g.chance(0.3)
	g.add(connection, "multi")
	for range g.below(12) {
		g.waiting = append(g.waiting, Step{Connection: connection, Line: g.plainCommand(), Joined: joined})
		if !joined && g.chance(0.1) {
			if other := g.below(g.connected); other != connection {
				g.addAlone(other, g.command())
			}
		}
	}
	end := "exec"
	if g.chance(0.15) {
		end = "discard"
	}
	g.waiting = append(g.waiting, Step{Connection: connection, Line: []string{end}, Joined: joined})
}

// command makes a command, or something of the driver's own.
func (g *Generator) command() []string {
	line := g.draw()
	if isOwn(line) {
		return line
	}
	return g.harmless(g.changeCase(g.mutate(line)))
}

// plainCommand makes a command that can be part of a pipeline or a transaction.
func (g *Generator) plainCommand() []string {
	for {
		line := g.draw()
		if isOwn(line) || slices.Contains(aloneOnly, line[0]) {
			continue
		}
		line = g.harmless(g.changeCase(g.mutate(line)))
		if !refusedWhenQueued(line) {
			return line
		}
	}
}

// aloneOnly are the commands of which the driver has to see the replies before anything else is
// sent.
var aloneOnly = []string{"spop", "pfadd", "zremrangebylex", "zrangestore", "dbsize", "reset", "debug", "sort", "sort_ro"}

func (g *Generator) draw() []string {
	roll := g.below(g.total)
	for _, w := range g.parsed {
		if roll < w.until {
			return w.templates[g.below(len(w.templates))].body.expand(g, nil)
		}
	}
	panic("differential: weights don't add up")
}

// mutate makes a mistake in one command of 25.
func (g *Generator) mutate(line []string) []string {
	if !g.chance(0.04) {
		return line
	}
	at := g.below(len(line))
	switch g.below(6) {
	case 0:
		if len(line) > 1 && at > 0 {
			line = slices.Delete(line, at, at+1)
		}
	case 1:
		line = line[:1+at]
	case 2:
		line = slices.Insert(line, 1+at, value(g))
	case 3:
		if at > 0 {
			line[at] = value(g)
		}
	case 4:
		if other := g.below(len(line)); at > 0 && other > 0 {
			line[at], line[other] = line[other], line[at]
		}
	case 5:
		line = append(line, line[at])
	}
	return line
}

// changeCase writes a word in capitals now and then, which may be a key or a value as well.
func (g *Generator) changeCase(line []string) []string {
	if g.chance(0.1) {
		at := g.below(len(line))
		line[at] = strings.ToUpper(line[at])
	}
	return line
}
