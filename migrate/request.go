package migrate

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"kedis/internal/resp"
)

// request is what one server gets of a batch: several commands, as a transaction with what moves
// the marker, or without.
type request struct {
	batch    *batch
	address  string
	slot     int
	entries  []entry
	mark     [][]byte    // nil: not as a transaction
	asking   bool        // the address is not the slot's owner, and serves it all the same
	redirect *replyError // why entries have to be sent again, elsewhere or later; nil: they haven't
}

var (
	askingRequest = resp.AppendRequest(nil, []byte("ASKING"))
	multiRequest  = resp.AppendRequest(nil, []byte("MULTI"))
	execRequest   = resp.AppendRequest(nil, []byte("EXEC"))
)

// encode is what goes over the connection.
func (r *request) encode() (parts [][]byte) {
	if r.mark != nil {
		parts = append(parts, r.before(), multiRequest) // ASKING holds for all of a transaction
	}
	if len(r.entries) == len(r.batch.entries) && !r.asking {
		parts = append(parts, r.batch.encoded)
	} else {
		parts = append(parts, r.some())
	}
	if r.mark == nil {
		return parts
	}
	return append(parts, resp.AppendRequest(nil, r.mark...), execRequest)
}

// before is what stands before a command or a transaction.
func (r *request) before() []byte {
	if r.asking {
		return askingRequest
	}
	return nil
}

// some is those of a batch's commands that this request has.
func (r *request) some() (b []byte) {
	for _, e := range r.entries {
		if r.mark == nil {
			b = append(b, r.before()...)
		}
		b = append(b, r.batch.encoded[e.from:e.to]...)
	}
	return b
}

// take takes the replies to what encode has given, and says in redirect and entries what has to be
// sent again.
func (r *request) take(replies *resp.Reader) error {
	r.redirect = nil
	if r.mark != nil {
		return r.takeTransaction(replies)
	}
	var left []entry
	for _, e := range r.entries {
		if err := r.takeBefore(replies); err != nil {
			return err
		}
		refused, err := r.reply(replies, e)
		switch {
		case err != nil:
			return err
		case refused == nil && len(left) == 0:
		case refused == nil:
			if slices.ContainsFunc(left, func(before entry) bool { return bytes.Equal(r.batch.key(before), r.batch.key(e)) }) {
				return fmt.Errorf("slot %d was given back while it was moved, and %s was carried out before what stood before it", r.slot, r.batch.command(e))
			}
		case refused.isRedirection():
			left, r.redirect = append(left, e), refused
		default:
			return refused
		}
	}
	r.entries = left
	return nil
}

// reply reads the reply to one command. refused is nil unless that is an error.
func (r *request) reply(replies *resp.Reader, e entry) (refused *replyError, err error) {
	refusal, err := takeOutcome(replies)
	if err == nil && refusal != nil {
		refused = &replyError{string(refusal), r.batch.command(e)}
	}
	return refused, err
}

// takeOutcome passes over a reply of any length. It returns the text of one that is an error.
func takeOutcome(replies *resp.Reader) (refusal []byte, err error) {
	kind, text, length, err := takeHead(replies)
	if err != nil || kind == resp.KindError {
		return text, err
	}
	for left := int64(0); ; left-- {
		switch {
		case kind == resp.KindBulk && length >= 0:
			if _, err := io.CopyN(io.Discard, replies, length+int64(len("\r\n"))); err != nil {
				return nil, err
			}
		case kind == resp.KindArray && length > 0:
			left += length
		}
		if left == 0 {
			return nil, nil
		}
		if kind, _, length, err = takeHead(replies); err != nil {
			return nil, err
		}
	}
}

// takeHead takes the line that a reply begins with: the kind, and a text that is whole or the
// length of what follows.
func takeHead(replies *resp.Reader) (kind resp.Kind, text []byte, length int64, err error) {
	line, err := replies.ReadLine()
	if err != nil {
		return 0, nil, 0, err
	}
	if len(line) > 0 {
		kind, text = resp.Kind(line[0]), bytes.Clone(line[1:])
	}
	switch kind {
	case resp.KindSimple, resp.KindError, resp.KindInteger:
	case resp.KindBulk, resp.KindArray:
		length, err = strconv.ParseInt(string(text), 10, 48)
	default:
		err = fmt.Errorf("%.40q is no reply", line)
	}
	return kind, text, length, err
}

// takeBefore takes the reply to what stands before a command or a transaction.
func (r *request) takeBefore(replies *resp.Reader) error {
	if r.asking {
		return takeOK(replies)
	}
	return nil
}

// takeTransaction takes the replies to MULTI, the commands, the marker's move, and EXEC.
func (r *request) takeTransaction(replies *resp.Reader) error {
	if err := errors.Join(r.takeBefore(replies), takeOK(replies)); err != nil {
		return err
	}
	var first *replyError // that was refused when it was queued says why
	for _, e := range r.entries {
		refused, err := r.reply(replies, e)
		if err != nil {
			return err
		}
		if first == nil {
			first = refused
		}
	}
	if _, err := takeOutcome(replies); err != nil { // what is wrong with the marker's move is wrong with EXEC
		return err
	}
	kind, text, results, err := takeHead(replies)
	if err != nil {
		return err
	}
	if kind == resp.KindError {
		if first == nil {
			first = &replyError{string(text), "EXEC"}
		}
		if first.isRedirection() {
			r.redirect = first
			return nil
		}
		return first
	}
	if kind != resp.KindArray || results != int64(len(r.entries))+1 {
		return fmt.Errorf("a transaction of %d commands has %d results", len(r.entries)+1, results)
	}
	return r.takeResults(replies)
}

// takeResults takes what the commands of a transaction have answered, and the marker's move.
func (r *request) takeResults(replies *resp.Reader) error {
	for _, e := range r.entries {
		refused, err := r.reply(replies, e)
		switch {
		case err != nil:
			return err
		case refused != nil:
			return &divergence{refused}
		}
	}
	if _, err := takeOutcome(replies); err != nil {
		return err
	}
	r.entries = nil
	return nil
}

// divergence says that the target has refused one command of a transaction and carried out the
// others: its data isn't what the source's was.
type divergence struct{ err error }

func (d *divergence) Error() string { return d.err.Error() }
func (d *divergence) Unwrap() error { return d.err }
