package command

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"testing"

	"kedis/internal/resp"
	"kedis/redis-tests/seed"
	"kedis/server/execute"
	"kedis/storage"
	"kedis/storage/rdb"
)

// stream is what a replica applies in a test.
type stream struct {
	*execute.StreamApplier
	engine *Engine
}

func newStream(t *testing.T) stream {
	e, _ := newTestEngine(t)
	e.SetReplica(true, false)
	here, there := net.Pipe()
	f := e.NewStreamApplier(here, 0)
	t.Cleanup(func() {
		f.Close()
		_ = there.Close()
	})
	return stream{f, e}
}

func (s stream) apply(line ...string) error {
	return s.Apply(words(line...), resp.AppendRequest(nil, words(line...)...))
}

// slowLibrary takes some ten milliseconds to be loaded.
const slowLibrary = "#!lua name=slow\nfor i = 1, 10000000 do end\nredis.register_function('slow', function() end)"

// What a replica takes back of a primary's stream changes no libraries, and nobody is told of it.
// Otherwise a replica that is promoted in the midst of a FUNCTION LOAD would have a library that
// neither its store nor its log has, and no start could repeat its FUNCTION DELETE.
func TestTakenBackOfAStream(t *testing.T) {
	t.Run("Failed", func(t *testing.T) {
		s := newStream(t)
		for _, line := range [][]string{{"MULTI"}, {"FUNCTION", "LOAD", slowLibrary}, {"FUNCTION", "DELETE", "none"}} {
			if err := s.apply(line...); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.apply("EXEC"); !errors.Is(err, storage.ErrDiverged) {
			t.Fatalf("it is applied: %v", err)
		}
		expectLibrariesOfStore(t, s.engine)
	})
	t.Run("Stopped", func(t *testing.T) {
		s := newStream(t)
		applied := make(chan error)
		go func() { applied <- s.apply("FUNCTION", "LOAD", slowLibrary) }()
		for s.engine.Gate.TryEnter(0) { // until it runs
			s.engine.Gate.Leave(0)
		}
		s.Stop()
		if err := <-applied; err != nil && !errors.Is(err, execute.ErrStopped) { // it may have been faster
			t.Fatal(err)
		}
		expectLibrariesOfStore(t, s.engine)
	})
	t.Run("Message", func(t *testing.T) {
		s := newStream(t)
		sent := 0
		s.engine.Courier = func(messages []execute.Message) { sent += len(messages) }
		newTestClient(t, s.engine).Do("SUBSCRIBE", "channel")
		if err := s.apply("PUBLISH", "channel", "message"); err != nil {
			t.Fatal(err)
		}
		s.Stop()
		if err := s.Commit(); !errors.Is(err, execute.ErrStopped) || sent > 0 {
			t.Fatalf("%v, and %d messages are sent", err, sent)
		}
	})
}

// TestLibrariesAreTheStores changes libraries in all ways, beside databases that are emptied and
// exchanged. What clients find is what the store has, also when it is opened anew.
func TestLibrariesAreTheStores(t *testing.T) {
	e, _ := newTestEngine(t)
	c, random := newTestClient(t, e), rand.New(rand.NewPCG(seed.Of(t), 0))
	var dumps []string
	for step := range 150 {
		switch random.IntN(25) {
		case 0:
			if err := e.Store.Reopen(); err != nil {
				t.Fatal(err)
			}
		case 1, 2:
			if err := e.Store.Persist(); err != nil {
				t.Fatal(err)
			}
		case 3, 4:
			dump := c.Do("FUNCTION", "DUMP")
			dumps = append(dumps, strings.TrimSuffix(dump[strings.Index(dump, "\n")+1:], "\r\n"))
		case 5, 6, 7:
			c.Do("MULTI")
			for range 1 + random.IntN(4) {
				c.Do(changeOfLibraries(random, dumps, step)...)
			}
			c.Do([]string{"EXEC", "EXEC", "DISCARD"}[random.IntN(3)])
		default:
			c.Do(changeOfLibraries(random, dumps, step)...)
		}
		expectLibrariesOfStore(t, e)
	}
}

// changeOfLibraries is a request that may fail.
func changeOfLibraries(random *rand.Rand, dumps []string, version int) []string {
	name := string(rune('a' + random.IntN(3)))
	source := fmt.Sprintf("#!lua name=%s\nredis.register_function('%s', function() return %d end)", name, string(rune('a'+random.IntN(4))), version)
	lines := [][]string{{"FUNCTION", "LOAD", source}, {"FUNCTION", "LOAD", "REPLACE", source}, {"FUNCTION", "DELETE", name}, {"FUNCTION", "DELETE", name},
		{"FUNCTION", "FLUSH"}, {"FLUSHALL"}, {"SWAPDB", "0", "1"}, {"SET", name, source}}
	if len(dumps) > 0 {
		policies := []string{"FLUSH", "APPEND", "REPLACE"}
		lines = append(lines, []string{"FUNCTION", "RESTORE", dumps[random.IntN(len(dumps))], policies[random.IntN(len(policies))]})
	}
	return lines[random.IntN(len(lines))]
}

func expectLibrariesOfStore(t *testing.T, e *Engine) {
	t.Helper()
	var loaded, stored []string
	for _, l := range keptBy(e).functions.current.Load().list {
		loaded = append(loaded, string(l.source))
	}
	err := e.Store.LibrariesOf(nil, func(_ string, source []byte) error {
		stored = append(stored, string(source))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	count, _ := e.Store.Size(e.Store.Libraries())
	if !slices.Equal(loaded, stored) || count != int64(len(stored)) {
		t.Fatalf("clients find %q, the store %q, and counts %d", loaded, stored, count)
	}
}

// TestRestoredFunctionsReachOlderReplicas: a payload of a newer version is repeated as one that a
// Redis 7.0 reads.
func TestRestoredFunctionsReachOlderReplicas(t *testing.T) {
	e, log := newTestEngine(t)
	c := newTestClient(t, e)
	for _, name := range []string{"a", "b"} {
		c.Do("FUNCTION", "LOAD", fmt.Sprintf("#!lua name=%s\nredis.register_function('f%s', function() return 1 end)", name, name))
	}
	dump := c.Do("FUNCTION", "DUMP")
	own := strings.TrimSuffix(dump[strings.Index(dump, "\n")+1:], "\r\n")
	for version := rdb.Version; version <= 12; version++ {
		payload := binary.LittleEndian.AppendUint16([]byte(own[:len(own)-10]), uint16(version))
		payload = binary.LittleEndian.AppendUint64(payload, rdb.CRC64(0, payload))
		begin := len(log.Content)
		if reply := c.Do("FUNCTION", "RESTORE", string(payload), "FLUSH"); reply != "+OK\r\n" {
			t.Fatalf("version %d: %s", version, reply)
		}
		if effect := log.Content[begin:]; !bytes.Equal(effect, resp.AppendRequest(nil, words("FUNCTION", "RESTORE", own, "FLUSH")...)) {
			t.Errorf("version %d is repeated as %q", version, effect)
		}
	}
}
