package crash

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"kedis/redis-tests/resp"
)

// Streams in the model: the list of a Value are its entries, the text is the group's last entry, and the fields are the group's pending
// entries with their consumers. Each stream has at most one group. Entries are numbered by the generator, so ids only grow.

const (
	kindStream = "stream"
	group      = "g"
	entryField = "f"
)

// entryID is the id of the entry with a number.
func entryID(n int) string { return strconv.Itoa(n) + "-1" }

func entryNumber(id string) int { return number(strings.TrimSuffix(id, "-1")) }

func makeEntry(g *Generator) []string {
	g.entries++
	return []string{"xadd", g.key("q"), entryID(g.entries), entryField, g.text()}
}

func makeGroup(g *Generator) []string {
	return []string{"xgroup", "create", g.key("q"), group, "0", "mkstream"}
}

func makeDelivery(g *Generator) []string {
	return []string{"xreadgroup", "group", group, "c" + strconv.Itoa(g.random.IntN(3)), "count", strconv.Itoa(1 + g.random.IntN(10)), "streams", g.key("q"), ">"}
}

// recentEntries are ids that any of the generator's streams may have.
func (g *Generator) recentEntries(request ...string) []string {
	for range 1 + g.random.IntN(8) {
		request = append(request, entryID(max(1, g.entries-g.random.IntN(60))))
	}
	return request
}

func makeAcknowledgement(g *Generator) []string { return g.recentEntries("xack", g.key("q"), group) }

func makeEntryRemoval(g *Generator) []string {
	if g.random.IntN(3) == 0 {
		return []string{"xtrim", g.key("q"), "maxlen", strconv.Itoa(g.random.IntN(200))}
	}
	return g.recentEntries("xdel", g.key("q"))
}

// entry is how an entry stands in the list of a Value.
func entry(id, text string) string { return id + " " + text }

func addEntry(s *State, arguments []string) string {
	v, _ := s.get(arguments[0], kindStream)
	v.list = append(v.list, entry(arguments[1], arguments[3]))
	s.put(arguments[0], v)
	return bulk(arguments[1])
}

// createGroup is XGROUP CREATE key group 0 MKSTREAM.
func createGroup(s *State, arguments []string) string {
	v, _ := s.get(arguments[1], kindStream)
	if v.text != "" {
		return "-BUSYGROUP Consumer Group name already exists"
	}
	v.text = "0-0"
	s.put(arguments[1], v)
	return done
}

// deliver is XREADGROUP GROUP group consumer COUNT n STREAMS key >. Its reply is flat, as plain shows arrays.
func deliver(s *State, arguments []string) string {
	key, count := arguments[6], number(arguments[4])
	v, _ := s.get(key, kindStream)
	if v.text == "" {
		return fmt.Sprintf("-NOGROUP No such key '%s' or consumer group '%s' in XREADGROUP with GROUP option", key, group)
	}
	last := 0
	if v.text != "0-0" {
		last = entryNumber(v.text)
	}
	var reply []string
	for _, one := range v.list {
		id, text, _ := strings.Cut(one, " ")
		if entryNumber(id) <= last || count == 0 {
			continue
		}
		count--
		v.text, v.fields[id] = id, arguments[2]
		reply = append(reply, bulk(id), bulk(entryField), bulk(text))
	}
	if reply == nil {
		return "nil"
	}
	return strings.Join(append([]string{bulk(key)}, reply...), "\n")
}

func acknowledgeEntries(s *State, arguments []string) string {
	v, _ := s.get(arguments[0], kindStream)
	before := len(v.fields)
	for _, id := range arguments[2:] {
		delete(v.fields, id)
	}
	return integer(before - len(v.fields))
}

func removeEntries(s *State, arguments []string) string {
	v, _ := s.get(arguments[0], kindStream)
	before := len(v.list)
	v.list = slices.DeleteFunc(slices.Clone(v.list), func(one string) bool {
		id, _, _ := strings.Cut(one, " ")
		return slices.Contains(arguments[1:], id)
	})
	return integer(before - len(v.list))
}

// trimEntries is XTRIM key MAXLEN n.
func trimEntries(s *State, arguments []string) string {
	v, _ := s.get(arguments[0], kindStream)
	removed := max(0, len(v.list)-number(arguments[2]))
	v.list = slices.Clone(v.list[removed:])
	return integer(removed)
}

// readStream reads a stream and its group. What XLEN and the group count must be what there is.
func readStream(connection *resp.Connection, key string) (*Value, error) {
	v := newValue(kindStream)
	entries, err := connection.Must("xrange", key, "-", "+")
	if err != nil {
		return nil, err
	}
	for _, one := range entries.Elements {
		words := plain(one)
		id, failed := strconv.Unquote(words[0])
		text, failed2 := strconv.Unquote(words[2])
		if failed != nil || failed2 != nil {
			return nil, fmt.Errorf("XRANGE answers %s", one)
		}
		v.list = append(v.list, entry(id, text))
	}
	groups, err := connection.Must("xinfo", "groups", key)
	if err != nil || len(groups.Elements) == 0 {
		return v, err
	}
	told := map[string]string{}
	for pair := range slices.Chunk(groups.Elements[0].Elements, 2) {
		told[string(pair[0].Text)] = string(pair[1].Text)
	}
	v.text = told["last-delivered-id"]
	pending, err := connection.Must("xpending", key, group, "-", "+", "1000000")
	if err != nil {
		return nil, err
	}
	for _, one := range pending.Elements {
		v.fields[string(one.Elements[0].Text)] = string(one.Elements[1].Text)
	}
	return v, v.checkOwners(connection, key, told["pending"])
}

// checkOwners compares what a group counts with the pending entries that it shows, and with those of each consumer.
func (v *Value) checkOwners(connection *resp.Connection, key, counted string) error {
	if counted != strconv.Itoa(len(v.fields)) {
		return fmt.Errorf("the group counts %s pending entries, and shows %d", counted, len(v.fields))
	}
	owned := map[string]string{}
	for _, consumer := range slices.Compact(slices.Sorted(maps.Values(v.fields))) {
		entries, err := connection.Must("xpending", key, group, "-", "+", "1000000", consumer)
		if err != nil {
			return err
		}
		for _, one := range entries.Elements {
			owned[string(one.Elements[0].Text)] = consumer
		}
	}
	if !maps.Equal(owned, v.fields) {
		return fmt.Errorf("consumers have other pending entries than their group: %v and %v", owned, v.fields)
	}
	return nil
}
