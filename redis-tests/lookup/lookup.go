// Package lookup asks a server one by one for everything that it lists: each key, and each element
// of hashes, sets and sorted sets. A server that lists what it then doesn't find has a shortcut
// that leads astray.
//
// It knows the protocol only, and imports the standard library and redis-tests/resp.
package lookup

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"kedis/redis-tests/resp"
)

// Everything asks for all that the first databases list, and tells what isn't found. The
// connection's database is another one afterwards.
func Everything(c *resp.Connection, databases int) error {
	if err := awaitFilters(c); err != nil {
		return err
	}
	lost, err := lostIn(c, databases)
	if err != nil || len(lost) == 0 {
		return err
	}
	still, err := lostIn(c, databases) // what has expired between two requests isn't listed any more
	if err != nil {
		return err
	}
	lost = slices.DeleteFunc(lost, func(name string) bool { return !slices.Contains(still, name) })
	if len(lost) > 0 {
		return fmt.Errorf("lookup: %d of what is listed isn't found: %q, …", len(lost), lost[:min(len(lost), 5)])
	}
	return nil
}

// longestBuilding is how long a Kedis may take after a start to find out what it has.
const longestBuilding = 30 * time.Second

// awaitFilters waits until a Kedis rules out what it hasn't got, which it can do wrongly only then.
func awaitFilters(c *resp.Connection) error {
	for began := time.Now(); time.Since(began) < longestBuilding; time.Sleep(10 * time.Millisecond) {
		reply, err := c.Must("info", "tier")
		if err != nil || !strings.Contains(string(reply.Text), "tier_filter_state:building") {
			return err
		}
	}
	return fmt.Errorf("lookup: filters are still not complete after %v", longestBuilding)
}

// lostIn names what is listed and not found.
func lostIn(c *resp.Connection, databases int) (lost []string, err error) {
	for database := range databases {
		if _, err := c.Must("select", strconv.Itoa(database)); err != nil {
			return nil, err
		}
		listed, err := c.Must("keys", "*")
		if err != nil {
			return nil, err
		}
		for names := range slices.Chunk(listed.Strings(), together) {
			more, err := lostOf(c, strconv.Itoa(database)+"/", names)
			if err != nil {
				return nil, err
			}
			lost = append(lost, more...)
		}
	}
	return lost, nil
}

// together is how many keys or elements are asked for at once.
const together = 200

// lostOf looks for some keys, and for the elements of those that are there.
func lostOf(c *resp.Connection, place string, names []string) (lost []string, err error) {
	for _, name := range names {
		c.Queue("type", name)
	}
	types := make([]string, 0, len(names))
	err = c.Flush()
	for range names {
		var reply resp.Reply
		if err == nil {
			reply, err = c.Read()
		}
		types = append(types, string(reply.Text))
	}
	for i, name := range names {
		if err != nil {
			return nil, err
		}
		if types[i] == "none" {
			lost = append(lost, place+name)
			continue
		}
		var elements []string
		elements, err = lostElements(c, types[i], name)
		for _, element := range elements {
			lost = append(lost, place+name+"/"+element)
		}
	}
	return lost, err
}

// questions list the elements of a key, and look for some of them.
var questions = map[string]struct{ list, find []string }{
	"hash": {[]string{"hkeys"}, []string{"hmget"}},
	"set":  {[]string{"smembers"}, []string{"smismember"}},
	"zset": {[]string{"zrange", "0", "-1"}, []string{"zmscore"}},
}

// lostElements looks for the elements of a collection.
func lostElements(c *resp.Connection, kind, key string) (lost []string, err error) {
	question, ok := questions[kind]
	if !ok {
		return nil, nil
	}
	listed, err := c.Must(slices.Insert(slices.Clone(question.list), 1, key)...)
	if err != nil {
		return nil, err
	}
	for elements := range slices.Chunk(listed.Strings(), together) {
		found, err := c.Must(slices.Concat(question.find, []string{key}, elements)...)
		if err != nil {
			return nil, err
		}
		for i, reply := range found.Elements {
			if n, is := reply.Integer(); reply.Null || is && n == 0 {
				lost = append(lost, elements[i])
			}
		}
	}
	return lost, nil
}
