package command

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"

	"kedis/internal/keyevent"
	"kedis/server/execute"
	"kedis/storage"
	"kedis/storage/layout"
	"kedis/storage/xxh3"
)

// Conditions on what a string is, for SET and DELEX, as Redis 8.4 has them. IFEQ of SET, and
// DELIFEQ, are Valkey's as well.

const errDigestWord = Error("ERR must be exactly 16 hexadecimal characters")

func stringConditionCommands() []Command {
	const complexity = "O(1) for IFEQ and IFNE; O(N) for IFDEQ and IFDNE where N is the length of the string"
	return []Command{
		{Name: "digest", Arity: 2, Flags: ReadOnly | Fast, Categories: CategoryString,
			Keys: []KeySpec{oneKey(1, RO|Access)}, Run: cmdDigest,
			Group: "string", Since: "8.4.0", Complexity: "O(N) where N is the length of the string", Syntax: "key",
			Summary: "Returns a hash of a string (XXH3), in hexadecimal digits."},
		{Name: "delex", Arity: -2, Flags: Write | Fast, Categories: CategoryString,
			Keys: []KeySpec{{Flags: RW | Delete | VariableFlags, Index: 1, Step: 1}}, KeyFlags: deleteKeyFlags, Run: cmdDelEx,
			Group: "string", Since: "8.4.0", Complexity: complexity, Syntax: "key [" + stringConditions + "]",
			Summary: "Deletes a key, perhaps only if it holds a certain string, or another one."},
		{Name: "delifeq", Arity: 3, Flags: Write | Fast, Categories: CategoryString,
			Keys: []KeySpec{oneKey(1, RM|Delete)}, Run: cmdDelIfEq,
			Group: "string", Since: "9.0.0", Valkey: true, Complexity: "O(1)", Syntax: "key value",
			Summary: "Deletes a key if it holds a certain string."},
	}
}

const stringConditions = "IFEQ ifeq-value | IFNE ifne-value | IFDEQ ifdeq-digest | IFDNE ifdne-digest"

// stringCondition is one of them. The zero one is none.
type stringCondition struct {
	kind *conditionKind
	word []byte // what the string is compared with
}

type conditionKind struct {
	name   string
	digest bool // the digest of the string is compared
	differ bool // they have to be different
}

var conditionKinds = [...]conditionKind{{"IFEQ", false, false}, {"IFNE", false, true}, {"IFDEQ", true, false}, {"IFDNE", true, true}}

func conditionNamed(word []byte) *conditionKind {
	for i := range conditionKinds {
		if equalFold(word, conditionKinds[i].name) {
			return &conditionKinds[i]
		}
	}
	return nil
}

func isStringCondition(word []byte) bool { return conditionNamed(word) != nil }

func (s *stringCondition) given() bool { return s.kind != nil }

// parse consumes a condition. It may be given again, but not another one.
func (s *stringCondition) parse(a *arguments) bool {
	kind := conditionNamed(a.words[0])
	if kind == nil || s.given() && s.kind != kind {
		return false
	}
	s.kind = kind
	return a.option(kind.name, &s.word)
}

// holds reports whether a key, which holds a string or doesn't exist, fulfils the condition. A
// digest that is none is only noticed when there is a string.
func (s *stringCondition) holds(c *Invocation, k *storage.Key) (bool, error) {
	if !k.Exists {
		return s.kind.differ, nil
	}
	if !s.kind.digest {
		same, err := c.DB.StringEquals(k, s.word)
		return same != s.kind.differ, err
	}
	if len(s.word) != digestDigits {
		return false, errDigestWord
	}
	digest, err := digestOf(c, k)
	return bytes.EqualFold(digest[:], s.word) != s.kind.differ, err
}

const digestDigits = 16

// digestOf is what DIGEST answers for a string.
func digestOf(c *Invocation, k *storage.Key) (digits [digestDigits]byte, err error) {
	if err = c.Txn.SpendBytes(k.StringLength()); err != nil {
		return digits, err
	}
	value, err := c.DB.StringBytes(&k.Metadata)
	if err != nil {
		return digits, err
	}
	var sum [digestDigits / 2]byte
	binary.BigEndian.PutUint64(sum[:], xxh3.Sum(value))
	hex.Encode(digits[:], sum[:])
	return digits, nil
}

func cmdDigest(c *Invocation) error {
	k, err := c.DB.LookupType(c.Args[1], layout.String)
	if err != nil {
		return err
	}
	if !k.Exists {
		c.Reply.Null()
		return nil
	}
	digest, err := digestOf(c, &k)
	if err == nil {
		c.Reply.Bulk(digest[:])
	}
	return err
}

// deleteKeyFlags tells DELEX with a condition, which reads the value, from DELEX without.
func deleteKeyFlags(args [][]byte) KeyFlags {
	if len(args) > 2 {
		return RW | Access | Delete
	}
	return RM | Delete
}

func cmdDelEx(c *Invocation) error {
	switch len(c.Args) {
	case 2:
		return deleteIf(c, c.DB, func(*storage.Key) (bool, error) { return true, nil })
	case 4:
		return deleteIf(c, c.DB.Reading(), func(k *storage.Key) (bool, error) {
			if k.Type != layout.String {
				return false, Error("ERR Key should be of string type if conditions are specified")
			}
			condition := stringCondition{kind: conditionNamed(c.Args[2]), word: c.Args[3]}
			if !condition.given() {
				return false, Error("ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE")
			}
			return condition.holds(c, k)
		})
	}
	return execute.WrongArity(c.Command.FullName())
}

func cmdDelIfEq(c *Invocation) error {
	return deleteIf(c, c.DB, func(k *storage.Key) (bool, error) {
		if k.Type != layout.String {
			return false, ErrWrongType
		}
		return c.DB.StringEquals(k, c.Args[2])
	})
}

// deleteIf deletes the key, if there is one, when a condition holds. db says whether it is looked
// up as by a read.
func deleteIf(c *Invocation, db storage.DB, holds func(k *storage.Key) (bool, error)) error {
	key := c.Args[1]
	k, err := db.Lookup(key)
	if err != nil {
		return err
	}
	gone := false
	if k.Exists {
		if gone, err = holds(&k); err != nil {
			return err
		}
	}
	replyBit(c, gone)
	if !gone {
		c.NoEffect()
		return nil
	}
	c.Effect(wordDel, key)
	c.DB.Notify(keyevent.Del, key)
	return c.DB.Remove(key, k)
}
