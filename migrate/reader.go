package migrate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"kedis/storage/digest"
)

// reader reads keys of a server or a cluster, to compare them. Its methods may be used by any
// goroutine.
type reader struct {
	side      side
	server    Server
	pool      int
	first     *redis.Client
	cluster   *redis.ClusterClient // nil if it is no cluster
	old       bool                 // has no PEXPIRETIME
	mayDigest bool                 // DEBUG DIGEST-VALUE is allowed
	times     bool                 // fields of hashes may expire
	untimed   bool                 // and when they do isn't compared

	mu   sync.Mutex
	open map[int]*redis.Client
}

// location is a key in a database.
type location struct {
	key      []byte
	database int
}

func openReader(ctx context.Context, server Server, side side, connections int) (*reader, error) {
	r := &reader{side: side, server: server, pool: connections + 1, open: map[int]*redis.Client{}}
	r.first = redis.NewClient(server.options(0, r.pool))
	facts, err := ask(ctx, r.first, "server", "cluster")
	if err != nil {
		return nil, errors.Join(side.explain(server.address(), err), r.first.Close())
	}
	r.old = facts.major() < 7
	if facts["cluster_enabled"] == "1" {
		r.cluster = clusterClient(&server, r.pool)
	}
	known, err := askFieldTimes(ctx, r.first)
	if err != nil {
		return nil, errors.Join(side.explain(server.address(), err), r.first.Close())
	}
	r.times = known == fieldTimesKnown
	// Nobody may be allowed to, which is only found out by asking.
	r.mayDigest = r.cluster == nil && r.first.Do(ctx, "DEBUG", "DIGEST-VALUE", "kedis").Err() == nil
	return r, nil
}

func (r *reader) close() error {
	err := r.first.Close()
	for _, client := range r.open {
		err = errors.Join(err, client.Close())
	}
	if r.cluster != nil {
		err = errors.Join(err, r.cluster.Close())
	}
	return err
}

// on is a client on a database.
func (r *reader) on(database int) redis.UniversalClient {
	switch {
	case r.cluster != nil:
		return r.cluster
	case database == 0:
		return r.first
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open[database] == nil {
		r.open[database] = redis.NewClient(r.server.options(database, r.pool))
	}
	return r.open[database]
}

// databases lists those that have keys, and tells what INFO says of them; of a cluster that is
// nothing.
func (r *reader) databases() (list []int, keyspace facts, err error) {
	if r.cluster != nil {
		return []int{0}, nil, nil
	}
	keyspace, err = ask(context.Background(), r.first, "keyspace")
	if err != nil {
		return nil, nil, r.side.explain(r.server.address(), err)
	}
	for name := range keyspace {
		if number, err := strconv.Atoi(strings.TrimPrefix(name, "db")); err == nil {
			list = append(list, number)
		}
	}
	slices.Sort(list)
	return list, keyspace, nil
}

// scan visits the keys of a database, some more than once.
func (r *reader) scan(ctx context.Context, database int, visit func(keys []string) error) error {
	each := func(ctx context.Context, client redis.Cmdable) error {
		for cursor := uint64(0); ; {
			keys, next, err := client.Scan(ctx, cursor, "*", 1000).Result()
			if err != nil {
				return r.side.explain(r.server.address(), err)
			}
			if err := visit(keys); err != nil {
				return err
			}
			if cursor = next; cursor == 0 {
				return nil
			}
		}
	}
	if r.cluster == nil {
		return each(ctx, r.on(database))
	}
	var turn sync.Mutex
	return r.cluster.ForEachMaster(ctx, func(ctx context.Context, client *redis.Client) error {
		turn.Lock()
		defer turn.Unlock()
		return each(ctx, client)
	})
}

// exist says which keys there are at the source's side of pairs.
func (r *reader) exist(ctx context.Context, pairs []pair) ([]bool, error) {
	replies, err := r.on(pairs[0].fromBase).Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, one := range pairs {
			p.Do(ctx, "EXISTS", one.from)
		}
		return nil
	})
	if err != nil {
		return nil, r.side.explain(r.server.address(), err)
	}
	there := make([]bool, len(pairs))
	for i, reply := range replies {
		n, err := reply.(*redis.Cmd).Int64()
		if err != nil {
			return nil, r.side.explain(r.server.address(), err)
		}
		there[i] = n > 0
	}
	return there, nil
}

// fingerprints looks at keys. All are in one database.
func (r *reader) fingerprints(ctx context.Context, locations []location, digests bool) ([]fingerprint, error) {
	prints, err := r.look(ctx, locations, digests)
	return prints, r.side.explain(r.server.address(), err)
}

func (r *reader) look(ctx context.Context, locations []location, digests bool) ([]fingerprint, error) {
	prints, err := r.kinds(ctx, locations)
	if err != nil {
		return nil, err
	}
	if digests {
		if err := r.askForDigests(ctx, locations, prints); err != nil {
			return nil, err
		}
	}
	if err := r.lookIntoStreams(ctx, locations, prints); err != nil {
		return nil, err
	}
	client := r.on(locations[0].database)
	for i := range locations {
		f := &prints[i]
		if f.digest != "" || f.kind == "none" {
			continue
		}
		if f.kind == "hash" && r.times {
			err = f.takeHash(ctx, client, string(locations[i].key), r.untimed)
		} else {
			f.digest, err = valueDigest(ctx, client, f.kind, string(locations[i].key), f.expireMs != 0)
		}
		if err != nil {
			return nil, fmt.Errorf("%w (key %.200q)", err, locations[i].key)
		}
	}
	return prints, nil
}

// kinds are fingerprints without digests.
func (r *reader) kinds(ctx context.Context, locations []location) ([]fingerprint, error) {
	expiry := "PEXPIRETIME"
	if r.old {
		expiry = "PTTL"
	}
	now := time.Now().UnixMilli()
	replies, err := r.on(locations[0].database).Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, one := range locations {
			p.Do(ctx, "TYPE", one.key)
			p.Do(ctx, expiry, one.key)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	prints := make([]fingerprint, len(locations))
	for i := range locations {
		f := &prints[i]
		if f.kind, err = replies[2*i].(*redis.Cmd).Text(); err != nil {
			return nil, err
		}
		if f.expireMs, err = replies[2*i+1].(*redis.Cmd).Int64(); err != nil {
			return nil, err
		}
		if r.old && f.expireMs > 0 {
			f.expireMs += now
		}
		f.expireMs, _ = ofKeys.release(max(f.expireMs, 0))
	}
	return prints, nil
}

// digestElements is how many elements a collection has at most whose digest a server is asked for:
// a Redis serves nobody else while it computes one.
const digestElements = 10_000

// askForDigests has the server compute digests, but not of large collections, which are read in
// pages.
func (r *reader) askForDigests(ctx context.Context, locations []location, prints []fingerprint) error {
	large, err := r.large(ctx, locations, prints)
	if err != nil {
		return err
	}
	if err := r.findTimed(ctx, locations, prints, large); err != nil {
		return err
	}
	asked := map[int]*redis.Cmd{}
	_, err = r.on(locations[0].database).Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, one := range locations {
			if prints[i].kind != "none" && !large[i] {
				asked[i] = p.Do(ctx, "DEBUG", "DIGEST-VALUE", one.key)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i, reply := range asked {
		list, err := reply.StringSlice()
		if err != nil || len(list) != 1 {
			return errors.Join(err, fmt.Errorf("DEBUG DIGEST-VALUE has answered with %q", list))
		}
		prints[i].digest = list[0]
	}
	return nil
}

// large finds the collections with many elements.
func (r *reader) large(ctx context.Context, locations []location, prints []fingerprint) (map[int]bool, error) {
	lengths := map[string]string{"hash": "HLEN", "list": "LLEN", "set": "SCARD", "zset": "ZCARD", "stream": "XLEN"}
	asked := map[int]*redis.Cmd{}
	_, err := r.on(locations[0].database).Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, one := range locations {
			if length := lengths[prints[i].kind]; length != "" {
				asked[i] = p.Do(ctx, length, one.key)
			}
		}
		return nil
	})
	var refused redis.Error // WRONGTYPE: it has become another key
	if err != nil && !errors.As(err, &refused) {
		return nil, err
	}
	large := map[int]bool{}
	for i, reply := range asked {
		n, err := reply.Int64()
		large[i] = err == nil && n > digestElements
	}
	return large, nil
}

// findTimed adds hashes with fields that may expire to what is read in pages: a digest of Redis's
// doesn't tell the times, and one of Valkey's nothing of them. A hash that Redis, Kedis or Valkey
// calls a listpack has none.
func (r *reader) findTimed(ctx context.Context, locations []location, prints []fingerprint, paged map[int]bool) error {
	if !r.times {
		return nil
	}
	asked := map[int]*redis.Cmd{}
	_, err := r.on(locations[0].database).Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, one := range locations {
			if prints[i].kind == "hash" {
				asked[i] = p.Do(ctx, "OBJECT", "ENCODING", one.key)
			}
		}
		return nil
	})
	var refused redis.Error // the key is gone
	if err != nil && !errors.As(err, &refused) {
		return err
	}
	for i, reply := range asked {
		if encoding, err := reply.Text(); err != nil || encoding != "listpack" {
			paged[i] = true
		}
	}
	return nil
}

// takeHash reads a hash whose fields may expire.
func (f *fingerprint) takeHash(ctx context.Context, client redis.UniversalClient, key string, untimed bool) error {
	var v digest.Value
	var times digest.Value
	anew := func() { v, times, f.timed = digest.NewValue(digest.Hash), digest.NewValue(digest.Hash), false }
	anew()
	err := byScan(func(cursor uint64) ([]string, uint64, error) { return timedFields(ctx, client, key, cursor) }, client.HLen(ctx, key).Result, 3, func(words []string) {
		if words[2] == "" || untimed {
			v.Field([]byte(words[0]), []byte(words[1]))
			return
		}
		f.timed = true
		v.ExpiringField([]byte(words[0]), []byte(words[1]))
		times.Field([]byte(words[0]), []byte(words[2]))
	}, anew)
	if err != nil && !strings.HasPrefix(err.Error(), "WRONGTYPE") { // it may have become another key
		return err
	}
	if f.expireMs != 0 {
		v.Expires()
	}
	f.digest, f.fieldTimes = v.Sum().String(), times.Sum().String()
	return nil
}

// timedFields reads a page of fields, values and times. A time is the one that was meant, where it
// is held, and empty if there is none. One that is later than a target may take is the latest.
func timedFields(ctx context.Context, client redis.UniversalClient, key string, cursor uint64) (words []string, next uint64, err error) {
	pairs, times, next, err := scanTimes(ctx, client, key, cursor)
	for i, ms := range times {
		time := ""
		if ms > 0 {
			ms, _ = ofFields.release(ms)
			time = strconv.FormatInt(min(ms, latestOfField), 10)
		}
		words = append(words, pairs[2*i], pairs[2*i+1], time)
	}
	return words, next, err
}

// scanTimes reads a page of fields, each with its value, and their times.
func scanTimes(ctx context.Context, client redis.Cmdable, key string, cursor uint64) (pairs []string, times []int64, next uint64, err error) {
	pairs, next, err = client.HScan(ctx, key, cursor, "", page).Result()
	if err != nil || len(pairs) == 0 {
		return nil, nil, next, err
	}
	var fields []string
	for i := 0; i < len(pairs); i += 2 {
		fields = append(fields, pairs[i])
	}
	times, err = timesOfFields(ctx, client, key, fields)
	return pairs, times, next, err
}

// timesOfFields asks when fields expire, in ms since 1970; what isn't positive is never.
func timesOfFields(ctx context.Context, client redis.Cmdable, key string, fields []string) ([]int64, error) {
	replies, err := client.HPExpireTime(ctx, key, fields...).Result()
	if err == nil && len(replies) != len(fields) {
		err = fmt.Errorf("HPEXPIRETIME has answered with %d times of %d fields", len(replies), len(fields))
	}
	return replies, err
}

const (
	page      = 250     // elements of a value that are asked for at once
	partBytes = 1 << 20 // of a string, likewise
)

// valueDigest computes what DEBUG DIGEST-VALUE would, for servers that don't allow it. No
// value is in memory as a whole. A key that goes away meanwhile, or becomes another, has a
// digest of what was seen.
func valueDigest(ctx context.Context, client redis.UniversalClient, kind, key string, expires bool) (string, error) {
	var v digest.Value
	var err error
	switch kind {
	case "string":
		v = digest.NewValue(digest.String)
		err = v.String(func(write func(part []byte)) error {
			return inParts(func(from int64) ([]byte, error) { return client.GetRange(ctx, key, from, from+partBytes-1).Bytes() }, write)
		})
	case "list":
		v = digest.NewValue(digest.List)
		err = inPages(func(from int64) ([]string, error) { return client.LRange(ctx, key, from, from+page-1).Result() }, 1,
			func(words []string) error { v.Element([]byte(words[0])); return nil })
	case "zset":
		v = digest.NewValue(digest.SortedSet)
		var bad error
		err = byScan(func(cursor uint64) ([]string, uint64, error) {
			return client.ZScan(ctx, key, cursor, "", page).Result()
		}, client.ZCard(ctx, key).Result, 2, func(words []string) {
			score, err := strconv.ParseFloat(words[1], 64)
			v.Scored([]byte(words[0]), score)
			bad = cmp.Or(bad, err)
		}, func() { v = digest.NewValue(digest.SortedSet) })
		err = cmp.Or(err, bad)
	case "set":
		v = digest.NewValue(digest.Set)
		err = byScan(func(cursor uint64) ([]string, uint64, error) {
			return client.SScan(ctx, key, cursor, "", page).Result()
		},
			client.SCard(ctx, key).Result, 1, func(words []string) { v.Member([]byte(words[0])) }, func() { v = digest.NewValue(digest.Set) })
	case "hash":
		v = digest.NewValue(digest.Hash)
		err = byScan(func(cursor uint64) ([]string, uint64, error) {
			return client.HScan(ctx, key, cursor, "", page).Result()
		},
			client.HLen(ctx, key).Result, 2, func(words []string) { v.Field([]byte(words[0]), []byte(words[1])) }, func() { v = digest.NewValue(digest.Hash) })
	case "stream":
		v = digest.NewValue(digest.Stream)
		err = streamDigest(ctx, client, key, &v)
	default:
		return "", failure(ExitUnsupported, "a value of type %q can't be compared", kind)
	}
	if err != nil && strings.HasPrefix(err.Error(), "WRONGTYPE") {
		err = nil // it has become another key
	}
	if expires {
		v.Expires()
	}
	return v.Sum().String(), err
}

// inParts reads a string.
func inParts(read func(from int64) ([]byte, error), write func(part []byte)) error {
	for from := int64(0); ; from += partBytes {
		part, err := read(from)
		if err != nil {
			return err
		}
		if write(part); len(part) < partBytes {
			return nil
		}
	}
}

// inPages reads a value by index. each is how many words an element has.
func inPages(read func(from int64) ([]string, error), each int, take func(words []string) error) error {
	for from := int64(0); ; from += page {
		words, err := read(from)
		if err != nil {
			return err
		}
		for i := 0; i+each <= len(words); i += each {
			if err := take(words[i : i+each]); err != nil {
				return err
			}
		}
		if len(words) < each*page {
			return nil
		}
	}
}

// byScan reads a value with SSCAN or HSCAN. They may give an element twice while a server rehashes;
// then it is read anew.
func byScan(read func(cursor uint64) ([]string, uint64, error), count func() (int64, error), each int, take func(words []string), anew func()) error {
	for attempt := 1; ; attempt++ {
		seen := int64(0)
		for cursor := uint64(0); ; {
			words, next, err := read(cursor)
			if err != nil {
				return err
			}
			for i := 0; i+each <= len(words); i += each {
				take(words[i : i+each])
				seen++
			}
			if cursor = next; cursor == 0 {
				break
			}
		}
		has, err := count()
		if err != nil || has == seen || attempt == 3 {
			return err
		}
		anew()
	}
}

func streamDigest(ctx context.Context, client redis.UniversalClient, key string, v *digest.Value) error {
	for from := "-"; ; {
		reply, err := client.Do(ctx, "XRANGE", key, from, "+", "COUNT", page).Slice()
		if err != nil {
			return err
		}
		for _, one := range reply {
			entry, ok := one.([]any)
			if !ok || len(entry) != 2 {
				return fmt.Errorf("XRANGE has answered with %v", one)
			}
			id, isID := entry[0].(string)
			fields, areFields := entry[1].([]any)
			ms, seq, _ := strings.Cut(id, "-") // without a dash, seq is no number
			first, err := strconv.ParseUint(ms, 10, 64)
			second, err2 := strconv.ParseUint(seq, 10, 64)
			if !isID || !areFields || len(fields)%2 != 0 || err != nil || err2 != nil {
				return fmt.Errorf("XRANGE has answered with %v", one)
			}
			if from, err = idBehind(id); err != nil {
				return err
			}
			v.Entry(first, second)
			for i := 0; i < len(fields); i += 2 {
				field, isField := fields[i].(string)
				value, isValue := fields[i+1].(string)
				if !isField || !isValue {
					return fmt.Errorf("XRANGE has answered with %v", one)
				}
				v.EntryField([]byte(field), []byte(value))
			}
		}
		if len(reply) < page {
			return nil
		}
	}
}
