package crash

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"kedis/redis-tests/resp"
)

// Streams in the model: the list of a Value are its entries, the text is the group's last entry,
// and the fields are the group's pending entries with their consumers. Each stream has at most one
// group. Entries are numbered by the generator, so ids only grow.

const (
	kindStream = "stream"
	group      = "g"
	entryField = "f"
)

// entryID is the id of the entry with a number.
func entryID(n int) string { return strconv.Itoa(n) + "-1" }

func entryNumber(id string) int { return number(strings.TrimSuffix(id, "-1")) }

func makeEntry(g *Generator) []string {
	key := g.key("q")
	if g.random.IntN(8) == 0 {
		return g.entry("xadd", key, "maxlen", strconv.Itoa(g.random.IntN(200)))
	}
	return g.entry("xadd", key)
}

func (g *Generator) entry(request ...string) []string {
	g.entries++
	return append(request, entryID(g.entries), entryField, g.text())
}

// entriesOfOne are entries of one stream, so many that a consumer that gets them all is removed in
// steps.
func (g *Generator) entriesOfOne() (requests [][]string) {
	key := g.key("q")
	for range 2 + g.random.IntN(1+g.largest/3) {
		requests = append(requests, g.entry("xadd", key))
	}
	return requests
}

func makeGroup(g *Generator) []string {
	return []string{"xgroup", "create", g.key("q"), group, "0", "mkstream"}
}

func (g *Generator) consumer() string { return "c" + strconv.Itoa(g.random.IntN(3)) }

func makeDelivery(g *Generator) []string {
	count := 1 + g.random.IntN(10)
	if g.random.IntN(4) == 0 {
		count = g.largest
	}
	return []string{"xreadgroup", "group", group, g.consumer(), "count", strconv.Itoa(count), "streams", g.key("q"), ">"}
}

func makeConsumerRemoval(g *Generator) []string {
	return []string{"xgroup", "delconsumer", g.key("q"), group, g.consumer()}
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
	switch g.random.IntN(6) {
	case 0:
		return []string{"xtrim", g.key("q"), "maxlen", strconv.Itoa(g.random.IntN(200))}
	case 1:
		return []string{"xtrim", g.key("q"), "minid", entryID(max(1, g.entries-g.random.IntN(200)))}
	}
	return g.recentEntries("xdel", g.key("q"))
}

// entryNumber is the number of an entry in the list.
func (v *Value) entryNumber(at int) int {
	id, _, _ := strings.Cut(v.list[at], " ")
	return entryNumber(id)
}

// entry is how an entry stands in the list of a Value.
func entry(id, text string) string { return id + " " + text }

// addEntry is XADD key id field text, or XADD key MAXLEN n id field text.
func addEntry(s *State, arguments []string) string {
	v, _ := s.get(arguments[0], kindStream)
	added := arguments[len(arguments)-3:]
	v.list = append(v.list, entry(added[0], added[2]))
	s.put(arguments[0], v)
	if arguments[1] == "maxlen" {
		trimEntries(s, arguments[:3])
	}
	return bulk(added[0])
}

func changeGroup(s *State, arguments []string) string {
	if arguments[0] == "delconsumer" {
		return removeConsumer(s, arguments)
	}
	return createGroup(s, arguments)
}

// removeConsumer is XGROUP DELCONSUMER key group consumer.
func removeConsumer(s *State, arguments []string) string {
	v, existed := s.get(arguments[1], kindStream)
	switch {
	case !existed:
		return "-ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM option to create an " +
			"empty stream automatically."
	case v.text == "":
		return fmt.Sprintf("-NOGROUP No such consumer group '%s' for key name '%s'", group, arguments[1])
	}
	before := len(v.fields)
	maps.DeleteFunc(v.fields, func(_, consumer string) bool { return consumer == arguments[3] })
	return integer(before - len(v.fields))
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

// deliver is XREADGROUP GROUP group consumer COUNT n STREAMS key >. Its reply is flat, as plain
// shows arrays.
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

// trimEntries is XTRIM key MAXLEN n, or XTRIM key MINID id.
func trimEntries(s *State, arguments []string) string {
	v, _ := s.get(arguments[0], kindStream)
	removed := 0
	if arguments[1] == "maxlen" {
		removed = max(0, len(v.list)-number(arguments[2]))
	} else {
		for removed < len(v.list) && v.entryNumber(removed) < entryNumber(arguments[2]) {
			removed++
		}
	}
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

// checkOwners compares what a group counts with the pending entries that it shows, and with those
// of each consumer.
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
