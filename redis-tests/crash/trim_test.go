package crash

import (
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

// trimming is a long stream that one client trims while another one adds entries to it and deletes
// some.
type trimming struct {
	t       *testing.T
	random  *rand.Rand
	server  *launch.Server
	entries []int // their numbers, in order, before anything is trimmed
	added   int
	beside  int  // how many were added beside the last trimming
	trimmed bool // that one was acknowledged
	doubt   int  // the entry of a request that was sent last and not answered; 0 if there is none
}

const (
	trimmedFrom = 35_000 // entries, each in a node of its own, so that it takes several steps to sum them up
	trimmedTo   = 100
	trimKills   = 3
)

// How the server is ended.
const (
	killedAnyTime = iota
	stopped       // it writes down what is in memory: the mark, too, which isn't in the log
	killedTrimmed // as soon as the trimming is acknowledged
	waysToEnd
)

// TestKilledWhileTrimming kills or ends the server while it counts what a trim takes off.
// Afterwards the stream is whole, or trimmed, as it stays once that was acknowledged, and the next
// trim counts right, whether or not the last one has left a mark.
func TestKilledWhileTrimming(t *testing.T) {
	server, err := launch.MustUnderTest(t).Start(t.TempDir(), "--stream-node-max-entries", "1")
	if err != nil {
		t.Fatal(err)
	}
	x := &trimming{t: t, random: rand.New(rand.NewPCG(seeds.Of(t), 28)), server: server}
	defer func() { launch.End(t, x.server) }()
	for round := range max(trimKills, *rounds/10) {
		x.fill()
		x.endWhileTrimming(round % waysToEnd)
		if x.server, err = x.server.Restart(); err != nil {
			t.Fatal(err)
		}
		x.settle()
		x.thin()
		x.trim(1 + x.random.IntN(trimmedFrom/2))
	}
}

func (x *trimming) fill() {
	connection := x.server.MustDial(x.t)
	count := 0
	for ; len(x.entries) < trimmedFrom; count++ {
		connection.Queue(x.add()...)
	}
	replies(x.t, connection, count)
	x.doubt = 0
}

// thin deletes entries here and there, also before the mark that was left.
func (x *trimming) thin() {
	connection := x.server.MustDial(x.t)
	const entries = 50
	for range entries {
		connection.Queue(x.remove()...)
	}
	replies(x.t, connection, entries)
	x.doubt = 0
}

func (x *trimming) add() []string {
	x.added++
	x.entries, x.doubt = append(x.entries, x.added), x.added
	return []string{"xadd", "s", entryID(x.added), entryField, "v"}
}

func (x *trimming) remove() []string {
	at := x.random.IntN(len(x.entries))
	x.doubt = x.entries[at]
	x.entries = slices.Delete(x.entries, at, at+1)
	return []string{"xdel", "s", entryID(x.doubt)}
}

func (x *trimming) endWhileTrimming(way int) {
	trims, writes := x.server.MustDial(x.t), x.server.MustDial(x.t)
	trims.Queue("xtrim", "s", "maxlen", strconv.Itoa(trimmedTo))
	if err := trims.Flush(); err != nil {
		x.t.Fatal(err)
	}
	answered := make(chan struct{})
	go func() {
		reply, err := trims.Read()
		x.trimmed = err == nil && !reply.IsError()
		close(answered)
	}()
	before, ended, moment := x.added, make(chan error, 1), time.Duration(x.random.IntN(60))*time.Millisecond
	go func() {
		if way == killedTrimmed {
			<-answered
		} else {
			time.Sleep(moment)
		}
		if way == stopped {
			ended <- x.server.Shutdown()
			return
		}
		x.server.Kill()
		ended <- nil
	}()
	for {
		request := x.add
		if x.random.IntN(2) == 0 {
			request = x.remove
		}
		if _, err := writes.Do(request()...); err != nil {
			break
		}
		x.doubt = 0
	}
	x.beside = x.added - before
	if err := <-ended; err != nil {
		x.t.Fatal(err)
	}
	<-answered
	if way == killedTrimmed && !x.trimmed {
		x.t.Fatal("the trimming isn't acknowledged, though nobody has ended the server")
	}
}

// settle compares what the server has with what was written to it.
func (x *trimming) settle() {
	x.t.Helper()
	connection := x.server.MustDial(x.t)
	got := x.read(connection)
	if x.doubt != 0 {
		place, known := slices.BinarySearch(x.entries, x.doubt)
		switch _, found := slices.BinarySearch(got, x.doubt); {
		case found && !known: // it wasn't removed
			x.entries = slices.Insert(x.entries, place, x.doubt)
		case known && !found: // it wasn't added
			x.entries = slices.Delete(x.entries, place, place+1)
		}
		x.doubt = 0
	}
	if len(got) > len(x.entries) || !slices.Equal(got, x.entries[len(x.entries)-len(got):]) {
		x.t.Fatalf("%d entries are there, which aren't the last of the %d that should be", len(got), len(x.entries))
	}
	trimmed := len(x.entries) - len(got)
	if trimmed == 0 && x.trimmed {
		x.t.Fatalf("a trimming that was acknowledged is undone: %d entries are there", len(got))
	}
	if trimmed > 0 && len(got) > trimmedTo+x.beside {
		x.t.Fatalf("%d entries are gone, and %d are left: half of a trimming", trimmed, len(got))
	}
	x.entries = slices.Clone(got)
}

// read returns the numbers of the entries, as many as XLEN says.
func (x *trimming) read(connection *resp.Connection) (numbers []int) {
	x.t.Helper()
	entries, err := connection.Must("xrange", "s", "-", "+")
	if err != nil {
		x.t.Fatal(err)
	}
	for _, one := range entries.Elements {
		numbers = append(numbers, entryNumber(string(one.Elements[0].Text)))
	}
	if length, err := connection.Must("xlen", "s"); err != nil || length.String() != integer(len(numbers)) {
		x.t.Fatalf("XLEN is %s (%v), and there are %d entries", length, err, len(numbers))
	}
	return numbers
}

// trim trims to so many, and compares what is left.
func (x *trimming) trim(stay int) {
	x.t.Helper()
	connection := x.server.MustDial(x.t)
	stay = min(stay, len(x.entries))
	removed := len(x.entries) - stay
	request := []string{"xtrim", "s", "maxlen", strconv.Itoa(stay)}
	if x.random.IntN(2) == 0 {
		request = []string{"xtrim", "s", "minid", entryID(x.entries[removed])}
	}
	reply, err := connection.Must(request...)
	if err != nil || reply.String() != integer(removed) {
		x.t.Fatalf("%s: %s (%v), want %d", strings.Join(request, " "), reply, err, removed)
	}
	x.entries = x.entries[removed:]
	if got := x.read(connection); !slices.Equal(got, x.entries) {
		x.t.Fatalf("%d entries are left, want %d", len(got), len(x.entries))
	}
}
