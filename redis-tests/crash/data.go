package crash

import (
	"fmt"
	"maps"
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

// ReadData reads all keys of the given databases. It compares what the server counts with what it
// shows: the elements of each key, and the keys of each database.
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
			if v != nil {
				data.databases[database][key] = v
			}
		}
	}
	return data, nil
}

// settledKeys returns the keys of the selected database as soon as DBSIZE agrees: it counts expired
// keys until they are removed.
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

// readValue reads a key; nil is a hash that has gone with its last field since it was listed.
func readValue(connection *resp.Connection, key string) (*Value, error) {
	kind, err := connection.Must("type", key)
	if err != nil {
		return nil, err
	}
	switch string(kind.Text) {
	case kindStream:
		return readStreamKey(connection, key)
	case "none":
		return nil, nil
	}
	inspection, known := inspections[string(kind.Text)]
	if !known {
		return nil, fmt.Errorf("TYPE answers %s", kind)
	}
	expires, err := connection.Must("pexpiretime", key)
	if err != nil {
		return nil, err
	}
	v, err := inspect(connection, key, string(kind.Text), inspection)
	for deadline := time.Now().Add(patience); err != nil && string(kind.Text) == kindHash && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond) // HLEN counts fields that have expired until they are removed
		v, err = inspect(connection, key, kindHash, inspection)
	}
	if err != nil || v.kind == kindHash && v.size() == 0 {
		return nil, err
	}
	if at, _ := expires.Integer(); at > 0 {
		v.expires = at
	}
	return v, v.readTimes(connection, key)
}

// inspect compares what a key counts with what it shows.
func inspect(connection *resp.Connection, key, kind string, inspection [2][]string) (*Value, error) {
	var replies [2]resp.Reply
	for i, words := range inspection {
		var err error
		request := slices.Concat(words[:1], []string{key}, words[1:])
		if replies[i], err = connection.Must(request...); err != nil {
			return nil, err
		}
	}
	v := newValue(kind)
	v.fill(replies[1])
	if n, _ := replies[0].Integer(); n != int64(v.size()) {
		return nil, fmt.Errorf("%s answers %s, but there are %d: %s", strings.ToUpper(inspection[0][0]), replies[0], v.size(), v)
	}
	return v, nil
}

// readTimes reads when the fields of a hash expire, if the server knows such a thing.
func (v *Value) readTimes(connection *resp.Connection, key string) error {
	if v.kind != kindHash {
		return nil
	}
	for fields := range slices.Chunk(slices.Sorted(maps.Keys(v.fields)), 1000) {
		reply, err := connection.Do(slices.Concat([]string{"hpexpiretime", key, "fields", strconv.Itoa(len(fields))}, fields)...)
		if err != nil || reply.IsError() { // a Redis 7.0
			return err
		}
		for i, field := range fields {
			if at, _ := reply.Elements[i].Integer(); at > 0 {
				v.times[field] = at
			}
		}
	}
	return nil
}

func readStreamKey(connection *resp.Connection, key string) (*Value, error) {
	expires, err := connection.Must("pexpiretime", key)
	if err != nil {
		return nil, err
	}
	counted, err := connection.Must("xlen", key)
	if err != nil {
		return nil, err
	}
	v, err := readStream(connection, key)
	if err != nil {
		return nil, err
	}
	if at, _ := expires.Integer(); at > 0 {
		v.expires = at
	}
	if n, _ := counted.Integer(); n != int64(len(v.list)) {
		return nil, fmt.Errorf("XLEN answers %s, but there are %d", counted, len(v.list))
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
