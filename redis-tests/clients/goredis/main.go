// Command goredis is a little programme as a user of Kedis might write it, on the go-redis client:
// a session store, a leaderboard, a rate limiter without scripts, a stock that is sold under WATCH,
// and a queue in a pipeline. It takes the address of a server whose data it may remove, checks
// every result, and exits with 1 at the first that is wrong. With three files behind the address,
// of an authority's certificate and of a certificate and its key, it connects with TLS.
//
// It imports the standard library and go-redis, nothing of Kedis.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

func main() {
	if len(os.Args) != 2 && len(os.Args) != 5 {
		fmt.Fprintln(os.Stderr, "usage: goredis host:port [authority certificate key]")
		os.Exit(2)
	}
	for _, protocol := range []int{2, 3} {
		if err := run(os.Args[1], os.Args[2:], protocol); err != nil {
			fmt.Fprintf(os.Stderr, "goredis, RESP%d: %v\n", protocol, err)
			os.Exit(1)
		}
	}
	fmt.Println("goredis: all results are right")
}

// run runs all parts on one client.
func run(address string, files []string, protocol int) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	options := &redis.Options{Addr: address, Protocol: protocol, ClientName: "goredis-test"}
	if len(files) > 0 {
		var err error
		if options.TLSConfig, err = encryption(files[0], files[1], files[2]); err != nil {
			return err
		}
	}
	client := redis.NewClient(options)
	if err := client.FlushAll(ctx).Err(); err != nil {
		return err
	}
	parts := []struct {
		name string
		run  func(ctx context.Context, client *redis.Client) error
	}{
		{"sessions", sessions}, {"leaderboard", leaderboard}, {"rate limiter", rateLimiter}, {"stock", stock}, {"queue", queue},
		{"scan", scan}, {"types", types}, {"errors", refusals},
	}
	for _, part := range parts {
		if err := part.run(ctx, client); err != nil {
			return errors.Join(fmt.Errorf("%s: %w", part.name, err), client.Close())
		}
	}
	return client.Close()
}

// encryption is how to connect with TLS.
func encryption(authority, certificate, key string) (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(authority)
	if err != nil {
		return nil, err
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(text)
	return &tls.Config{RootCAs: trusted, Certificates: []tls.Certificate{pair}}, nil
}

// equal checks a result.
func equal(what string, got, want any) error {
	if !reflect.DeepEqual(got, want) {
		return fmt.Errorf("%s: got %v, want %v", what, got, want)
	}
	return nil
}

// sessions keeps what a web application knows of its visitors: a hash for each, which goes by
// itself.
func sessions(ctx context.Context, client *redis.Client) error {
	type session struct {
		User  string `redis:"user"`
		Items int    `redis:"items"`
		Admin bool   `redis:"admin"`
	}
	const key = "session:4711"
	_, err := client.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.HSet(ctx, key, session{User: "ada", Items: 2, Admin: true})
		p.Expire(ctx, key, time.Hour)
		return nil
	})
	if err != nil {
		return err
	}
	if err := client.HIncrBy(ctx, key, "items", 3).Err(); err != nil {
		return err
	}
	var read session
	if err := client.HGetAll(ctx, key).Scan(&read); err != nil {
		return err
	}
	if err := equal("session", read, session{User: "ada", Items: 5, Admin: true}); err != nil {
		return err
	}
	left, err := client.TTL(ctx, key).Result()
	if err != nil || left <= 0 || left > time.Hour {
		return fmt.Errorf("TTL %v (%v)", left, err)
	}
	// One that has ended.
	if err := client.Set(ctx, "session:old", "x", 5*time.Millisecond).Err(); err != nil {
		return err
	}
	time.Sleep(20 * time.Millisecond)
	if err := client.Get(ctx, "session:old").Err(); !errors.Is(err, redis.Nil) {
		return fmt.Errorf("an expired session: %v", err)
	}
	return nil
}

// leaderboard ranks players by score.
func leaderboard(ctx context.Context, client *redis.Client) error {
	const key = "leaderboard"
	for i := range 500 {
		if err := client.ZAdd(ctx, key, redis.Z{Score: float64(i * 10), Member: "player" + strconv.Itoa(i)}).Err(); err != nil {
			return err
		}
	}
	if err := client.ZIncrBy(ctx, key, 10_000.5, "player7").Err(); err != nil {
		return err
	}
	top, err := client.ZRevRangeWithScores(ctx, key, 0, 1).Result()
	if err != nil {
		return err
	}
	if err := equal("top", top, []redis.Z{{Score: 10070.5, Member: "player7"}, {Score: 4990, Member: "player499"}}); err != nil {
		return err
	}
	rank, err := client.ZRevRank(ctx, key, "player498").Result()
	if err != nil {
		return err
	}
	middle, err := client.ZRangeArgs(ctx, redis.ZRangeArgs{Key: key, Start: "(100", Stop: "130", ByScore: true}).Result()
	if err != nil {
		return err
	}
	count, err := client.ZCount(ctx, key, "-inf", "(100").Result()
	if err != nil {
		return err
	}
	return errors.Join(equal("rank", rank, int64(2)), equal("range", middle, []string{"player11", "player12", "player13"}), equal("count", count, int64(9)))
}

// rateLimiter lets a client do a thing so often within a window: a counter for each window that
// expires with it, without a script.
func rateLimiter(ctx context.Context, client *redis.Client) error {
	const limit = 10
	allowed := 0
	for range 25 {
		var count *redis.IntCmd
		_, err := client.TxPipelined(ctx, func(p redis.Pipeliner) error {
			count = p.Incr(ctx, "limit:client9:window1")
			p.ExpireNX(ctx, "limit:client9:window1", time.Hour)
			return nil
		})
		if err != nil {
			return err
		}
		if count.Val() <= limit {
			allowed++
		}
	}
	return equal("allowed", allowed, limit)
}

// stock sells more than there is to many customers at once; WATCH sees to it that nothing is sold
// twice.
func stock(ctx context.Context, client *redis.Client) error {
	const items, customers = 30, 8
	if err := client.Set(ctx, "stock", items, 0).Err(); err != nil {
		return err
	}
	var group sync.WaitGroup
	failures := make(chan error, customers)
	for customer := range customers {
		group.Go(func() { failures <- buyUntilSoldOut(ctx, client, customer) })
	}
	group.Wait()
	close(failures)
	for err := range failures {
		if err != nil {
			return err
		}
	}
	left, err := client.Get(ctx, "stock").Int()
	if err != nil {
		return err
	}
	sold, err := client.LLen(ctx, "sales").Result()
	if err != nil {
		return err
	}
	return errors.Join(equal("left", left, 0), equal("sold", sold, int64(items)))
}

func buyUntilSoldOut(ctx context.Context, client *redis.Client, customer int) error {
	soldOut := errors.New("sold out")
	buy := func(tx *redis.Tx) error {
		left, err := tx.Get(ctx, "stock").Int()
		if err != nil {
			return err
		}
		if left == 0 {
			return soldOut
		}
		_, err = tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
			p.Decr(ctx, "stock")
			p.RPush(ctx, "sales", customer)
			return nil
		})
		return err
	}
	for {
		err := client.Watch(ctx, buy, "stock")
		switch {
		case errors.Is(err, soldOut):
			return nil
		case err != nil && !errors.Is(err, redis.TxFailedErr):
			return err
		}
	}
}

// queue sends a thousand commands in one pipeline and takes the work in order.
func queue(ctx context.Context, client *redis.Client) error {
	const jobs = 1000
	replies, err := client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range jobs {
			p.LPush(ctx, "queue", "job"+strconv.Itoa(i))
		}
		return nil
	})
	if err != nil {
		return err
	}
	if got := replies[jobs-1].(*redis.IntCmd).Val(); got != jobs {
		return fmt.Errorf("the last push answered %d", got)
	}
	for i := range jobs {
		job, err := client.LMove(ctx, "queue", "running", "RIGHT", "LEFT").Result()
		if err != nil {
			return err
		}
		if err := equal("job", job, "job"+strconv.Itoa(i)); err != nil {
			return err
		}
	}
	exists, err := client.Exists(ctx, "queue").Result()
	if err != nil {
		return err
	}
	return equal("queue after all", exists, int64(0))
}

// scan walks over keys and over a large hash with the client's iterator.
func scan(ctx context.Context, client *redis.Client) error {
	const entries = 3000
	if _, err := client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range entries {
			p.Set(ctx, "scan:"+strconv.Itoa(i), i, 0)
			p.HSet(ctx, "scanned-hash", "field"+strconv.Itoa(i), i)
		}
		return nil
	}); err != nil {
		return err
	}
	keys := map[string]bool{}
	iterator := client.Scan(ctx, 0, "scan:*", 100).Iterator()
	for iterator.Next(ctx) {
		keys[iterator.Val()] = true
	}
	if err := iterator.Err(); err != nil {
		return err
	}
	fields := map[string]string{}
	pairs := client.HScan(ctx, "scanned-hash", 0, "", 50).Iterator()
	for pairs.Next(ctx) {
		field := pairs.Val()
		if !pairs.Next(ctx) {
			return errors.New("HSCAN returned a field without its value")
		}
		fields[field] = pairs.Val()
	}
	if err := pairs.Err(); err != nil {
		return err
	}
	return errors.Join(equal("keys seen", len(keys), entries), equal("fields seen", len(fields), entries), equal("a value", fields["field2999"], "2999"))
}

// types asks for results that the client has types for.
func types(ctx context.Context, client *redis.Client) error {
	if err := client.MSet(ctx, "a", "1", "b", "2").Err(); err != nil {
		return err
	}
	values, err := client.MGet(ctx, "a", "missing", "b").Result()
	if err != nil {
		return err
	}
	if err := client.SAdd(ctx, "tags", "red", "green").Err(); err != nil {
		return err
	}
	tags, err := client.SMembersMap(ctx, "tags").Result()
	if err != nil {
		return err
	}
	sum, err := client.IncrByFloat(ctx, "float", 0.5).Result()
	if err != nil {
		return err
	}
	bits, err := client.BitField(ctx, "bits", "SET", "u8", 0, 200, "OVERFLOW", "SAT", "INCRBY", "u8", 0, 100).Result()
	if err != nil {
		return err
	}
	estimated := client.PFAdd(ctx, "visitors", "a", "b", "c").Val() + client.PFCount(ctx, "visitors").Val()
	name, err := client.ClientGetName(ctx).Result()
	if err != nil {
		return err
	}
	return errors.Join(equal("MGET", values, []any{"1", nil, "2"}), equal("SMEMBERS", tags, map[string]struct{}{"red": {}, "green": {}}), equal("INCRBYFLOAT", sum, 0.5),
		equal("BITFIELD", bits, []int64{0, 255}), equal("PFADD and PFCOUNT", estimated, int64(4)), equal("the client's name", name, "goredis-test"))
}

// refusals expects errors where Redis has them.
func refusals(ctx context.Context, client *redis.Client) error {
	wrongType := client.LPush(ctx, "a", "x").Err()
	missing := client.HGet(ctx, "nothing", "field").Err()
	unknown := client.Do(ctx, "no-such-command").Err()
	switch {
	case wrongType == nil || wrongType.Error() != "WRONGTYPE Operation against a key holding the wrong kind of value":
		return fmt.Errorf("LPUSH on a string: %v", wrongType)
	case !errors.Is(missing, redis.Nil):
		return fmt.Errorf("HGET of nothing: %v", missing)
	case unknown == nil:
		return errors.New("an unknown command was taken")
	}
	return nil
}
