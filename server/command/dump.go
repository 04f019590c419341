package command

import (
	"bytes"
	"errors"
	"sync"

	"kedis/internal/buffer"
	"kedis/internal/keyevent"
	"kedis/internal/resp"
	"kedis/storage"
	"kedis/storage/layout"
	"kedis/storage/rdb"
	"kedis/storage/touches"
)

func dumpFamily() Family {
	const syntax = "key ttl serialized-value [REPLACE] [ABSTTL] [IDLETIME seconds] [FREQ frequency]"
	const complexity = "O(N) where N is the length of the payload"
	return Family{Commands: []Command{
		{Name: "dump", Arity: 2, Flags: ReadOnly, Categories: CategoryKeyspace,
			Keys: []KeySpec{oneKey(1, RO|Access)}, Tips: []string{"nondeterministic_output"}, Run: cmdDump,
			Group: "generic", Since: "2.6.0", Complexity: complexity, Syntax: "key",
			Summary: "Returns the value of a key in a form that RESTORE takes, here and in Redis from 7.0 on."},
		{Name: "restore", Arity: -4, Flags: Write | DenyOOM, Categories: CategoryKeyspace | CategoryDangerous,
			Keys: []KeySpec{oneKey(1, OW|Update)}, Run: cmdRestore,
			Group: "generic", Since: "2.6.0", Complexity: complexity, Syntax: syntax,
			Summary: "Makes a key of what DUMP returned, here, in Redis from 2.6 to 8.0, or in Valkey."},
		{Name: "restore-asking", Arity: -4, Flags: Write | DenyOOM | Asking, Categories: CategoryKeyspace | CategoryDangerous,
			Keys: []KeySpec{oneKey(1, OW|Update)}, Run: cmdRestore,
			Group: "server", Since: "3.0.0", Complexity: complexity, Syntax: syntax,
			Summary: "Does what RESTORE does; nodes of a Redis Cluster send it."},
	}, Errors: map[error]string{
		rdb.ErrPayloadVersion:  string(errPayloadFooter),
		rdb.ErrPayloadChecksum: string(errPayloadFooter),
		rdb.ErrCorrupt:         string(errPayload),
		rdb.ErrEmpty:           string(errPayload),
		storage.ErrDuplicate:   string(errPayload),
	}}
}

const (
	errPayloadFooter = Error("ERR DUMP payload version or checksum are wrong")
	errPayload       = Error("ERR Bad data format")
)

// payloads lends what reads and writes payloads: their memory is used again and again.
type payloads struct{ pool sync.Pool }

type payloadTools struct {
	writer  *rdb.PayloadWriter
	decoder rdb.Decoder
	buffer  []byte
}

// to has payloads written in a form, until the tools are given back.
func (t *payloadTools) to(format rdb.Format) *rdb.PayloadWriter {
	t.writer.SetFormat(format)
	return t.writer
}

// largestKept is how much memory for payloads is kept between two of them.
const largestKept = 1 << 20

func (p *payloads) borrow() *payloadTools {
	if tools, ok := p.pool.Get().(*payloadTools); ok {
		return tools
	}
	return &payloadTools{writer: rdb.NewPayloadWriter()}
}

func (p *payloads) giveBack(tools *payloadTools) {
	tools.decoder.Forget()
	tools.writer.SetFormat(rdb.Redis)
	if cap(tools.buffer) <= largestKept {
		p.pool.Put(tools)
	}
}

func cmdDump(c *Invocation) error {
	k, err := c.DB.Lookup(c.Args[1])
	if err != nil {
		return err
	}
	if !k.Exists {
		c.Reply.Null()
		return nil
	}
	tools := keptBy(c.Engine).payloads.borrow()
	defer keptBy(c.Engine).payloads.giveBack(tools)
	if k.Encoding == layout.Spread {
		return dumpSpread(c, k, tools.writer)
	}
	payload, err := c.DB.Dump(tools.buffer, k, tools.writer)
	if err != nil {
		return err
	}
	tools.buffer = payload
	c.Reply.Bulk(payload)
	return nil
}

// dumpSpread has the payload of what may be very large go to where the reply is composed.
func dumpSpread(c *Invocation, k storage.Key, w *rdb.PayloadWriter) error {
	handle := c.Reply.BeginBulk()
	err := c.DB.DumpTo(payloadReply{c.Reply}, k, w)
	c.Reply.EndBulk(handle)
	return err
}

// payloadReply is a reply that a payload is written to.
type payloadReply struct{ *resp.Writer }

func (r payloadReply) Write(b []byte) (int, error) {
	r.Raw(b)
	return len(b), nil
}

// restoreOptions are what may stand behind RESTORE's payload.
type restoreOptions struct {
	replace, absolute bool
	idle, frequency   int64 // -1: not said
}

func parseRestoreOptions(words [][]byte) (restoreOptions, error) {
	o := restoreOptions{idle: -1, frequency: -1}
	a := arguments{words: words}
	for a.more() {
		switch {
		case a.flag("REPLACE"):
			o.replace = true
		case a.flag("ABSTTL"):
			o.absolute = true
		case o.frequency == -1 && a.integer("IDLETIME", &o.idle):
			if o.idle < 0 {
				a.fail(Error("ERR Invalid IDLETIME value, must be >= 0"))
			}
		case o.idle == -1 && a.integer("FREQ", &o.frequency):
			if o.frequency < 0 || o.frequency > 255 {
				a.fail(Error("ERR Invalid FREQ value, must be >= 0 and <= 255"))
			}
		default:
			a.fail(ErrSyntax)
		}
	}
	return o, a.err
}

// largestOnReactor is the largest payload of a collection that a reactor begins to restore: most of
// what is larger would use up its budget, and begin again on a worker.
const largestOnReactor = 32 << 10

func cmdRestore(c *Invocation) error {
	o, err := parseRestoreOptions(c.Args[4:])
	if err != nil {
		return err
	}
	key, payload := c.Args[1], c.Args[3]
	old, err := c.DB.Lookup(key)
	if err != nil {
		return err
	}
	if old.Exists && !o.replace {
		return Error("BUSYKEY Target key name already exists.")
	}
	at, err := parseTTL(c, c.Args[2], o.absolute)
	if err != nil {
		return err
	}
	maxString := max(rdb.DefaultMaxString, int(longestString(c)))
	if err := spendPayload(c, payload, maxString); err != nil {
		return err
	}
	tools := keptBy(c.Engine).payloads.borrow()
	defer keptBy(c.Engine).payloads.giveBack(tools)
	tools.decoder.MaxString = maxString
	tools.decoder.Trusted = c.Applying()
	value, err := tools.decoder.Payload(payload)
	if unsupported := (*rdb.UnsupportedError)(nil); errors.As(err, &unsupported) {
		return errPayload
	}
	if err != nil {
		return err
	}
	if err := restore(c, key, old, value, at); err != nil {
		return err
	}
	o.noteUse(c, key)
	c.Reply.OK()
	return nil
}

// spendPayload counts what it takes to read a payload, before anything is decompressed.
func spendPayload(c *Invocation, payload []byte, maxString int) error {
	if err := c.Txn.SpendBytes(rdb.PayloadSize(payload, maxString)); err != nil {
		return err
	}
	if !rdb.IsStringPayload(payload) && len(payload) > largestOnReactor && c.OnReactor() {
		return c.Offload()
	}
	return nil
}

// noteUse notes how the key was used, when that is said and maxmemory-policy lets it be known.
func (o *restoreOptions) noteUse(c *Invocation, key []byte) {
	switch frequencies := c.Engine.Config.MaxmemoryPolicy.Get().NotesFrequencies(); {
	case frequencies && o.frequency >= 0:
		c.DB.SetUse(key, touches.Use{Last: c.Now / 1000, Frequency: uint8(o.frequency)})
	case !frequencies && o.idle >= 0:
		c.Engine.NoteTouches()
		c.DB.SetUse(key, touches.Use{Last: max(c.Now/1000-o.idle, 0), Frequency: touches.NewFrequency})
	}
}

// parseTTL reads for how long a key is to live, or, absolute, until when, and returns that as Unix
// ms; 0 is forever.
func parseTTL(c *Invocation, word []byte, absolute bool) (int64, error) {
	ttl, err := parseInteger(word)
	switch {
	case err != nil:
		return 0, err
	case ttl < 0:
		return 0, Error("ERR Invalid TTL value, must be >= 0")
	case ttl > 0 && !absolute:
		return ttl + c.Now, nil
	}
	return ttl, nil
}

// restore stores what a payload says, under whatever the key held. It is repeated with the time at
// which the key expires; a value that has expired already is checked all the same, and not kept.
func restore(c *Invocation, key []byte, old storage.Key, value *rdb.Value, at int64) error {
	var savepoint storage.Savepoint
	c.Txn.Mark(&savepoint)
	if err := c.DB.Restore(key, old, value, at); err != nil {
		return err
	}
	switch {
	case at == 0 || at > c.Now || c.Applying():
		if err := repeatRestore(c, key, at); err != nil {
			return err
		}
		c.DB.NotifyReplaced(key, old)
		c.DB.Notify(keyevent.Restore, key)
		return nil
	case old.Exists:
		c.Txn.Rollback(&savepoint)
		c.Effect(wordDel, key)
		c.DB.Notify(keyevent.Del, key)
		return c.DB.Remove(key, old)
	}
	c.Txn.Rollback(&savepoint)
	c.NoEffect()
	return nil
}

// repeatRestore repeats a RESTORE elsewhere. A payload that a Redis 7.0 can't read goes on as one
// of the same value that it can, and a hash's times, for which no form is known to both Redis and
// Valkey, as commands behind it. A stream goes on as Redis 7.2 has it, with both times of each
// consumer: the feed of a Redis that may be older has it in an older form.
func repeatRestore(c *Invocation, key []byte, at int64) error {
	payload := c.Args[3]
	if c.Applying() || !rdb.IsNewerPayload(payload) {
		c.Effect(wordRestore, key, formatInteger(at), payload, wordReplace, wordAbsTTL)
		return nil
	}
	k, err := c.DB.LookupAny(key)
	if err != nil {
		return err
	}
	var own buffer.Writer
	writer := rdb.NewPayloadWriter()
	writer.SetFormat(rdb.Redis72)
	if err := c.DB.DumpTo(&own, k, writer); err != nil {
		return err
	}
	c.Effect(wordRestore, key, formatInteger(at), own.Bytes, wordReplace, wordAbsTTL)
	return repeatFieldTimes(c, key, &k)
}

// timesPerEffect is how many fields get their time with one command.
const timesPerEffect = 1024

// repeatFieldTimes says elsewhere when the fields of a hash expire.
func repeatFieldTimes(c *Invocation, key []byte, k *storage.Key) error {
	var fields [][]byte
	var at int64
	repeat := func() {
		if len(fields) > 0 {
			repeatExpiries(c, key, at, fields)
		}
		fields = fields[:0]
	}
	err := c.DB.FieldTimes(k, func(field []byte, expireMs int64) {
		if expireMs != at || len(fields) == timesPerEffect {
			repeat()
		}
		at, fields = expireMs, append(fields, bytes.Clone(field))
	})
	repeat()
	return err
}

var wordRestore, wordReplace, wordAbsTTL = []byte("RESTORE"), []byte("REPLACE"), []byte("ABSTTL")
