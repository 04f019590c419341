// Command locks uses redsync and redis_rate: locks that one holds at a time, and limits that hold
// for all who share them, across a crash of the server too.
package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"kedis-programs/driver"
)

func main() {
	driver.Run("redsync and redis_rate", exclusive, extended, limits, survives)
}

func open() (*redis.Client, *redsync.Redsync) {
	client := redis.NewClient(&redis.Options{Addr: driver.Address(), MaxRetries: 20})
	return client, redsync.New(goredis.NewPool(client))
}

// exclusive: what is read and written a moment later isn't lost when a lock is held meanwhile.
func exclusive(ctx context.Context) error {
	const customers, rounds = 8, 25
	client, _ := open()
	defer client.Close()
	var (
		holders  atomic.Int32
		group    sync.WaitGroup
		failures = make(chan error, customers)
	)
	for range customers {
		group.Go(func() { failures <- addUnderLock(ctx, rounds, &holders) })
	}
	group.Wait()
	close(failures)
	for err := range failures {
		if err != nil {
			return err
		}
	}
	counter, err := client.Get(ctx, "counter").Int()
	if err != nil || counter != customers*rounds {
		return fmt.Errorf("the counter is %d, want %d (%v)", counter, customers*rounds, err)
	}
	return nil
}

// addUnderLock adds to a counter with two commands, as a process of its own would.
func addUnderLock(ctx context.Context, rounds int, holders *atomic.Int32) error {
	client, locks := open()
	defer client.Close()
	mutex := locks.NewMutex("lock:counter", redsync.WithExpiry(time.Minute), redsync.WithTries(100_000), redsync.WithRetryDelay(2*time.Millisecond))
	for range rounds {
		if err := mutex.LockContext(ctx); err != nil {
			return err
		}
		if n := holders.Add(1); n != 1 {
			return fmt.Errorf("%d hold the lock", n)
		}
		counter, err := client.Get(ctx, "counter").Int()
		if err != nil && !errors.Is(err, redis.Nil) {
			return err
		}
		if err := client.Set(ctx, "counter", strconv.Itoa(counter+1), 0).Err(); err != nil {
			return err
		}
		holders.Add(-1)
		if unlocked, err := mutex.UnlockContext(ctx); err != nil || !unlocked {
			return fmt.Errorf("unlocking: %v (%v)", unlocked, err)
		}
	}
	return nil
}

// extended: a lock lives for as long as its holder extends it, and who was too late holds nothing.
func extended(ctx context.Context) error {
	client, locks := open()
	defer client.Close()
	holder := locks.NewMutex("lock:extended", redsync.WithExpiry(time.Minute))
	other := locks.NewMutex("lock:extended", redsync.WithExpiry(time.Minute))
	if err := holder.LockContext(ctx); err != nil {
		return err
	}
	var taken *redsync.ErrTaken
	if err := other.TryLockContext(ctx); !errors.As(err, &taken) {
		return fmt.Errorf("a lock was taken that another holds: %v", err)
	}
	if is, err := holder.ExtendContext(ctx); err != nil || !is {
		return fmt.Errorf("extending: %v (%v)", is, err)
	}
	if is, err := other.UnlockContext(ctx); is {
		return fmt.Errorf("another has unlocked it (%v)", err)
	}
	if err := client.PExpire(ctx, "lock:extended", time.Millisecond).Err(); err != nil {
		return err
	}
	err := driver.Until(ctx, "the lock has expired", func() (bool, error) {
		err := other.TryLockContext(ctx)
		if errors.As(err, &taken) {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		return err
	}
	if is, err := holder.ExtendContext(ctx); is {
		return fmt.Errorf("the first holder has extended a lock that is another's (%v)", err)
	}
	_, err = other.UnlockContext(ctx)
	return err
}

// ask asks many times at once, and returns how often it was allowed.
func ask(ctx context.Context, limiter *redis_rate.Limiter, key string, limit redis_rate.Limit, times int) (allowed int, err error) {
	results := make([]*redis_rate.Result, times)
	failures := make([]error, times)
	var group sync.WaitGroup
	for i := range times {
		group.Go(func() { results[i], failures[i] = limiter.Allow(ctx, key, limit) })
	}
	group.Wait()
	if err := errors.Join(failures...); err != nil {
		return 0, err
	}
	for _, result := range results {
		allowed += result.Allowed
	}
	return allowed, nil
}

// limits: however many ask at once, so many are let in.
func limits(ctx context.Context) error {
	client, _ := open()
	defer client.Close()
	limiter := redis_rate.NewLimiter(client)
	daily := redis_rate.Limit{Rate: 10, Burst: 10, Period: 24 * time.Hour}
	if allowed, err := ask(ctx, limiter, "ada", daily, 60); err != nil || allowed != 10 {
		return fmt.Errorf("%d were allowed (%v)", allowed, err)
	}
	some, err := limiter.AllowAtMost(ctx, "bob", daily, 7)
	if err != nil || some.Allowed != 7 || some.Remaining != 3 {
		return fmt.Errorf("7 of 10: %+v (%v)", some, err)
	}
	rest, err := limiter.AllowAtMost(ctx, "bob", daily, 7)
	if err != nil || rest.Allowed != 3 || rest.Remaining != 0 {
		return fmt.Errorf("the rest: %+v (%v)", rest, err)
	}
	refused, err := limiter.AllowN(ctx, "bob", daily, 2)
	if err != nil || refused.Allowed != 0 || refused.RetryAfter <= time.Hour {
		return fmt.Errorf("too many: %+v (%v)", refused, err)
	}
	if err := limiter.Reset(ctx, "bob"); err != nil {
		return err
	}
	if allowed, err := ask(ctx, limiter, "bob", daily, 20); err != nil || allowed != 10 {
		return fmt.Errorf("after a reset %d were allowed (%v)", allowed, err)
	}
	// One that refills.
	fast := redis_rate.Limit{Rate: 1000, Burst: 1, Period: time.Second}
	return driver.Until(ctx, "a limit that refills is refilled", func() (bool, error) {
		allowed, err := ask(ctx, limiter, "eve", fast, 1)
		return allowed == 1, err
	})
}

// survives: a crash forgets neither who holds a lock nor what was used up.
func survives(ctx context.Context) error {
	client, locks := open()
	defer client.Close()
	limiter := redis_rate.NewLimiter(client)
	daily := redis_rate.Limit{Rate: 10, Burst: 10, Period: 24 * time.Hour}
	holder := locks.NewMutex("lock:survives", redsync.WithExpiry(time.Hour))
	if err := holder.LockContext(ctx); err != nil {
		return err
	}
	if allowed, err := ask(ctx, limiter, "kim", daily, 6); err != nil || allowed != 6 {
		return fmt.Errorf("%d were allowed (%v)", allowed, err)
	}
	if err := driver.Crash(); err != nil {
		return err
	}
	other := locks.NewMutex("lock:survives", redsync.WithExpiry(time.Hour))
	var taken *redsync.ErrTaken
	if err := other.TryLockContext(ctx); !errors.As(err, &taken) {
		return fmt.Errorf("after the crash a lock was taken that another holds: %v", err)
	}
	if allowed, err := ask(ctx, limiter, "kim", daily, 30); err != nil || allowed != 4 {
		return fmt.Errorf("after the crash %d were allowed (%v)", allowed, err)
	}
	if is, err := holder.UnlockContext(ctx); err != nil || !is {
		return fmt.Errorf("after the crash its holder can't unlock: %v (%v)", is, err)
	}
	return other.TryLockContext(ctx)
}
