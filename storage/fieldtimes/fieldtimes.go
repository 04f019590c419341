// Package fieldtimes knows which commands of a stream are about the times at which fields of hashes
// expire, and what they do besides: for replicas and targets that don't know such times. Of other
// payloads it knows whether they are newer than Redis 7.0's. It looks at words only, and may import
// storage/rdb.
package fieldtimes

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"

	"kedis/storage/rdb"
)

// Gives reports whether a command is about times of fields, as streams of Kedis, Redis and Valkey
// have it.
func Gives(words [][]byte) bool {
	if len(words) < 4 {
		return false
	}
	is := func(name string) bool { return named(words, name) }
	switch len(words[0]) {
	case len("HSETEX"):
		return is("HSETEX") || is("HGETEX")
	case len("HEXPIRE"):
		return is("HEXPIRE") || is("RESTORE") && rdb.PayloadHasFieldTimes(words[3])
	case len("HPEXPIRE"):
		return is("HPEXPIRE") || is("HPERSIST")
	case len("HEXPIREAT"):
		return is("HEXPIREAT")
	case len("HPEXPIREAT"):
		return is("HPEXPIREAT")
	}
	return false
}

func named(words [][]byte, name string) bool { return bytes.EqualFold(words[0], []byte(name)) }

// Without returns what a command does besides that Gives reports, or IsNewerStream, in a form that
// Redis 7.0 reads; nil if that is nothing.
func Without(words [][]byte) ([][]byte, error) {
	switch {
	case named(words, "HSETEX"):
		options := words[2:] // the key may have any name
		fields := slices.IndexFunc(options, func(word []byte) bool { return bytes.EqualFold(word, []byte("FIELDS")) })
		if fields < 0 || fields+2 >= len(options) {
			return nil, fmt.Errorf("fieldtimes: %.100q sets no fields", words)
		}
		return append([][]byte{[]byte("HSET"), words[1]}, options[fields+2:]...), nil
	case named(words, "RESTORE"):
		return withoutTimes(words)
	}
	return nil, nil
}

func withoutTimes(words [][]byte) ([][]byte, error) {
	payload, err := rdb.AsUntimed(words[3])
	if err != nil {
		return nil, fmt.Errorf("fieldtimes: RESTORE of %.100q: %w", words[1], err)
	}
	changed := slices.Clone(words)
	changed[3] = payload
	return changed, nil
}

// IsNewerStream reports whether a command is a RESTORE of a stream as Redis 7.2 has it, which knows
// when consumers last got something: a Redis 7.0 can't read that.
func IsNewerStream(words [][]byte) bool {
	return len(words) > 3 && named(words, "RESTORE") && rdb.IsNewerStreamPayload(words[3])
}

// IsNewerRestore reports whether a command is a RESTORE with a payload that a Redis 7.0 can't read.
func IsNewerRestore(words [][]byte) bool {
	return len(words) > 3 && named(words, "RESTORE") && rdb.IsNewerPayload(words[3])
}

// Apart returns commands that do what such a RESTORE does, in forms that Redis and Valkey have in
// common: one without times, and those that give fields their times.
func Apart(words [][]byte) ([][][]byte, error) {
	restore, err := withoutTimes(words)
	if err != nil {
		return nil, err
	}
	commands := [][][]byte{restore}
	err = rdb.FieldTimes(words[3], func(field []byte, expireMs int64) {
		at := strconv.AppendInt(nil, expireMs, 10)
		last := commands[len(commands)-1]
		if len(commands) == 1 || !bytes.Equal(last[2], at) || len(last) >= mostFields {
			commands = append(commands, [][]byte{[]byte("HPEXPIREAT"), words[1], at, []byte("FIELDS"), nil})
		}
		last = append(commands[len(commands)-1], bytes.Clone(field))
		last[4] = strconv.AppendInt(nil, int64(len(last)-5), 10)
		commands[len(commands)-1] = last
	})
	return commands, err
}

// mostFields bounds the words of a command that gives fields their time.
const mostFields = 1024
