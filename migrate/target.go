package migrate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"kedis/storage/fieldtimes"
	"kedis/storage/rdb"
)

// TargetOptions say where data goes, and how.
type TargetOptions struct {
	Server
	Connections int // how many write at the same time; 0 is DefaultConnections
	Conflicts   *Conflicts
	Limit       *Limit
	Progress    *Progress
	Hold        bool   // expiries, until Release: see expiry.go
	Move        string // what connections are named after, so that EndFormer finds them; empty: nothing

	// Patience is how long a cluster may take until somebody serves a slot; 0 is DefaultPatience.
	Patience time.Duration
}

// DefaultConnections is how many connections write at the same time unless told otherwise.
const DefaultConnections = 4

// DefaultPatience is how long a cluster may take until somebody serves a slot unless told
// otherwise.
const DefaultPatience = time.Minute

// Target is a Kedis, a Redis or a Redis Cluster that is written to. It is a Sink.
//
// Keys are spread over lanes, each of which sends one batch after the other, so that what is done
// to a key stays in order while several connections are busy. What touches keys of several lanes
// waits until all lanes are idle; from then on everything goes through one lane, until there was a
// batch without such a thing. In a cluster a lane has whole slots, and no command goes beyond a
// slot.
type Target struct {
	options TargetOptions
	ctx     context.Context
	cancel  context.CancelCauseFunc
	client  *redis.Client        // of the server that was named
	cluster *redis.ClusterClient // nil if that is no cluster
	facts   facts

	lanes    []*lane
	pushed   time.Time // under a limit, when Push was called last
	serial   bool      // everything goes through lanes[0]
	spanning int       // groups of several lanes in the batch that lanes[0] has open
	inFlight sync.WaitGroup
	workers  sync.WaitGroup
	open     map[int]*redis.Client // for other databases than 0, by number
	reached  map[int]bool          // databases that are there
	held     bool                  // an expiry, since this target was opened
	marker   *marker               // nil unless positions are kept
	unnamed  error                 // why connections can't be named

	payloads   PayloadBuilder
	fieldTimes fieldTimesOf // whether the target knows them; asked when there is one to be written
}

// OpenTarget connects.
func OpenTarget(ctx context.Context, options TargetOptions) (opened *Target, err error) {
	if options.Connections <= 0 {
		options.Connections = DefaultConnections
	}
	if options.Patience <= 0 {
		options.Patience = DefaultPatience
	}
	t := &Target{options: options, open: map[int]*redis.Client{}, reached: map[int]bool{}}
	t.ctx, t.cancel = context.WithCancelCause(ctx)
	defer func() {
		if err != nil { // it is tried again and again while the target is away
			t.cancel(err)
		}
	}()
	t.payloads.refuseTimes = t.refuseTimes
	if err := t.introduce(); err != nil {
		return nil, targetSide.explain(options.address(), err)
	}
	options = t.options
	t.client = redis.NewClient(options.options(0, options.Connections+1))
	if t.facts, err = ask(ctx, t.client, "server", "cluster", "replication"); err != nil {
		return nil, errors.Join(targetSide.explain(options.address(), err), t.client.Close())
	}
	if t.facts["role"] == "slave" {
		err := failure(ExitTarget, "the target %s is a replica, which can't be written to; name its primary", options.address())
		return nil, errors.Join(err, t.client.Close())
	}
	if t.facts["cluster_enabled"] == "1" {
		t.cluster = clusterClient(&options.Server, options.Connections+1)
	}
	t.start()
	return t, nil
}

// Try writes and removes the marker of a run: what a target refuses at all, it refuses before
// anything is there.
func (t *Target) Try(id string) error {
	m, client := &marker{id: id}, redis.UniversalClient(t.client)
	key := m.key()
	if t.cluster != nil {
		client, key = t.cluster, m.slotKey(0)
	}
	err := client.Set(t.ctx, key, Position{}.String(), 0).Err()
	return targetSide.explain(t.options.address(), cmp.Or(err, client.Del(t.ctx, key).Err()))
}

func (t *Target) start() {
	for i := range t.options.Connections {
		l := t.newLane(i)
		t.lanes = append(t.lanes, l)
		t.workers.Add(1)
		go func() {
			defer t.workers.Done()
			l.run()
		}()
	}
}

// IsCluster says whether the target is a Redis Cluster.
func (t *Target) IsCluster() bool { return t.cluster != nil }

// Close ends the connections. What wasn't flushed may or may not be written.
func (t *Target) Close() error {
	t.cancel(context.Canceled)
	for _, l := range t.lanes {
		close(l.queue)
	}
	t.workers.Wait()
	err := t.client.Close()
	for _, client := range t.open {
		err = errors.Join(err, client.Close())
	}
	if t.cluster != nil {
		err = errors.Join(err, t.cluster.Close())
	}
	return err
}

// reach checks that the target has a database: a SELECT that fails in a transaction would send what
// follows to another one.
func (t *Target) reach(database int) error {
	switch {
	case database == 0 || t.reached[database]:
		return nil
	case t.cluster != nil:
		return failure(ExitUnsupported, "a key of database %d: the target is a cluster, which has only database 0 (see --db and --db-map)", database)
	}
	if err := t.database(database).Ping(t.ctx).Err(); err != nil {
		return targetSide.explain(t.options.address(), fmt.Errorf("database %d: %w", database, err))
	}
	t.reached[database] = true
	return nil
}

// database is a client on a database.
func (t *Target) database(number int) *redis.Client {
	if number == 0 {
		return t.client
	}
	if t.open[number] == nil {
		t.open[number] = redis.NewClient(t.options.options(number, 2))
	}
	return t.open[number]
}

// failed is why nothing is taken any more.
func (t *Target) failed() error {
	if t.ctx.Err() == nil {
		return nil
	}
	return context.Cause(t.ctx)
}

// Apply carries commands out, in one transaction where they are several. In a cluster that is one
// for each slot.
func (t *Target) Apply(commands ...Command) error { return t.ApplyAt(Position{}, commands...) }

// ApplyAt is Apply for what a stream has up to a position. What was applied before, as the marker
// says, is passed over.
func (t *Target) ApplyAt(position Position, commands ...Command) error {
	if err := t.failed(); err != nil {
		return err
	}
	taken, bytes := commands[:0:0], 0
	for _, c := range commands {
		if t.cluster != nil && c.isFunction() {
			if err := t.applyFunction(&c); err != nil {
				return err
			}
			continue
		}
		kept, err := t.options.Conflicts.resolve(&c)
		if err != nil {
			return err
		}
		if kept == nil {
			t.skip("commands on keys that the target had")
			continue
		}
		if err := t.reach(kept.Database); err != nil {
			return err
		}
		if fieldtimes.Gives(kept.Args) {
			if err := t.refuseTimes(); err != nil {
				return fmt.Errorf("%s: %w", brief(kept.Args), err)
			}
		}
		removals, err := t.options.Conflicts.clearBefore(kept)
		if err != nil {
			return err
		}
		parts, err := t.known(kept)
		if err != nil {
			return err
		}
		taken = append(append(taken, removals...), parts...)
		for _, part := range parts {
			for _, word := range part.Args {
				bytes += len(word)
			}
		}
	}
	if len(taken) == 0 {
		return nil
	}
	if err := t.options.Limit.wait(t.ctx, bytes, len(taken)); err != nil {
		return err
	}
	if t.cluster != nil {
		return t.applyToCluster(position, taken)
	}
	return t.applyToServer(position, taken)
}

// fieldTimesOf is whether a server knows that fields of hashes expire.
type fieldTimesOf int

const (
	fieldTimesUnasked fieldTimesOf = iota
	fieldTimesKnown
	fieldTimesUnknown
)

// askFieldTimes asks a server.
func askFieldTimes(ctx context.Context, client *redis.Client) (fieldTimesOf, error) {
	replies, err := client.Do(ctx, "COMMAND", "INFO", "hpexpireat").Slice()
	if err != nil || len(replies) != 1 {
		return fieldTimesUnasked, cmp.Or(err, fmt.Errorf("COMMAND INFO has answered with %v", replies))
	}
	if replies[0] == nil {
		return fieldTimesUnknown, nil
	}
	return fieldTimesKnown, nil
}

// askFieldTimes asks the target, once.
func (t *Target) askFieldTimes() (err error) {
	if t.fieldTimes != fieldTimesUnasked {
		return nil
	}
	if t.fieldTimes, err = askFieldTimes(t.ctx, t.client); err != nil {
		return targetSide.explain(t.options.address(), err)
	}
	return nil
}

// refuseTimes returns why the target can't be told when a field expires; nil if it can.
func (t *Target) refuseTimes() (err error) {
	if err := t.askFieldTimes(); err != nil {
		return err
	}
	if t.fieldTimes == fieldTimesUnknown {
		return failure(ExitUnsupported, "fields of a hash expire, which the target %s doesn't know (Redis does from 7.4 on); --without-field-times leaves that out", t.options.address())
	}
	return nil
}

func (t *Target) skip(why string) {
	if t.options.Progress != nil {
		t.options.Progress.Skip(why)
	}
}

func (t *Target) applyToServer(position Position, group []Command) error {
	first, spans := -1, false
	for _, c := range group {
		for _, key := range c.Keys {
			lane := t.laneOf(c.Args[key.Index])
			spans = spans || first >= 0 && lane != first
			first = lane
		}
		spans = spans || c.Wide || len(c.Keys) == 0 // or a command on a whole database
	}
	if t.marker.applied(max(first, 0), spans, position) {
		return nil
	}
	if !spans && !t.serial {
		return t.add(t.lanes[first], group, position)
	}
	if !t.serial {
		if err := t.Flush(); err != nil {
			return err
		}
		t.serial = true
	}
	if spans {
		t.spanning++
	}
	t.lanes[0].open.all = true
	return t.add(t.lanes[0], group, position)
}

// applyToCluster gives each slot its part of a group.
func (t *Target) applyToCluster(position Position, group []Command) error {
	bySlot, order := map[int][]Command{}, []int{}
	put := func(c Command) error {
		slot := slotOf(c.Args[c.Keys[0].Index])
		for _, key := range c.Keys[1:] {
			if slotOf(c.Args[key.Index]) != slot {
				return failure(ExitUnsupported, "%s has keys in several slots, which a cluster can't do: give such keys a common {tag}, or leave them out", brief(c.Args))
			}
		}
		if bySlot[slot] == nil {
			order = append(order, slot)
		}
		bySlot[slot] = append(bySlot[slot], c)
		return nil
	}
	for _, c := range group {
		parts := c.apart()
		if parts == nil {
			parts = []Command{c}
		}
		for _, part := range parts {
			if len(part.Keys) == 0 {
				return failure(ExitUnsupported, "%s can't be carried over to a cluster", brief(c.Args))
			}
			if err := put(part); err != nil {
				return err
			}
		}
	}
	for _, slot := range order {
		if !t.marker.applied(slot, false, position) {
			t.gather(t.lanes[slot%len(t.lanes)], bySlot[slot], position)
		}
	}
	// Not before all parts are gathered: a batch notes its position for each slot that it has
	// something of.
	for _, l := range t.lanes {
		if err := t.pushFull(l); err != nil {
			return err
		}
	}
	return nil
}

// laneOf is the lane that has a key, in whichever database, so that MOVE stays in one lane. It is
// the same in every run: what a marker says of a lane it says of the lane's keys.
func (t *Target) laneOf(key []byte) int {
	if t.cluster != nil {
		return slotOf(key) % len(t.lanes)
	}
	return int(crc32.ChecksumIEEE(key) % uint32(len(t.lanes)))
}

// add puts a group into a lane's batch, as a whole, and sends that when it is full.
func (t *Target) add(l *lane, group []Command, position Position) error {
	t.gather(l, group, position)
	return t.pushFull(l)
}

// gather puts a group, or a slot's part of it, into a lane's batch.
func (t *Target) gather(l *lane, group []Command, position Position) {
	for _, c := range group {
		slot := 0
		if t.cluster != nil {
			slot = slotOf(c.Args[c.Keys[0].Index])
		}
		l.open.add(c.Database, slot, c.Args...)
	}
	l.open.position = position
}

// pushFull sends a lane's open batch if it is full.
func (t *Target) pushFull(l *lane) error {
	if !l.open.full(t.marker != nil) {
		return nil
	}
	return t.push(l)
}

// push sends a lane's open batch.
func (t *Target) push(l *lane) error {
	if len(l.open.entries) == 0 {
		return nil
	}
	if err := t.enqueue(l, l.open); err != nil {
		return err
	}
	l.open = l.next()
	if t.serial {
		if t.spanning == 0 {
			t.inFlight.Wait()
			t.serial = false
		}
		t.spanning = 0
	}
	return nil
}

func (t *Target) enqueue(l *lane, b *batch) error {
	t.inFlight.Add(1)
	select {
	case l.queue <- b:
		return nil
	case <-t.ctx.Done():
		t.inFlight.Done()
		return t.failed()
	}
}

// Push sends what has gathered, without waiting for it.
func (t *Target) Push() error {
	for _, l := range t.lanes {
		if err := t.push(l); err != nil {
			return err
		}
	}
	return t.failed()
}

// Flush waits until all that came before is written.
func (t *Target) Flush() error {
	if err := t.Push(); err != nil {
		return err
	}
	t.inFlight.Wait()
	return t.failed()
}

// Load writes a key with its value in place of what was there.
func (t *Target) Load(key Key, value *rdb.Value) error {
	if err := t.failed(); err != nil {
		return err
	}
	if own, err := t.options.Conflicts.keeps(key.Database, key.Name); own || err != nil {
		if own {
			t.skip("keys that the target had")
		}
		return err
	}
	if err := t.reach(key.Database); err != nil {
		return err
	}
	if key.Held = key.Held || t.options.Hold; key.Held {
		t.held = t.held || key.ExpireMs != 0
		key.ExpireMs = ofKeys.hold(key.ExpireMs)
	}
	l, slot := t.lanes[t.laneOf(key.Name)], 0
	if t.serial {
		l = t.lanes[0]
	}
	if t.cluster != nil {
		slot = slotOf(key.Name)
	}
	write := func(words ...[]byte) error {
		size := 0
		for _, word := range words {
			size += len(word)
		}
		if err := t.options.Limit.wait(t.ctx, size, 0); err != nil {
			return err
		}
		if value.Kind == rdb.Stream && size > batchBytes { // one in memory: see streamBytes
			if err := t.Flush(); err != nil {
				return err
			}
		}
		l.open.add(key.Database, slot, words...)
		return t.pushFull(l)
	}
	if err := t.payloads.writeValue(key, value, t.facts.major() >= firstOfPayloads, write); err != nil {
		return fmt.Errorf("key %.200q of type %s in database %d: %w", key.Name, value.Kind, key.Database, err)
	}
	if t.options.Progress != nil {
		t.options.Progress.Keys.Add(1)
	}
	if t.options.Limit.unlimited() {
		return nil
	}
	// What a limit holds back mustn't wait for a batch to be full as well.
	if err := t.options.Limit.wait(t.ctx, 0, 1); err != nil {
		return err
	}
	if now := time.Now(); now.Sub(t.pushed) > burst {
		t.pushed = now
		return t.Push()
	}
	return nil
}

// stop ends everything with an error.
func (t *Target) stop(err error) { t.cancel(targetSide.explain(t.options.address(), err)) }

var _ Sink = (*Target)(nil)
