package migrate

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// While a live data set is moved, the target must not expire keys by itself: a key whose life the
// source has prolonged in the meantime would be gone before that comes. A replica waits for its
// primary's DEL; a target that is a primary can't be told to. So every expiry, of a key or of a
// hash's field, is written later by a shift, in which nothing expires, and put right when the move
// ends. What is held shows by its time alone, so the times that come of a shift are ones that
// nobody gives: not those of a thousand years, which come of ms where seconds are meant.
type shift int64

const (
	ofKeys   shift = 6_000_000_000_000_000 // ms; not near 2^53, which is given for never
	ofFields shift = 1900 * year           // not beyond latestOfField

	year = 31556952000 // ms
)

// latestOfField is the latest time that Redis 7.4 lets a field be given. A Valkey lets it be any.
const latestOfField = 1<<46 - 1

// hold is the time, in ms since 1970, that is written for an expiry. One that is far away isn't
// changed.
func (s shift) hold(ms int64) int64 {
	if ms == 0 || ms > time.Now().UnixMilli()+year {
		return ms
	}
	return max(ms, 1) + int64(s)
}

// release is the expiry that was meant, and whether it was held.
func (s shift) release(ms int64) (int64, bool) {
	meant := ms - int64(s)
	if ms < int64(s) || meant > time.Now().UnixMilli()+year {
		return ms, false
	}
	return meant, true
}

// held returns commands that do the same and bring no expiry that comes soon, and whether there was
// one. Times in a payload become commands of their own.
func (c *Command) held() (commands []Command, held bool, err error) {
	commands, err = c.known()
	for i := range commands {
		is, failed := commands[i].holdExpiry()
		held, err = held || is, cmp.Or(err, failed)
	}
	return commands, held, err
}

// holdExpiry changes a command so that it brings no expiry that comes soon. It says whether it did.
// Streams of old versions of Redis have expiries that are relative to the time of the command; they
// become absolute. A time that a number can't tell is refused, as Redis does.
func (c *Command) holdExpiry() (bool, error) {
	args, by := c.Args, ofKeys
	command := args[0]
	if args[0][0]|' ' == 'h' { // HPEXPIREAT, HSETEX …
		by = ofFields
	}
	at := func(i int, name string, unit int64, relative bool) (bool, error) {
		if i >= len(args) {
			return false, nil
		}
		ms, err := timeOf(command, args[i], unit, relative)
		if err != nil {
			return false, err
		}
		if by == ofFields {
			ms = min(ms, latestOfField)
		}
		args[i] = strconv.AppendInt(nil, by.hold(ms), 10)
		if name != "" {
			args[0] = []byte(name)
		}
		return true, nil
	}
	switch strings.ToUpper(string(args[0])) {
	case "PEXPIREAT", "HPEXPIREAT":
		return at(2, "", 1, false)
	case "EXPIREAT":
		return at(2, "PEXPIREAT", 1000, false)
	case "PEXPIRE":
		return at(2, "PEXPIREAT", 1, true)
	case "EXPIRE":
		return at(2, "PEXPIREAT", 1000, true)
	case "HEXPIREAT":
		return at(2, "HPEXPIREAT", 1000, false)
	case "HPEXPIRE":
		return at(2, "HPEXPIREAT", 1, true)
	case "HEXPIRE":
		return at(2, "HPEXPIREAT", 1000, true)
	case "SETEX", "PSETEX":
		unit := int64(1000)
		if len(args[0]) == len("PSETEX") {
			unit = 1
		}
		c.Args = [][]byte{[]byte("SET"), args[1], args[3], []byte("PXAT"), args[2]}
		args = c.Args
		return at(4, "", unit, true)
	case "RESTORE":
		return c.holdRestore(at)
	case "SET":
		return c.holdOption(3, at) // behind the value
	case "GETEX", "HSETEX", "HGETEX":
		return c.holdOption(2, at)
	}
	return false, nil
}

// timeOf is a time that a command gives in units of so many ms, in Unix ms.
func timeOf(command, word []byte, unit int64, relative bool) (ms int64, err error) {
	if ms, err = strconv.ParseInt(string(word), 10, 64); err != nil {
		return 0, err
	}
	base := int64(0)
	if relative {
		base = time.Now().UnixMilli()
	}
	if ms > (math.MaxInt64-base)/unit || ms < math.MinInt64/unit {
		return 0, fmt.Errorf("invalid expire time in '%s' command", bytes.ToLower(command))
	}
	return ms*unit + base, nil
}

// dropCondition takes NX, XX, GT, LT, FNX or FXX off a command of a stream that gives a key, or
// fields, an expiry. The source met it, or the command wouldn't be there; the target would compare
// with an expiry that is held, or is too old to know it.
func (c *Command) dropCondition() {
	switch strings.ToUpper(string(c.Args[0])) {
	case "PEXPIREAT", "EXPIREAT", "PEXPIRE", "EXPIRE":
		c.Args = c.Args[:min(len(c.Args), 3)]
	case "HPEXPIREAT", "HEXPIREAT", "HPEXPIRE", "HEXPIRE":
		if len(c.Args) > 4 && !bytes.EqualFold(c.Args[3], fieldsWord) {
			c.Args = slices.Delete(c.Args, 3, 4)
		}
	case "HSETEX": // Valkey has NX and XX for the key in it, which Redis refuses
		at := 2
		for at+1 < len(c.Args) && !bytes.EqualFold(c.Args[at], fieldsWord) {
			switch strings.ToUpper(string(c.Args[at])) {
			case "NX", "XX", "FNX", "FXX":
				c.Args = slices.Delete(c.Args, at, at+1)
			default:
				at++
			}
		}
	}
}

// holdOption looks among the options for EX, PX, EXAT or PXAT. Whichever it finds becomes PXAT.
func (c *Command) holdOption(first int, at func(i int, name string, unit int64, relative bool) (bool, error)) (bool, error) {
	for i := first; i+1 < len(c.Args); i++ {
		name := strings.ToUpper(string(c.Args[i]))
		switch name {
		case "FIELDS":
			return false, nil
		case "EX", "PX", "EXAT", "PXAT":
			unit := int64(1000)
			if name[0] == 'P' {
				unit = 1
			}
			c.Args[i] = []byte("PXAT")
			return at(i+1, "", unit, len(name) == 2)
		}
	}
	return false, nil
}

func (c *Command) holdRestore(at func(i int, name string, unit int64, relative bool) (bool, error)) (bool, error) {
	if len(c.Args) < 4 || string(c.Args[2]) == "0" {
		return false, nil
	}
	absolute := slices.ContainsFunc(c.Args[4:], func(option []byte) bool { return bytes.EqualFold(option, absoluteWord) })
	if !absolute {
		ms, err := strconv.ParseInt(string(c.Args[2]), 10, 64)
		if err != nil {
			return false, err
		}
		// Redis refuses no time here: a sum that is too large is one that has passed.
		c.Args[2] = strconv.AppendInt(nil, ms+time.Now().UnixMilli(), 10)
	}
	held, err := at(2, "", 1, false)
	if !absolute {
		c.Args = append(c.Args, absoluteWord)
	}
	return held, err
}

// Release gives the keys that the filter may have written to, and that aren't the target's own, the
// expiries that were meant. Clients may use the target meanwhile: what they change is left as they
// want it. A key that one of them renames meanwhile may not be seen, so the target is walked over
// until nothing is found, no field of a hash either. It returns how many keys there were.
func (t *Target) Release(filter *Filter) (released int64, err error) {
	for {
		w, err := t.releaseOnce(filter)
		released += w.released
		if !w.again() || err != nil {
			return released, err
		}
	}
}

// walk is what going over the target once has come to.
type walk struct {
	released int64 // keys that have their expiries now
	fields   int64 // of hashes, likewise
	busy     bool  // clients changed something again and again, which is left to the next walk
}

func (w *walk) again() bool { return w.released > 0 || w.fields > 0 || w.busy }

func (t *Target) releaseOnce(filter *Filter) (w walk, err error) {
	databases, err := t.databases(filter)
	if err != nil {
		return w, err
	}
	err = t.walkDatabases(filter, databases, func(client *redis.Client, database int, keys [][]byte) error {
		keys = slices.DeleteFunc(keys, func(key []byte) bool { return t.options.Conflicts.has(database, key) })
		held, err := t.heldAmong(client, keys)
		if err != nil {
			return targetSide.explain(t.options.address(), err)
		}
		for _, group := range t.bySlot(held) {
			if err := t.releaseKeys(client, group, &w); err != nil {
				return targetSide.explain(t.options.address(), err)
			}
		}
		if err := t.releaseFields(client, keys, &w); err != nil {
			return targetSide.explain(t.options.address(), err)
		}
		return nil
	})
	return w, err
}

// bySlot groups keys as transactions can be.
func (t *Target) bySlot(keys []string) (groups [][]string) {
	if t.cluster == nil {
		if len(keys) == 0 {
			return nil
		}
		return [][]string{keys}
	}
	at := map[int]int{}
	for _, key := range keys {
		slot := slotOf([]byte(key))
		i, ok := at[slot]
		if !ok {
			i = len(groups)
			at[slot], groups = i, append(groups, nil)
		}
		groups[i] = append(groups[i], key)
	}
	return groups
}

// expiries asks for several keys' expiries in ms since 1970; what isn't positive is none.
func (t *Target) expiries(client redis.Cmdable, keys []string) ([]int64, error) {
	times := make([]int64, len(keys))
	old := t.facts.major() < 7 // which has no PEXPIRETIME
	replies, err := client.Pipelined(t.ctx, func(p redis.Pipeliner) error {
		for _, key := range keys {
			if old {
				p.Do(t.ctx, "PTTL", key)
			} else {
				p.Do(t.ctx, "PEXPIRETIME", key)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	now := time.Now().UnixMilli()
	for i, reply := range replies {
		if times[i], err = reply.(*redis.Cmd).Int64(); err != nil {
			return nil, err
		}
		if old && times[i] > 0 {
			times[i] += now
		}
	}
	return times, nil
}

func (t *Target) heldAmong(client *redis.Client, keys [][]byte) (held []string, err error) {
	names := make([]string, len(keys))
	for i, key := range keys {
		names[i] = string(key)
	}
	times, err := t.expiries(client, names)
	if err != nil {
		return nil, err
	}
	for i, ms := range times {
		if _, is := ofKeys.release(ms); is {
			held = append(held, names[i])
		}
	}
	return held, nil
}

// releaseAttempts is how often a walk tries to release what clients change meanwhile.
const releaseAttempts = 20

// releaseKeys releases keys together, or, when a client has changed one of them in between, by
// halves: no key has the others wait for it.
func (t *Target) releaseKeys(client *redis.Client, keys []string, w *walk) error {
	for range releaseAttempts {
		released, err := t.releaseTogether(client, keys)
		if !errors.Is(err, redis.TxFailedErr) {
			w.released += released
			return err
		}
		if half := len(keys) / 2; half > 0 {
			return cmp.Or(t.releaseKeys(client, keys[:half], w), t.releaseKeys(client, keys[half:], w))
		}
	}
	w.busy = true
	return nil
}

func (t *Target) releaseTogether(client *redis.Client, keys []string) (released int64, err error) {
	err = client.Watch(t.ctx, func(tx *redis.Tx) error {
		times, err := t.expiries(tx, keys)
		if err != nil {
			return err
		}
		_, err = tx.TxPipelined(t.ctx, func(p redis.Pipeliner) error {
			for i, key := range keys {
				if ms, held := ofKeys.release(times[i]); held {
					released++
					p.Do(t.ctx, "PEXPIREAT", key, ms)
				}
			}
			return nil
		})
		return err
	}, keys...)
	return released, err
}
