package migrate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"kedis/storage/digest"
	"kedis/storage/rdb"
)

// streamPrint is what of a stream is compared beside its entries. Times aren't.
type streamPrint struct {
	totals facts // those of streamTotals that the server tells
	groups map[string]groupPrint
}

// groupPrint is what of a group is compared.
type groupPrint struct {
	totals             facts // those of groupTotals that the server tells
	consumers, pending digest.Sum
}

// Totals that are compared. Redis before 7.0 tells only the first of each.
var (
	streamTotals = []string{"last-generated-id", "max-deleted-entry-id", "entries-added"}
	groupTotals  = []string{"last-delivered-id", "entries-read"}
)

// compare says in what two differ, empty if in nothing.
func (s *streamPrint) compare(other *streamPrint) string {
	if difference := compareTotals(streamTotals, s.totals, other.totals); difference != "" {
		return "has " + difference + " (stream)"
	}
	for _, name := range slices.Sorted(maps.Keys(s.groups)) {
		ours := s.groups[name]
		theirs, there := other.groups[name]
		totals := compareTotals(groupTotals, ours.totals, theirs.totals)
		switch {
		case !there:
			return fmt.Sprintf("has group %.200q at the source only (stream)", name)
		case totals != "":
			return fmt.Sprintf("has group %.200q with %s (stream)", name, totals)
		case ours.pending != theirs.pending:
			return fmt.Sprintf("has group %.200q with other pending entries (stream)", name)
		case ours.consumers != theirs.consumers:
			return fmt.Sprintf("has group %.200q with other consumers (stream)", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(other.groups)) {
		if _, there := s.groups[name]; !there {
			return fmt.Sprintf("has group %.200q at the target only (stream)", name)
		}
	}
	return ""
}

// compareTotals compares those that both servers tell.
func compareTotals(names []string, ours, theirs facts) string {
	for _, name := range names {
		left, known := ours[name]
		right, alsoKnown := theirs[name]
		if known && alsoKnown && left != right {
			return fmt.Sprintf("%s %s at the source and %s at the target", name, left, right)
		}
	}
	return ""
}

// lookIntoStreams reads what streams have beside their entries.
func (r *reader) lookIntoStreams(ctx context.Context, locations []location, prints []fingerprint) error {
	asked := map[int]*redis.Cmd{}
	client := r.on(locations[0].database)
	_, err := client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, one := range locations {
			if prints[i].kind == "stream" {
				asked[i] = p.Do(ctx, "XINFO", "STREAM", one.key)
			}
		}
		return nil
	})
	var refused redis.Error // each reply is looked at below
	if err != nil && !errors.As(err, &refused) {
		return err
	}
	for i, reply := range asked {
		look := streamLook{ctx, client, string(locations[i].key)}
		if prints[i].stream, err = look.stream(reply); err != nil {
			return fmt.Errorf("%w (key %.200q)", err, locations[i].key)
		}
	}
	return nil
}

// streamLook reads a stream. A key or group that goes away meanwhile is as it was seen.
type streamLook struct {
	ctx    context.Context
	client redis.UniversalClient
	key    string
}

// gone reports whether an error says that the key or the group is no longer there.
func gone(err error) bool {
	return strings.HasPrefix(err.Error(), "WRONGTYPE") || strings.HasPrefix(err.Error(), "NOGROUP") || strings.HasPrefix(err.Error(), "ERR no such key")
}

func (l streamLook) stream(reply *redis.Cmd) (*streamPrint, error) {
	s := &streamPrint{groups: map[string]groupPrint{}}
	told, err := namedFacts(reply.Result())
	if err != nil && !gone(err) {
		return nil, err
	}
	if s.totals = chosenFacts(told, streamTotals); told["groups"] == "" || told["groups"] == "0" {
		return s, nil
	}
	err = l.each([]any{"XINFO", "GROUPS", l.key}, func(told facts) (err error) {
		g := groupPrint{totals: chosenFacts(told, groupTotals)}
		if g.consumers, err = l.consumers(told["name"]); err != nil {
			return err
		}
		g.pending, err = l.pending(told["name"])
		s.groups[told["name"]] = g
		return err
	})
	return s, err
}

// each visits what the items of an XINFO reply tell.
func (l streamLook) each(request []any, visit func(told facts) error) error {
	items, err := l.client.Do(l.ctx, request...).Slice()
	if err != nil {
		if gone(err) {
			return nil
		}
		return err
	}
	for _, item := range items {
		told, err := namedFacts(item, nil)
		if err != nil {
			return err
		}
		if err := visit(told); err != nil {
			return err
		}
	}
	return nil
}

func (l streamLook) consumers(group string) (digest.Sum, error) {
	v := digest.NewValue(digest.Hash)
	err := l.each([]any{"XINFO", "CONSUMERS", l.key, group}, func(told facts) error {
		v.Field([]byte(told["name"]), []byte(told["pending"]))
		return nil
	})
	return v.Sum(), err
}

// pendingPage is how many pending entries are asked for at once.
const pendingPage = 1000

// pending reads which entries are pending, with whom, and how often they were delivered.
func (l streamLook) pending(group string) (digest.Sum, error) {
	v := digest.NewValue(digest.Hash)
	for from := "-"; ; {
		items, err := l.client.Do(l.ctx, "XPENDING", l.key, group, from, "+", pendingPage).Slice()
		if err != nil {
			if gone(err) {
				err = nil
			}
			return v.Sum(), err
		}
		for _, item := range items {
			words, ok := item.([]any)
			if !ok || len(words) != 4 {
				return v.Sum(), fmt.Errorf("XPENDING has answered with %v", item)
			}
			id := fmt.Sprint(words[0])
			v.Field(fmt.Appendf(nil, "%s %v", id, words[3]), fmt.Append(nil, words[1]))
			if from, err = idBehind(id); err != nil {
				return v.Sum(), err
			}
		}
		if len(items) < pendingPage {
			return v.Sum(), nil
		}
	}
}

// idBehind is the id that follows: Redis before 6.2 knows no "(".
func idBehind(text string) (string, error) {
	var id rdb.StreamID
	ms, seq, _ := strings.Cut(text, "-") // without a dash, seq is no number
	var err, err2 error
	id.Ms, err = strconv.ParseUint(ms, 10, 64)
	id.Seq, err2 = strconv.ParseUint(seq, 10, 64)
	if err != nil || err2 != nil {
		return "", fmt.Errorf("a server has answered with %.100q for an id", text)
	}
	if id.Seq == math.MaxUint64 {
		id.Ms++
	}
	id.Seq++
	return string(streamID(id)), nil
}

// namedFacts reads names and values, as XINFO replies with.
func namedFacts(reply any, err error) (facts, error) {
	if err != nil {
		return nil, err
	}
	words, ok := reply.([]any)
	if !ok || len(words)%2 != 0 {
		return nil, fmt.Errorf("XINFO has answered with %v", reply)
	}
	named := facts{}
	for i := 0; i < len(words); i += 2 {
		named[fmt.Sprint(words[i])] = showFact(words[i+1])
	}
	return named, nil
}

func showFact(value any) string {
	switch value := value.(type) {
	case nil:
		return "unknown"
	case string:
		return value
	case int64:
		return strconv.FormatInt(value, 10)
	}
	return "" // an entry
}

// chosenFacts are some of the facts.
func chosenFacts(all facts, names []string) facts {
	chosen := facts{}
	for _, name := range names {
		if fact, there := all[name]; there {
			chosen[name] = fact
		}
	}
	return chosen
}
