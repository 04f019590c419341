package crash

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"kedis/redis-tests/resp"
)

const (
	scanCount = "1000"
	patience  = 20 * time.Second // until the server has removed what is expired
)

// ReadData reads all keys of the given databases. It compares what the server counts with what it shows: the elements of each key, and the
// keys of each database.
func ReadData(connection *resp.Connection, databases []int) (*State, error) {
	data := NewState(databases)
	for _, database := range databases {
		if _, err := connection.Must("select", strconv.Itoa(database)); err != nil {
			return nil, err
		}
		keys, err := settledKeys(connection)
		if err != nil {
			return nil, fmt.Errorf("database %d: %w", database, err)
		}
		for _, key := range keys {
			v, err := readValue(connection, key)
			if err != nil {
				return nil, fmt.Errorf("database %d: %s: %w", database, key, err)
			}
			data.databases[database][key] = v
		}
	}
	return data, nil
}

// settledKeys returns the keys of the selected database as soon as DBSIZE agrees: it counts expired keys until they are removed.
func settledKeys(connection *resp.Connection) ([]string, error) {
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		keys, err := scanKeys(connection)
		if err != nil {
			return nil, err
		}
		counted, err := connection.Must("dbsize")
		if err != nil {
			return nil, err
		}
		if n, _ := counted.Integer(); n == int64(len(keys)) {
			return keys, nil
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("DBSIZE answers %s, but there are %d keys", counted, len(keys))
		}
	}
}

func scanKeys(connection *resp.Connection) ([]string, error) {
	var keys []string
	for cursor := ""; cursor != "0"; {
		reply, err := connection.Must("scan", max(cursor, "0"), "count", scanCount)
		if err != nil {
			return nil, err
		}
		if len(reply.Elements) != 2 {
			return nil, fmt.Errorf("SCAN answered %s", reply)
		}
		cursor = string(reply.Elements[0].Text)
		keys = append(keys, reply.Elements[1].Strings()...)
	}
	slices.Sort(keys)
	return slices.Compact(keys), nil
}

// inspections are, for each type, how a key is counted and shown.
var inspections = map[string][2][]string{
	kindString: {{"strlen"}, {"get"}},
	kindHash:   {{"hlen"}, {"hgetall"}},
	kindList:   {{"llen"}, {"lrange", "0", "-1"}},
	kindSet:    {{"scard"}, {"smembers"}},
	kindZSet:   {{"zcard"}, {"zrange", "0", "-1", "withscores"}},
}

func readValue(connection *resp.Connection, key string) (*Value, error) {
	kind, err := connection.Must("type", key)
	if err != nil {
		return nil, err
	}
	inspection, known := inspections[string(kind.Text)]
	if !known {
		return nil, fmt.Errorf("TYPE answers %s", kind)
	}
	expires, err := connection.Must("pexpiretime", key)
	if err != nil {
		return nil, err
	}
	var replies [2]resp.Reply
	for i, words := range inspection {
		request := slices.Concat(words[:1], []string{key}, words[1:])
		if replies[i], err = connection.Must(request...); err != nil {
			return nil, err
		}
	}
	v := newValue(string(kind.Text))
	v.fill(replies[1])
	if at, _ := expires.Integer(); at > 0 {
		v.expires = at
	}
	if n, _ := replies[0].Integer(); n != int64(v.size()) {
		return nil, fmt.Errorf("%s answers %s, but there are %d: %s", strings.ToUpper(inspection[0][0]), replies[0], v.size(), v)
	}
	return v, nil
}

// fill takes the contents from the reply that shows them.
func (v *Value) fill(reply resp.Reply) {
	switch v.kind {
	case kindString:
		v.text = string(reply.Text)
	case kindList:
		v.list = reply.Strings()
	case kindSet:
		for _, member := range reply.Strings() {
			v.fields[member] = ""
		}
	default:
		for pair := range slices.Chunk(reply.Strings(), 2) {
			v.fields[pair[0]] = pair[len(pair)-1]
		}
	}
}

// part returns what of the data is a writer's.
func (s *State) part(w *Writer) *State {
	own := NewState(w.databases)
	for _, database := range w.databases {
		for key, v := range s.databases[database] {
			if w.owns(database, key) {
				own.databases[database][key] = v
			}
		}
	}
	return own
}

// strangers returns the keys that no writer owns.
func (s *State) strangers(writers []*Writer) []string {
	var keys []string
	for database, values := range s.databases {
		for key := range values {
			if !slices.ContainsFunc(writers, func(w *Writer) bool { return w.owns(database, key) }) {
				keys = append(keys, fmt.Sprintf("%d %s", database, key))
			}
		}
	}
	return keys
}
