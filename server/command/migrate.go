package command

import (
	"bytes"
	"cmp"
	"errors"
	"math"
	"slices"
	"time"

	"kedis/internal/resp"
	"kedis/server/access"
	"kedis/server/execute"
	"kedis/storage"
	"kedis/storage/layout"
)

func migrateFamily() Family {
	return Family{Commands: []Command{
		{Name: "migrate", Arity: -6, Flags: Write | Worker | MovableKeys, Categories: CategoryKeyspace | CategoryDangerous,
			Keys: []KeySpec{oneKey(3, RW|Access|Delete),
				{Flags: RW | Access | Delete | Incomplete, Keyword: "KEYS", From: -2, Last: -1, Step: 1}},
			GetKeys: migrateKeys, Plan: planMigrate, Run: cmdMigrate, Tips: []string{"nondeterministic_output"},
			Group: "generic", Since: "2.6.0",
			Complexity: "O(N) where N is the size of the values, here (DUMP, DEL), at the target (RESTORE) and between the two",
			Syntax: "host port <key | \"\"> destination-db timeout [COPY] [REPLACE] [AUTH password | AUTH2 username password] " +
				"[USE_PREFIX | KEYS key [key ...]]",
			Summary: "Moves keys to another server, a Kedis or a Redis."},
	}}
}

const errMigrateStopped = Error("ERR MIGRATE was interrupted: the server stops")

const (
	// migrateAtOnce is how many keys are sent before the replies to them are read.
	migrateAtOnce = 64
	// migrateUnlocked is how often a key that changes all the time is sent without its lock.
	migrateUnlocked = 3
	// migrateTimeout is what stands for a timeout that isn't positive, as in Redis.
	migrateTimeout = time.Second
)

// migration is one MIGRATE. While keys are on their way no lock is held and no worker is taken:
// they are sent as a view has them, and removed here only if they are still that, which their
// guards tell. A key that has changed is sent again, at last under its lock.
type migration struct {
	*Invocation
	to            destination
	copy, replace bool
	prefix        bool // the key argument is what the keys begin with
	keys          [][]byte

	found   bool  // at least one key was there
	timed   bool  // a field of one that is sent expires
	refused error // what the target answered to the first key that it didn't take
	failed  error // why the target can't be reached any more
}

// shipment is a key on its way.
type shipment struct {
	key     []byte
	guard   *Session // watches the key, unless it is only copied
	arrived bool     // the target has had it from us
	sent    bool     // as it is now
	taken   bool     // as it is now, says the target
}

// planMigrate locks nothing: MIGRATE itself does, key by key. In MULTI its keys are locked as all
// others.
func planMigrate(_ *Invocation, p *execute.Plan) error {
	p.Worker, p.Writes = true, true
	return nil
}

// migrateKeys finds the keys as Redis does: the fourth word, or what stands behind KEYS.
func migrateKeys(args [][]byte) ([]KeyReference, error) {
	const flags = RW | Access | Delete
	for i := 6; i < len(args); i++ {
		switch {
		case equalFold(args[i], "AUTH"):
			i++
		case equalFold(args[i], "AUTH2"):
			i += 2
		case equalFold(args[i], "KEYS"):
			if len(args[3]) > 0 {
				return nil, execute.ErrInvalidKeys
			}
			var found []KeyReference
			for k := i + 1; k < len(args); k++ {
				found = append(found, KeyReference{Index: k, Flags: flags})
			}
			return found, nil
		}
	}
	return []KeyReference{{Index: 3, Flags: flags}}, nil
}

func cmdMigrate(c *Invocation) error {
	if c.Applying() {
		return Error("ERR MIGRATE can't be repeated: its effect is DEL")
	}
	m, err := parseMigrate(c)
	if err != nil {
		return err
	}
	if m.prefix && !c.MayUseEveryKey(access.Read|access.Write) {
		return Error("ERR USE_PREFIX option of MIGRATE denied due to insufficient ACL permissions.")
	}
	if c.Engine.Config.TLSReplication.Get() {
		if m.to.encryption, err = c.Engine.TLS.Client(); err != nil {
			return Errorf("ERR %v", err)
		}
	}
	end, ok := keptBy(c.Engine).targets.begin()
	if !ok {
		return errMigrateStopped
	}
	defer end()
	c.NoEffect() // but for what is removed
	switch {
	case c.Nested() && m.prefix:
		return Error("ERR MIGRATE with USE_PREFIX can't run inside of MULTI")
	case c.Nested():
		err = m.moveLocked(c.DB, shipments(m.keys))
	case m.prefix:
		err = m.movePrefix()
	default:
		err = m.moveAll(m.keys)
	}
	if err != nil {
		return err
	}
	m.answer()
	return nil
}

// answer writes the reply. A refusal of one key takes nothing back of the others.
func (m *migration) answer() {
	switch {
	case m.refused != nil:
		m.Fail(m.refused)
	case m.failed != nil:
		m.Fail(m.failed)
	case !m.found:
		m.Reply.SimpleString("NOKEY")
	default:
		m.Reply.OK()
	}
}

func parseMigrate(c *Invocation) (*migration, error) {
	m := &migration{Invocation: c, keys: c.Args[3:4], to: destination{timeout: migrateTimeout}}
	a := arguments{words: c.Args[6:]}
	for a.more() {
		var user, password []byte
		switch {
		case a.flag("COPY"):
			m.copy = true
		case a.flag("REPLACE"):
			m.replace = true
		case a.flag("USE_PREFIX"):
			m.prefix = true
		case a.option("AUTH", &password):
			c.Redact(len(c.Args) - len(a.words) - 1)
			m.to.authenticate(password)
		case a.option("AUTH2", &user):
			password = a.next()
			c.Redact(len(c.Args) - len(a.words) - 2)
			c.Redact(len(c.Args) - len(a.words) - 1)
			m.to.authenticate(user, password)
		case a.flag("KEYS"):
			if len(c.Args[3]) > 0 {
				a.fail(Error("ERR When using MIGRATE KEYS option, the key argument must be set to the empty string"))
			}
			if m.prefix {
				a.fail(ErrSyntax)
			}
			m.keys, a.words = a.words, nil
		default:
			a.fail(ErrSyntax)
		}
	}
	if a.err != nil {
		return nil, a.err
	}
	timeout, err := parseInteger(c.Args[5])
	if err != nil {
		return nil, err
	}
	if timeout > 0 {
		m.to.timeout = time.Duration(min(timeout, math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
	}
	database, err := parseInteger(c.Args[4])
	m.to.host, m.to.port, m.to.database = string(c.Args[1]), string(c.Args[2]), database
	return m, err
}

// shipments are keys, each once.
func shipments(keys [][]byte) []*shipment {
	seen := make(map[string]bool, len(keys))
	all := make([]*shipment, 0, len(keys))
	for _, key := range keys {
		if !seen[string(key)] {
			seen[string(key)] = true
			all = append(all, &shipment{key: key})
		}
	}
	return all
}

// movePrefix moves all keys that begin with the key argument.
func (m *migration) movePrefix() error {
	from, before := m.keys[0], layout.Successor(nil, m.keys[0])
	for !m.ended() {
		var some [][]byte
		view := m.Engine.Store.View()
		err := m.inView(view).KeysBetween(from, before, func(key []byte, _ *layout.Metadata) bool {
			some = append(some, bytes.Clone(key))
			return len(some) < migrateAtOnce
		})
		view.Release()
		if err != nil || len(some) == 0 {
			return err
		}
		if err := m.moveAll(some); err != nil {
			return err
		}
		from = append(some[len(some)-1], 0)
	}
	return nil
}

// ended tells that no more keys are to be sent.
func (m *migration) ended() bool { return m.failed != nil || m.Session.Closing() }

func (m *migration) inView(view *storage.View) storage.DB {
	txn := m.Engine.Store.NewTxn()
	txn.ReadFrom(view)
	now := m.Engine.Now()
	txn.Begin(storage.Mode{}, now, 0)
	return txn.DB(m.DB.Number())
}

func (m *migration) moveAll(keys [][]byte) error {
	for some := range slices.Chunk(shipments(keys), migrateAtOnce) {
		if m.ended() {
			return nil
		}
		if err := m.move(some); err != nil {
			return err
		}
	}
	return nil
}

// move moves some keys.
func (m *migration) move(some []*shipment) error {
	for range migrateUnlocked {
		view, err := m.look(some)
		if err != nil {
			return err
		}
		m.Yield(func() {
			err = m.send(m.inView(view), some)
			view.Release()
		})
		again, failed := m.settle(some)
		if err = cmp.Or(err, failed); err != nil || len(again) == 0 || m.failed != nil {
			return err
		}
		some = again
	}
	return m.step(some, true, func(db storage.DB) error { return m.moveLocked(db, some) })
}

// step runs f with the keys locked, and commits what it has done. Exclusive locks are for changing
// the keys.
func (m *migration) step(some []*shipment, exclusive bool, f func(db storage.DB) error) error {
	keys := make([][]byte, len(some))
	for i, s := range some {
		keys[i] = s.key
	}
	err := m.Step(keys, exclusive, f)
	if errors.Is(err, execute.ErrStopping) {
		return errMigrateStopped
	}
	return err
}

// look pins the data as they are now, and sets guards that tell of every change of the keys after
// that: who is about to change one holds its lock until the change is visible.
func (m *migration) look(some []*shipment) (view *storage.View, err error) {
	err = m.step(some, false, func(storage.DB) error {
		for _, s := range some {
			if !m.copy {
				s.guard = m.Engine.Watches.Guard(m.DB.Number(), s.key)
			}
		}
		view = m.Engine.Store.View()
		return nil
	})
	return view, err
}

// settle removes the keys that the target has taken as they are. It returns those that were changed
// meanwhile, or removed, which the target has to learn of.
func (m *migration) settle(some []*shipment) (again []*shipment, err error) {
	if m.copy {
		return nil, nil
	}
	err = m.step(some, true, func(db storage.DB) error {
		var still []*shipment
		for _, s := range some {
			switch changed := s.guard.Dirty(); {
			case s.taken && changed:
				again = append(again, s)
			case s.taken:
				still = append(still, s)
			}
		}
		return m.remove(db, still)
	})
	for _, s := range some {
		m.Engine.Watches.Forget(s.guard)
	}
	return again, err
}

// moveLocked moves keys whose locks are held.
func (m *migration) moveLocked(db storage.DB, some []*shipment) error {
	if err := m.send(db, some); err != nil || m.copy {
		return err
	}
	return m.remove(db, slices.DeleteFunc(some, func(s *shipment) bool { return !s.taken }))
}

// remove removes keys, if the server takes writes still.
func (m *migration) remove(db storage.DB, some []*shipment) error {
	if err := m.Admissible(); err != nil {
		return err
	}
	effect := [][]byte{wordDel}
	for _, s := range some {
		gone, err := db.Delete(s.key)
		if err != nil {
			return err
		}
		if gone {
			effect = append(effect, s.key)
		}
	}
	if len(effect) > 1 {
		m.Effect(effect...)
	}
	return nil
}

// send brings the keys to the target as db has them. The error is ours; the target's stand in
// refused and failed.
func (m *migration) send(db storage.DB, some []*shipment) error {
	for _, s := range some {
		s.sent, s.taken = false, false
		k, err := db.Lookup(s.key)
		if err != nil {
			return err
		}
		m.found = m.found || k.Exists
		m.timed = m.timed || k.FieldsExpire()
		s.sent = k.Exists || s.arrived
	}
	if !slices.ContainsFunc(some, func(s *shipment) bool { return s.sent }) {
		return nil
	}
	err := m.ship(db, some)
	var trouble *targetError
	if errors.As(err, &trouble) && trouble.again {
		err = m.ship(db, some) // once more, as Redis does: it may have been an old connection
	}
	if errors.As(err, &trouble) {
		m.failed, err = trouble.reply, nil
	}
	return err
}

// ship sends the keys over one connection, and reads what the target answers to each.
func (m *migration) ship(db storage.DB, some []*shipment) error {
	t, err := keptBy(m.Engine).targets.take(m.to)
	if err != nil {
		return err
	}
	if m.timed {
		err = t.askFormat()
	}
	for _, s := range some {
		if err == nil && s.sent {
			err = m.write(t, db, s)
		}
	}
	if err == nil {
		err = t.flush()
	}
	for _, s := range some {
		if err == nil && s.sent {
			err = m.readAnswer(t, s)
		}
	}
	if err != nil {
		keptBy(m.Engine).targets.drop(t)
		return err
	}
	keptBy(m.Engine).targets.keep(t)
	return nil
}

func (m *migration) readAnswer(t *target, s *shipment) error {
	refusal, err := t.readReply()
	switch {
	case err != nil:
		return err
	case refusal == nil:
		s.taken, s.arrived = true, true
	default:
		m.refuse(refusal)
	}
	return nil
}

// refuse notes why the target doesn't get a key; the first reason is the reply.
func (m *migration) refuse(err error) { m.refused = cmp.Or(m.refused, err) }

// write sends one key: as a RESTORE, or, when it is gone and the target has had it, as a DEL.
func (m *migration) write(t *target, db storage.DB, s *shipment) error {
	k, err := db.Lookup(s.key)
	if err != nil {
		return err
	}
	if !k.Exists {
		return t.write(resp.AppendRequest(nil, wordDel, s.key))
	}
	tools := keptBy(m.Engine).payloads.borrow()
	defer keptBy(m.Engine).payloads.giveBack(tools)
	measured, writer := measure{kept: tools.buffer[:0]}, tools.to(t.format)
	if err := db.DumpTo(&measured, k, writer); err != nil {
		return err
	}
	tools.buffer = measured.kept
	if longest := m.Engine.Config.ProtoMaxBulkLen.Get(); measured.length > longest {
		s.sent = false
		m.refuse(Errorf("ERR the value of '%s' takes %d bytes, and proto-max-bulk-len is %d", execute.Clip(s.key, 128), measured.length, longest))
		return nil
	}
	words := 4
	if m.replace || s.arrived {
		words = 5
	}
	request := resp.AppendArrayHeader(nil, words)
	request = resp.AppendBulk(request, wordRestore)
	request = resp.AppendBulk(request, s.key)
	request = resp.AppendBulk(request, formatInteger(m.timeToLive(k)))
	request = resp.AppendBulkHeader(request, measured.length)
	if err := t.write(request); err != nil {
		return err
	}
	if measured.complete() {
		err = t.write(measured.kept)
	} else {
		err = db.DumpTo(t, k, writer)
	}
	if err != nil {
		return err
	}
	request = append(request[:0], "\r\n"...)
	if words == 5 {
		request = resp.AppendBulk(request, wordReplace)
	}
	return t.write(request)
}

// timeToLive is what RESTORE takes: milliseconds, at least one; 0 is forever.
func (m *migration) timeToLive(k storage.Key) int64 {
	if k.ExpireMs == 0 {
		return 0
	}
	now := m.Engine.Now()
	return max(k.ExpireMs-now, 1)
}

// measure counts bytes, and keeps them as long as they are few.
type measure struct {
	kept   []byte
	length int64
}

func (w *measure) Write(b []byte) (int, error) {
	if w.complete() && w.length+int64(len(b)) <= largestKept {
		w.kept = append(w.kept, b...)
	}
	w.length += int64(len(b))
	return len(b), nil
}

func (w *measure) complete() bool { return w.length == int64(len(w.kept)) }
