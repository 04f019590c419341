package migrate

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// request is what one server gets at once: several commands, as a transaction with what moves the marker,
// or without.
type request struct {
	client   *redis.Client
	slot     int
	commands []Command
	mark     []any // nil: not as a transaction
	moved    error // that another server has the keys
}

// redirectionTimeout bounds how long a cluster may take until somebody serves a slot.
const redirectionTimeout = 60 * time.Second

// deliver sends a batch and waits for the answers.
func (t *Target) deliver(l *lane, b *batch) {
	if t.ctx.Err() != nil {
		return
	}
	requests, err := t.requests(l, b)
	deadline := time.Now().Add(redirectionTimeout)
	for wait := time.Millisecond; err == nil && len(requests) > 0; wait = min(2*wait, time.Second) {
		if requests, err = t.exchange(requests); len(requests) == 0 || err != nil {
			break
		}
		if time.Now().After(deadline) {
			err = requests[0].moved
			break
		}
		err = t.follow(requests, wait)
	}
	if err != nil {
		t.stop(err)
	}
}

// requests makes one of a batch, or in a cluster one for each slot.
func (t *Target) requests(l *lane, b *batch) ([]*request, error) {
	if t.cluster == nil {
		return []*request{{client: t.client, commands: withSelects(b.commands), mark: t.markWords(l, b, 0)}}, nil
	}
	bySlot, list := map[int]*request{}, []*request(nil)
	for _, c := range b.commands {
		slot := slotOf(c.Args[c.Keys[0].Index])
		r := bySlot[slot]
		if r == nil {
			client, err := t.cluster.MasterForKey(t.ctx, slotTags()[slot])
			if err != nil {
				return nil, err
			}
			r = &request{client: client, slot: slot, mark: t.markWords(l, b, slot)}
			bySlot[slot] = r
			list = append(list, r)
		}
		r.commands = append(r.commands, c)
	}
	return list, nil
}

// exchange sends requests, one pipeline for each server, and returns those that another server has to get.
func (t *Target) exchange(requests []*request) (again []*request, err error) {
	for len(requests) > 0 {
		client := requests[0].client
		var here, others []*request
		for _, r := range requests {
			if r.client == client {
				here = append(here, r)
			} else {
				others = append(others, r)
			}
		}
		moved, err := t.exchangeWith(client, here)
		if err != nil {
			return nil, err
		}
		again = append(again, moved...)
		requests = others
	}
	return again, nil
}

// exchangeWith sends requests to one server.
func (t *Target) exchangeWith(client *redis.Client, requests []*request) (again []*request, err error) {
	pipeline := client.Pipeline()
	replies := make([][]*redis.Cmd, len(requests))
	for i, r := range requests {
		replies[i] = t.queue(pipeline, r)
	}
	// The errors of single commands are looked at one by one.
	if _, err := pipeline.Exec(t.ctx); err != nil && !isReply(err) {
		return nil, err
	}
	for i, r := range requests {
		moved, err := r.judge(replies[i])
		if err != nil {
			return nil, err
		}
		if moved {
			again = append(again, r)
		}
	}
	return again, nil
}

func isReply(err error) bool {
	_, ok := err.(redis.Error)
	return ok
}

// withSelects puts a SELECT wherever the database changes. A connection is in any database before, and
// has to be in 0, where the marker is, behind it.
func withSelects(commands []Command) []Command {
	selected := -1
	var all []Command
	database := func(number int) {
		if number != selected {
			all = append(all, Command{Args: [][]byte{[]byte("SELECT"), strconv.AppendInt(nil, int64(number), 10)}})
			selected = number
		}
	}
	for _, c := range commands {
		database(c.Database)
		all = append(all, c)
	}
	database(0)
	return all
}

// queue puts a request into a pipeline. The last reply of a transaction is EXEC's.
func (t *Target) queue(pipeline redis.Pipeliner, r *request) (replies []*redis.Cmd) {
	if r.mark != nil {
		pipeline.Do(t.ctx, "MULTI")
	}
	for _, c := range r.commands {
		words := make([]any, len(c.Args))
		for i, word := range c.Args {
			words[i] = word
		}
		replies = append(replies, pipeline.Do(t.ctx, words...))
	}
	if r.mark != nil {
		pipeline.Do(t.ctx, r.mark...)
		replies = append(replies, pipeline.Do(t.ctx, "EXEC"))
	}
	return replies
}

// judge looks at the answers. moved says that the request, or what is left of it, is for another server.
func (r *request) judge(replies []*redis.Cmd) (moved bool, err error) {
	if r.mark != nil {
		return r.judgeTransaction(replies)
	}
	var left []Command
	for i, c := range r.commands {
		err := replies[i].Err()
		switch {
		case err == nil, err == redis.Nil:
		case isRedirection(err):
			left, r.moved = append(left, c), err
		default:
			return false, fmt.Errorf("%w (%s)", err, brief(c.Args))
		}
	}
	r.commands = left
	return len(left) > 0, nil
}

func (r *request) judgeTransaction(replies []*redis.Cmd) (moved bool, err error) {
	executed := replies[len(replies)-1]
	if err := executed.Err(); err != nil {
		// What was refused when it was queued says why.
		for i, c := range r.commands {
			if refused := replies[i].Err(); refused != nil {
				if isRedirection(refused) {
					r.moved = refused
					return true, nil
				}
				return false, fmt.Errorf("%w (%s)", refused, brief(c.Args))
			}
		}
		if isRedirection(err) {
			r.moved = err
			return true, nil
		}
		return false, fmt.Errorf("a transaction: %w", err)
	}
	results, ok := executed.Val().([]any)
	if !ok || len(results) != len(r.commands)+1 {
		return false, fmt.Errorf("a transaction was answered with %v", executed.Val())
	}
	for i, c := range r.commands {
		if err, bad := results[i].(error); bad {
			return false, &divergence{fmt.Errorf("%w (%s)", err, brief(c.Args))}
		}
	}
	return false, nil
}

// divergence says that the target has refused one command of a transaction and carried out the others:
// its data isn't what the source's was.
type divergence struct{ err error }

func (d *divergence) Error() string { return d.err.Error() }
func (d *divergence) Unwrap() error { return d.err }

func isRedirection(err error) bool {
	for _, code := range []string{"MOVED ", "ASK ", "TRYAGAIN ", "CLUSTERDOWN "} {
		if strings.HasPrefix(err.Error(), code) {
			return true
		}
	}
	return false
}

// follow finds the servers that have the requests' slots now.
func (t *Target) follow(requests []*request, wait time.Duration) error {
	if t.cluster == nil {
		return failure(ExitTarget, "the target %s answers that its keys are elsewhere, and doesn't say that it is a cluster", t.options.address())
	}
	t.cluster.ReloadState(t.ctx)
	select {
	case <-t.ctx.Done():
		return t.failed()
	case <-time.After(wait):
	}
	for _, r := range requests {
		client, err := t.cluster.MasterForKey(t.ctx, slotTags()[r.slot])
		if err != nil {
			return err
		}
		r.client = client
	}
	return nil
}
