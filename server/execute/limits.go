package execute

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"kedis/server/access"
	"kedis/server/quota"
)

// limits are those of databases. Those of users stand in their rules.
type limits struct {
	engine    *Engine
	databases atomic.Pointer[[]*databaseLimits] // by number; nil: none has any
	any       condition                         // some have
	disk      quota.Disk                        // of databases that may take so much on it, by their namespaces

	changing  sync.Mutex
	measuring bool
}

// databaseLimits are a database's limits and what is used of them. It stays the same when limits
// change.
type databaseLimits struct {
	number            int
	keys, bytes       atomic.Int64 // 0: as many as may be
	requests, traffic quota.Rate
	refused           atomic.Int64 // commands that would have brought more than it may hold
}

const measureEvery = time.Second

func (l *limits) init(e *Engine) {
	l.engine = e
	e.Config.OnChange("database-limit", l.change)
}

// BeginLimits puts the limits that are configured into effect. It is called before anybody can
// connect.
func (e *Engine) BeginLimits() error { return e.limits.change() }

// change takes over what is configured.
func (l *limits) change() error {
	l.changing.Lock()
	defer l.changing.Unlock()
	configured := l.engine.Config.DatabaseLimits.Get()
	for database := range configured {
		if count := l.engine.Store.Databases(); database >= count {
			return fmt.Errorf("database-limit: there is no database %d, only %d databases", database, count)
		}
	}
	all := make([]*databaseLimits, l.engine.Store.Databases())
	if former := l.databases.Load(); former != nil {
		copy(all, *former)
	}
	for database, limit := range configured {
		if all[database] == nil {
			all[database] = &databaseLimits{number: database}
		}
		d := all[database]
		d.keys.Store(limit.Keys)
		d.bytes.Store(limit.Bytes)
		d.requests.SetPerSecond(limit.Requests)
		d.traffic.SetPerSecond(limit.Traffic)
	}
	for database := range all {
		if _, ok := configured[database]; !ok {
			all[database] = nil
		}
	}
	if len(configured) == 0 {
		l.databases.Store(nil)
	} else {
		l.databases.Store(&all)
	}
	l.any.Store(len(configured) > 0)
	l.engine.Users.SetLimited(len(configured) > 0)
	return l.beginMeasuring(all)
}

// of returns a database's limits; nil if it has none.
func (l *limits) of(database int) *databaseLimits {
	all := l.databases.Load()
	if all == nil || database < 0 || database >= len(*all) {
		return nil
	}
	return (*all)[database]
}

// beginMeasuring measures what databases take that may take so much, now and from time to time.
func (l *limits) beginMeasuring(all []*databaseLimits) error {
	if !slices.ContainsFunc(all, (*databaseLimits).limitsBytes) {
		return nil
	}
	if err := l.measure(all); err != nil {
		return err
	}
	if !l.measuring {
		l.measuring = true
		go l.keepMeasuring()
	}
	return nil
}

func (d *databaseLimits) limitsBytes() bool { return d != nil && d.bytes.Load() > 0 }

func (l *limits) keepMeasuring() {
	for every := time.NewTicker(measureEvery); ; {
		select {
		case <-l.engine.stopped:
			every.Stop()
			return
		case <-every.C:
		}
		all := l.databases.Load()
		if all == nil || !slices.ContainsFunc(*all, (*databaseLimits).limitsBytes) {
			l.disk.Measured(nil, 0, 0) // so that all is forgotten: what comes meanwhile isn't counted
			continue
		}
		if err := l.measure(*all); err != nil && !l.engine.Stopping() {
			l.engine.logFailure("database-limit", err)
		}
	}
}

// measure measures databases that may take so much, and others that have got theirs by SWAPDB: it
// may come back.
func (l *limits) measure(all []*databaseLimits) error {
	written, end := l.engine.Store.Written(), l.engine.Store.Position() // before the files: they have at least this
	files, err := l.engine.Store.DatabaseBytes(func(database int, namespace uint32) bool {
		return all[database].limitsBytes() || l.disk.Knows(namespace)
	})
	if err == nil {
		l.disk.Measured(files, written, end)
	}
	return err
}

// overRate is the refusal of a request beyond a rate.
type overRate struct {
	refusal Error
	rate    *quota.Rate
	units   int64
}

func (o *overRate) Error() string { return string(o.refusal) }

// admitUnits is nil if a rate admits so many units.
func (b *Batch) admitUnits(rate *quota.Rate, units int64, format string, of any) error {
	if rate.Admit(units, b.Now()) {
		return nil
	}
	return &overRate{Error(fmt.Sprintf("LIMIT "+format, of, rate.PerSecond())), rate, units}
}

// requireRates keeps out requests beyond what a user, or a database, may be asked for in a second.
// A request that comes again after a wait or a commit, and those inside of another one, aren't
// counted.
func (b *Batch) requireRates(s *Session, r *Request, database int) error {
	switch {
	case r.overRate != nil:
		return r.overRate
	case r.metered || b.running.underway:
		return nil
	}
	r.metered = true
	user, limits, bytes := s.User, b.engine.limits.of(database), int64(WordBytes(r.Args))
	if err := b.admitUnits(&user.Requests, 1, "user %s may make %d requests a second", user.Name()); err != nil {
		return err
	}
	if err := b.admitUnits(&user.Traffic, bytes, "user %s may send and receive %d bytes a second", user.Name()); err != nil {
		return err
	}
	if limits == nil || !usesDatabase(r) {
		return nil
	}
	if err := b.admitUnits(&limits.requests, 1, "database %d takes %d requests a second", database); err != nil {
		return err
	}
	return b.admitUnits(&limits.traffic, bytes, "database %d takes and gives %d bytes a second", database)
}

// refuseOverRate answers a request beyond a rate, which may take a moment (see quota.Rate). The
// client waits meanwhile, so that nothing more of it is read.
func (b *Batch) refuseOverRate(s *Session, r *Request, over *overRate) Outcome {
	r.overRate = over
	reactor := b.budget > 0
	if reactor && !b.settled() {
		return Separate
	}
	hold := over.rate.Refuse(over.units, b.Now())
	if !reactor || hold <= 0 {
		return b.turnDown(s, r, over.refusal)
	}
	return b.refuseAt(s, r, b.engine.Elapsed()+hold, over.refusal)
}

// usesDatabase reports whether a request is one on data.
func usesDatabase(r *Request) bool { return r.flags&(Write|ReadOnly) != 0 || r.Command.RunsQueue }

// chargeReply counts the reply to a request that was admitted.
func (b *Batch) chargeReply(c *Invocation) {
	user := c.Session.User
	if user == nil {
		return
	}
	bytes, now := int64(c.Reply.Len()-c.before.reply), b.Now()
	user.Traffic.Charge(bytes, now)
	if limits := b.engine.limits.of(c.selected); limits != nil && usesDatabase(c.Request) {
		limits.traffic.Charge(bytes, now)
	}
}

// requireQuota refuses what has brought a database more than it may hold. Only what a command
// itself has written counts: one that brings nothing more is taken by a database that holds too
// much already.
func (b *Batch) requireQuota(c *Invocation) error {
	all := b.engine.limits.databases.Load()
	if all == nil || b.repeat.applying || c.Session.User == nil || c.flags&Write == 0 {
		return nil
	}
	for _, d := range *all {
		if d == nil {
			continue
		}
		if err := b.admitGrowth(d, c); err != nil {
			d.refused.Add(1)
			return err
		}
	}
	return nil
}

func (b *Batch) admitGrowth(d *databaseLimits, c *Invocation) error {
	mostKeys, mostBytes := d.keys.Load(), d.bytes.Load()
	if mostKeys == 0 && mostBytes == 0 {
		return nil
	}
	keys, bytes := b.txn.Grown(&c.before.txn, d.number)
	namespace := b.txn.Namespace(d.number)
	if mostKeys > 0 && keys > 0 && b.txn.Keys(namespace) > mostKeys {
		return Errorf("QUOTA database %d may have %d keys", d.number, mostKeys)
	}
	if mostBytes == 0 || bytes == 0 {
		return nil
	}
	grown := &b.running.outbox.grown
	*grown = append(*grown, growth{namespace.Number, grown.of(namespace.Number) + bytes})
	if c.flags&DenyOOM != 0 && b.engine.limits.disk.Bytes(namespace.Number)+grown.of(namespace.Number) > mostBytes {
		return Errorf("QUOTA database %d may take %d bytes on disk", d.number, mostBytes)
	}
	return nil
}

// growths are what the outermost request has brought namespaces whose databases have a limit of
// bytes, in the order in which that came: what is taken back is cut off.
type growths []growth

type growth struct {
	namespace uint32
	bytes     int64 // all that it has got up to there
}

// of is what a namespace has got.
func (g growths) of(namespace uint32) int64 {
	for i := len(g) - 1; i >= 0; i-- { // mostly it is the last one
		if g[i].namespace == namespace {
			return g[i].bytes
		}
	}
	return 0
}

// countGrowth counts what the outermost request has brought, before it is committed.
func (b *Batch) countGrowth() {
	outbox := &b.running.outbox
	for grown := outbox.grown; len(grown) > 0; {
		last := grown[len(grown)-1]
		b.engine.limits.disk.Add(last.namespace, last.bytes)
		grown = slices.DeleteFunc(grown, func(g growth) bool { return g.namespace == last.namespace })
	}
	outbox.grown = outbox.grown[:0]
}

// LimitUse is a limit that is set, and what is used of it.
type LimitUse struct {
	Keys, Bytes, Requests, Traffic int64 // 0: none
	UsedKeys, UsedBytes            int64
	Refused                        int64
}

// DatabaseLimitUses calls f with the limits of databases.
func (e *Engine) DatabaseLimitUses(f func(database int, use LimitUse)) {
	all := e.limits.databases.Load()
	if all == nil {
		return
	}
	for _, d := range *all {
		if d == nil {
			continue
		}
		keys, _ := e.Store.Size(d.number)
		bytes := e.limits.disk.Bytes(e.Store.NamespaceOf(d.number).Number)
		f(d.number, LimitUse{d.keys.Load(), d.bytes.Load(), d.requests.PerSecond(), d.traffic.PerSecond(), keys, bytes,
			d.refused.Load() + d.requests.Refused() + d.traffic.Refused()})
	}
}

// UserRateUses calls f with the rates of users.
func (e *Engine) UserRateUses(f func(user string, use LimitUse)) {
	e.Users.Each(func(user *access.User) {
		requests, traffic := user.Rules().Rates()
		if requests > 0 || traffic > 0 {
			f(user.Name(), LimitUse{Requests: requests, Traffic: traffic, Refused: user.Requests.Refused() + user.Traffic.Refused()})
		}
	})
}
