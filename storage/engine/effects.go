package engine

import "kedis/internal/resp"

// effects are what a transaction writes to the log: bytes, and between them long words, which stay
// where they are.
type effects struct {
	bytes       []byte
	long        []longWord
	longBytes   int // of their words
	count       int
	first, last int   // databases selected where they begin and end; -1 while there are none
	copied      bool  // they are another server's stream
	applied     int64 // when not 0, what is repeated is in the log already, up to here
}

// longWord stands behind the first bytes of the effects.
type longWord struct {
	behind int
	word   []byte
}

// effectsMark is what effects are cut back to.
type effectsMark struct{ bytes, long, longBytes, count, first, last int }

func (e *effects) mark(m *effectsMark) {
	m.bytes, m.long, m.longBytes = len(e.bytes), len(e.long), e.longBytes
	m.count, m.first, m.last = e.count, e.first, e.last
}

func (e *effects) rewind(m effectsMark) {
	e.bytes, e.count, e.first, e.last = e.bytes[:m.bytes], m.count, m.first, m.last
	clear(e.long[m.long:])
	e.long, e.longBytes = e.long[:m.long], m.longBytes
}

func (e *effects) reset() {
	if cap(e.bytes) > largeBuffer {
		e.bytes = nil
	}
	clear(e.long)
	*e = effects{bytes: e.bytes[:0], long: e.long[:0], first: -1, last: -1}
}

// appendPieces appends the effects' bytes as they stand in memory, one piece behind the other.
func (e *effects) appendPieces(pieces [][]byte) [][]byte {
	from := 0
	for _, l := range e.long {
		pieces = append(pieces, e.bytes[from:l.behind], l.word)
		from = l.behind
	}
	return append(pieces, e.bytes[from:])
}

func (e *effects) add(database int, args ...[]byte) {
	e.begin(database, len(args))
	for _, arg := range args {
		e.word(arg)
	}
}

// begin adds an effect without its words.
func (e *effects) begin(database, words int) {
	e.selectDatabase(database)
	e.bytes = resp.AppendArrayHeader(e.bytes, words)
	e.count++
}

// word adds a word of the effect that has begun.
func (e *effects) word(word []byte) {
	if len(word) <= LargeValue {
		e.bytes = resp.AppendBulk(e.bytes, word)
		return
	}
	e.bytes = resp.AppendBulkHeader(e.bytes, int64(len(word)))
	e.long, e.longBytes = append(e.long, longWord{len(e.bytes), word}), e.longBytes+len(word)
	e.bytes = append(e.bytes, "\r\n"...)
}

func (e *effects) selectDatabase(database int) {
	if e.first < 0 {
		e.first = database
	} else if e.last != database {
		e.bytes = appendSelect(e.bytes, database)
	}
	e.last = database
}

var multi, exec = []byte("*1\r\n$5\r\nMULTI\r\n"), []byte("*1\r\n$4\r\nEXEC\r\n")

// enclose puts the effects since a mark between MULTI and EXEC when there are several.
func (e *effects) enclose(m effectsMark) {
	if e.count-m.count < 2 {
		return
	}
	n := len(e.bytes)
	e.bytes = append(e.bytes, multi...)
	copy(e.bytes[m.bytes+len(multi):], e.bytes[m.bytes:n])
	copy(e.bytes[m.bytes:], multi)
	for i := range e.long[m.long:] {
		e.long[m.long+i].behind += len(multi)
	}
	e.bytes = append(e.bytes, exec...)
}

// Effect adds a command to the log, as it must be repeated elsewhere. A word of more than
// LargeValue bytes isn't copied, and has to stay as it is until the transaction is reset.
func (t *Txn) Effect(database int, args ...[]byte) {
	if !t.running.mode.Applying {
		t.effects.add(database, args...)
	}
}

// BeginEffect is Effect for a command whose words follow one by one.
func (t *Txn) BeginEffect(database, words int) {
	if !t.running.mode.Applying {
		t.effects.begin(database, words)
	}
}

// EffectWord adds a word to the effect that has begun, as Effect does.
func (t *Txn) EffectWord(word []byte) {
	if !t.running.mode.Applying {
		t.effects.word(word)
	}
}

// EffectNumber is EffectWord for a word that is short: the caller has it on the stack.
func (t *Txn) EffectNumber(word []byte) {
	if !t.running.mode.Applying {
		t.effects.bytes = resp.AppendBulk(t.effects.bytes, word)
	}
}

// Effects is the number of effects since a savepoint.
func (t *Txn) Effects(s *Savepoint) int { return t.effects.count - s.effects.count }

// Tells is how many bytes of effects and of notifications wait for the commit.
func (t *Txn) Tells() int { return len(t.effects.bytes) + t.effects.longBytes + t.notifications.size() }

// Enclose puts the effects since a savepoint between MULTI and EXEC when there are several, so that
// whoever repeats them does all or nothing.
func (t *Txn) Enclose(s *Savepoint) { t.effects.enclose(s.effects) }

// Replay makes the transaction one that repeats effects which stand in the log already, up to a
// position. Its mode has to be Applying.
func (t *Txn) Replay(position int64) { t.effects.applied = position }

// Copy makes the transaction's effects the bytes of another server's stream, as they are, for a
// replica: database is selected when they begin, after when they end.
func (t *Txn) Copy(database, after int, stream []byte) {
	t.Say(stream)
	t.effects.first, t.effects.last, t.effects.copied = database, after, true
}

// Say makes the transaction's only effect bytes that count and do nothing, such as a PING to
// replicas, whichever database is selected.
func (t *Txn) Say(stream []byte) {
	t.effects.bytes, t.effects.count = append(t.effects.bytes[:0], stream...), 1
}
