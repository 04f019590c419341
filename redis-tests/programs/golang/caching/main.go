// Command caching uses rueidis and its client-side cache: what is cached is served from the
// client's memory, what is changed by others never is, not even after a crash of the server.
package main

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"kedis-programs/driver"
)

// lifetime is how long an entry may stay in a cache; longer than the driver runs, so that an entry
// that is gone was invalidated.
const lifetime = time.Hour

func main() {
	driver.Run("rueidis", served, expiring, broadcast, replies, neverBack, survives)
}

func open(options rueidis.ClientOption) (rueidis.Client, error) {
	options.InitAddress = []string{driver.Address()}
	return rueidis.NewClient(options)
}

// get reads a key through a cache.
func get(ctx context.Context, client rueidis.Client, key string) (value string, hit bool, err error) {
	result := client.DoCache(ctx, client.B().Get().Key(key).Cache(), lifetime)
	value, err = result.ToString()
	if rueidis.IsRedisNil(err) {
		err = nil
	}
	return value, result.IsCacheHit(), err
}

func set(ctx context.Context, client rueidis.Client, key, value string) error {
	return client.Do(ctx, client.B().Set().Key(key).Value(value).Build()).Error()
}

// becomes waits until a cache has heard of a change.
func becomes(ctx context.Context, client rueidis.Client, key, want string) error {
	return driver.Until(ctx, fmt.Sprintf("%s is %q", key, want), func() (bool, error) {
		value, _, err := get(ctx, client, key)
		return value == want, err
	})
}

// served: what is in the cache is not asked for, and stays there for as long as nobody changes it.
func served(ctx context.Context) error {
	invalidated := make(chan string, 100)
	reader, err := open(rueidis.ClientOption{OnInvalidations: func(messages []rueidis.RedisMessage) {
		for _, message := range messages {
			key, _ := message.ToString()
			invalidated <- key
		}
	}})
	if err != nil {
		return err
	}
	defer reader.Close()
	writer, err := open(rueidis.ClientOption{DisableCache: true})
	if err != nil {
		return err
	}
	defer writer.Close()
	if err := errors.Join(set(ctx, writer, "a", "1"), set(ctx, writer, "b", "1")); err != nil {
		return err
	}
	for i := range 100 {
		for _, key := range []string{"a", "b", "missing"} {
			value, hit, err := get(ctx, reader, key)
			if want := key != "missing"; err != nil || hit != (i > 0) || (value == "1") != want {
				return fmt.Errorf("read %d of %s: %q, hit %v (%v)", i, key, value, hit, err)
			}
		}
	}
	if err := errors.Join(set(ctx, writer, "a", "2"), set(ctx, writer, "missing", "3")); err != nil {
		return err
	}
	for _, want := range []string{"a", "missing"} {
		select {
		case key := <-invalidated:
			if key != want {
				return fmt.Errorf("%s was invalidated instead of %s", key, want)
			}
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", want, ctx.Err())
		}
	}
	if err := errors.Join(becomes(ctx, reader, "a", "2"), becomes(ctx, reader, "missing", "3")); err != nil {
		return err
	}
	if _, hit, err := get(ctx, reader, "b"); err != nil || !hit {
		return fmt.Errorf("b, which nobody has changed, is read again (%v)", err)
	}
	if err := writer.Do(ctx, writer.B().Flushall().Build()).Error(); err != nil {
		return err
	}
	return errors.Join(becomes(ctx, reader, "a", ""), becomes(ctx, reader, "b", ""))
}

// expiring: a cache keeps a key no longer than the server does.
func expiring(ctx context.Context) error {
	client, err := open(rueidis.ClientOption{})
	if err != nil {
		return err
	}
	defer client.Close()
	if err := client.Do(ctx, client.B().Set().Key("short").Value("x").PxMilliseconds(150).Build()).Error(); err != nil {
		return err
	}
	if _, _, err := get(ctx, client, "short"); err != nil {
		return err
	}
	return becomes(ctx, client, "short", "")
}

// broadcast: with prefixes the server need not note who has read what.
func broadcast(ctx context.Context) error {
	reader, err := open(rueidis.ClientOption{ClientTrackingOptions: []string{"PREFIX", "user:", "PREFIX", "order:", "BCAST"}})
	if err != nil {
		return err
	}
	defer reader.Close()
	writer, err := open(rueidis.ClientOption{DisableCache: true})
	if err != nil {
		return err
	}
	defer writer.Close()
	for version := range 50 {
		text := strconv.Itoa(version)
		if err := errors.Join(set(ctx, writer, "user:1", text), set(ctx, writer, "order:1", text)); err != nil {
			return err
		}
		if err := errors.Join(becomes(ctx, reader, "user:1", text), becomes(ctx, reader, "order:1", text)); err != nil {
			return err
		}
	}
	return nil
}

// replies: what isn't a string is cached, too, and changed by commands of its own.
func replies(ctx context.Context) error {
	reader, err := open(rueidis.ClientOption{})
	if err != nil {
		return err
	}
	defer reader.Close()
	b := reader.B
	for i := range 3 {
		text := strconv.Itoa(i)
		for _, result := range reader.DoMulti(ctx,
			b().Hset().Key("hash").FieldValue().FieldValue("field", text).Build(),
			b().Zadd().Key("zset").ScoreMember().ScoreMember(float64(i), "member").Build(),
			b().Mset().KeyValue().KeyValue("one", text).KeyValue("two", text).Build()) {
			if err := result.Error(); err != nil {
				return err
			}
		}
		var have []any
		read := func() (bool, error) {
			results := reader.DoMultiCache(ctx,
				rueidis.CT(b().Hgetall().Key("hash").Cache(), lifetime),
				rueidis.CT(b().Zscore().Key("zset").Member("member").Cache(), lifetime))
			hash, errHash := results[0].AsStrMap()
			score, errScore := results[1].AsFloat64()
			both, errBoth := rueidis.MGetCache(reader, ctx, lifetime, []string{"one", "two"})
			if err := errors.Join(errHash, errScore, errBoth); err != nil {
				return false, err
			}
			one, two := both["one"], both["two"]
			have = []any{hash, score, one.String(), two.String()}
			oneText, _ := one.ToString()
			twoText, _ := two.ToString()
			return reflect.DeepEqual(hash, map[string]string{"field": text}) && score == float64(i) && oneText == text && twoText == text, nil
		}
		if err := driver.Until(ctx, "all replies are of version "+text, read); err != nil {
			return fmt.Errorf("%w; have %v", err, have)
		}
	}
	return nil
}

// neverBack: while many write, no reader gets an older version than it has had before, and in the
// end all get the last.
func neverBack(ctx context.Context) error {
	const keys, versions, readers = 20, 150, 4
	clients, err := openMany(readers)
	if err != nil {
		return err
	}
	defer closeAll(clients)
	writer, err := open(rueidis.ClientOption{DisableCache: true})
	if err != nil {
		return err
	}
	defer writer.Close()
	var (
		group      sync.WaitGroup
		reads, hit atomic.Int64
		written    = make(chan struct{})
		failures   = make(chan error, readers+1)
	)
	for _, client := range clients {
		group.Go(func() { failures <- readOn(ctx, client, keys, written, &reads, &hit) })
	}
	group.Go(func() {
		defer close(written)
		for version := range versions {
			for key := range keys {
				if err := set(ctx, writer, "version:"+strconv.Itoa(key), strconv.Itoa(version+1)); err != nil {
					failures <- err
					return
				}
			}
		}
	})
	group.Wait()
	close(failures)
	for err := range failures {
		if err != nil {
			return err
		}
	}
	for _, client := range clients {
		for key := range keys {
			if err := becomes(ctx, client, "version:"+strconv.Itoa(key), strconv.Itoa(versions)); err != nil {
				return err
			}
		}
	}
	fmt.Printf("rueidis: %d reads under %d writes, %d of them from the cache\n", reads.Load(), keys*versions, hit.Load())
	if hit.Load() == 0 || hit.Load() == reads.Load() {
		return errors.New("either nothing was cached, or nothing was invalidated")
	}
	return nil
}

func readOn(ctx context.Context, client rueidis.Client, keys int, written <-chan struct{}, reads, hits *atomic.Int64) error {
	seen := make([]int, keys)
	for {
		for key := range keys {
			value, hit, err := get(ctx, client, "version:"+strconv.Itoa(key))
			if err != nil {
				return err
			}
			// A key that isn't there yet is version 0.
			version, _ := strconv.Atoi(value)
			if version < seen[key] {
				return fmt.Errorf("key %d: version %d after %d", key, version, seen[key])
			}
			seen[key] = version
			reads.Add(1)
			if hit {
				hits.Add(1)
			}
		}
		select {
		case <-written:
			return nil
		default:
		}
	}
}

func openMany(count int) (clients []rueidis.Client, err error) {
	for range count {
		client, err := open(rueidis.ClientOption{})
		if err != nil {
			closeAll(clients)
			return nil, err
		}
		clients = append(clients, client)
	}
	return clients, nil
}

func closeAll(clients []rueidis.Client) {
	for _, client := range clients {
		client.Close()
	}
}

// survives: a cache is of no use once its connection is gone, since what changes then is not told.
func survives(ctx context.Context) error {
	clients, err := openMany(3)
	if err != nil {
		return err
	}
	defer closeAll(clients)
	if err := set(ctx, clients[0], "kept", "before"); err != nil {
		return err
	}
	for _, client := range clients {
		if err := becomes(ctx, client, "kept", "before"); err != nil {
			return err
		}
	}
	if err := driver.Crash(); err != nil {
		return err
	}
	writer, err := open(rueidis.ClientOption{DisableCache: true})
	if err != nil {
		return err
	}
	defer writer.Close()
	value, err := writer.Do(ctx, writer.B().Getset().Key("kept").Value("after").Build()).ToString()
	if err != nil || value != "before" {
		return fmt.Errorf("after the crash: %q (%w)", value, err)
	}
	for _, client := range clients {
		if err := becomes(ctx, client, "kept", "after"); err != nil {
			return err
		}
	}
	// And they are told of changes again.
	for version := range 50 {
		text := strconv.Itoa(version)
		if err := set(ctx, writer, "kept", text); err != nil {
			return err
		}
		for _, client := range clients {
			if err := becomes(ctx, client, "kept", text); err != nil {
				return err
			}
		}
	}
	return nil
}
