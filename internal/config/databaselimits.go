package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"kedis/internal/number"
)

// DatabaseLimit bounds what a database may hold and how much may be asked of it. 0 is no limit.
type DatabaseLimit struct {
	Keys     int64
	Bytes    int64 // on disk
	Requests int64 // a second
	Traffic  int64 // bytes of requests and replies, a second
}

// DatabaseLimits are those of the databases that have some, by number.
type DatabaseLimits map[int]DatabaseLimit

// limitNames are the limits of a database in the order in which they are shown.
var limitNames = []string{"keys", "bytes", "requests", "traffic"}

func (l *DatabaseLimit) named(name string) *int64 {
	switch strings.ToLower(name) {
	case "keys":
		return &l.Keys
	case "bytes":
		return &l.Bytes
	case "requests":
		return &l.Requests
	case "traffic":
		return &l.Traffic
	}
	return nil
}

// list calls f with each limit that is set.
func (l DatabaseLimits) list(f func(database int, name string, limit int64)) {
	for _, database := range sortedDatabases(l) {
		limits := l[database]
		for _, name := range limitNames {
			if limit := *limits.named(name); limit != 0 {
				f(database, name, limit)
			}
		}
	}
}

func sortedDatabases(l DatabaseLimits) (databases []int) {
	for database := range l {
		databases = append(databases, database)
	}
	slices.Sort(databases)
	return databases
}

// databaseLimits is groups of three words: a database, one of its limits and how much that is.
// Limits that aren't named stay; 0 takes one away.
func databaseLimits() kind[DatabaseLimits] {
	return kind[DatabaseLimits]{
		expects: "databases, each with keys, bytes, requests or traffic and a number or size, such as 3 keys 1000000 3 bytes 10gb",
		list:    true,
		parse:   parseDatabaseLimits,
		show: func(l DatabaseLimits) string {
			var words []string
			l.list(func(database int, name string, limit int64) {
				words = append(words, fmt.Sprint(database, " ", name, " ", limit))
			})
			return strings.Join(words, " ")
		},
		write: func(l DatabaseLimits) (lines []string) {
			l.list(func(database int, name string, limit int64) {
				shown := strconv.FormatInt(limit, 10)
				if name == "bytes" || name == "traffic" {
					shown = writeSize(limit)
				}
				lines = append(lines, fmt.Sprint(database, " ", name, " ", shown))
			})
			return lines
		},
	}
}

func parseDatabaseLimits(text string, old DatabaseLimits) (DatabaseLimits, error) {
	limits := DatabaseLimits{}
	for database, limit := range old {
		limits[database] = limit
	}
	words := strings.Fields(text)
	if len(words)%3 != 0 {
		return nil, reason("argument must be databases, names of limits and limits, in turns")
	}
	for ; len(words) > 0; words = words[3:] {
		database, err := strconv.Atoi(words[0])
		limit := limits[database]
		field := limit.named(words[1])
		amount, ok := number.ParseSize(words[2])
		switch {
		case err != nil || database < 0 || database > mostInt:
			return nil, reason("a database must be a number")
		case field == nil:
			return nil, reason("a limit must be one of the following: " + strings.Join(limitNames, ", "))
		case !ok || words[2][0] < '0' || words[2][0] > '9' || amount > 1<<62:
			return nil, reason("a limit must be a number or a memory value")
		}
		*field = int64(amount)
		if limits[database] = limit; limit == (DatabaseLimit{}) {
			delete(limits, database)
		}
	}
	return limits, nil
}
