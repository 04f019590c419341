package replication

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"kedis/internal/config"
	"kedis/internal/resp"
	"kedis/storage/fieldtimes"
	"kedis/storage/rdb"
)

// Replicas that may not know that fields of hashes expire.
//
// A Redis doesn't tell its version. Before 7.4 it refuses a snapshot whose RDB version is 12, takes
// one of version 10, and passes over HPEXPIREAT with an error in its log, so it would go on with
// other data. So a replica is known to know the times if it is a Kedis, or a Valkey that says so,
// or has taken a snapshot of version 12. Any other replica is sent its snapshot as version 12 as
// soon as a field expires, and its feed ends before the first command that says so.
// replica-field-expiry can say otherwise.
//
// A replica that doesn't know the times may be a Redis 7.0 in other ways, too: it gets a RESTORE of
// a stream as that reads it, without the times when consumers last got something.

// errFieldTimes ends the feed of a replica that may not know what comes next.
var errFieldTimes = errors.New("replication: a field of a hash expires, and the replica hasn't shown that it knows what that is: " +
	"it gets all data anew, in an RDB file of version 12, which Redis before 7.4 refuses (see replica-field-expiry)")

// errLonger ends the feed of a replica that is to get no times, where a command is longer without
// them than with them: a payload that was compressed. The snapshot that it gets then is behind it.
var errLonger = errors.New("replication: a command is longer without times of fields than with them: the replica gets all data anew")

// timesKnown is what a Node remembers of replicas by their names.
type timesKnown struct {
	mu       sync.Mutex
	verdicts map[string]timesVerdict
}

// timesVerdict is what has shown whether a replica knows times of fields.
type timesVerdict int

const (
	timesUnknown timesVerdict = iota
	timesWanted               // its feed has ended with errFieldTimes, and a snapshot of version 12 shows it; or with errLonger
	timesRefused              // it hasn't taken one
	timesTaken
)

// mostRemembered bounds the replicas that are remembered. One that was forgotten takes all data
// anew.
const mostRemembered = 1000

func (t *timesKnown) set(name string, v timesVerdict) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.verdicts == nil || len(t.verdicts) >= mostRemembered {
		t.verdicts = map[string]timesVerdict{}
	}
	t.verdicts[name] = v
}

func (t *timesKnown) forget(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.verdicts, name)
}

func (t *timesKnown) of(name string) timesVerdict {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.verdicts[name]
}

// knowsTimes reports whether the replica knows that fields expire, as it says itself.
func (f *feed) knowsTimes() bool { return f.client.Commands || f.client.Valkey }

// beginTimes finds out what the feed does about fields that expire. It returns whether the replica
// may go on where it is.
func (f *feed) beginTimes() (resumes bool, err error) {
	f.times = sendTimes
	if f.knowsTimes() {
		return true, nil
	}
	n := f.node
	switch n.Config.ReplicaFieldExpiry.Get() {
	case config.TrustFieldExpiry:
		return true, nil
	case config.DropFieldExpiry:
		f.times = dropTimes
		anew := n.times.of(f.name()) == timesWanted // see errLonger
		n.times.forget(f.name())
		return !anew, nil
	}
	verdict := n.times.of(f.name())
	if verdict == timesTaken {
		return true, nil
	}
	f.times = stopAtTimes
	if verdict == timesWanted {
		return false, nil
	}
	view, err := n.Store.ViewToSend(nil)
	if err != nil {
		return false, err
	}
	defer view.Release()
	some, err := n.Store.FieldsExpire(view)
	return !some, err
}

// hesitate keeps a replica that refuses times from asking for its data a hundred times a second.
func (f *feed) hesitate(ctx context.Context) error {
	if f.times != stopAtTimes || f.node.times.of(f.name()) != timesRefused {
		return nil
	}
	select {
	case <-time.After(time.Second):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// format is how the snapshot is written for the replica.
func (f *feed) format(s *snapshot) (rdb.Format, error) {
	switch {
	case f.client.Valkey:
		return rdb.Valkey, nil
	case f.times == dropTimes:
		return rdb.Untimed, nil
	}
	if verdict := f.node.times.of(f.name()); verdict == timesWanted || verdict == timesTaken {
		return rdb.Redis74, nil
	}
	some, err := s.store.FieldsExpire(s.view)
	if some {
		return rdb.Redis74, err
	}
	return rdb.Redis70, err
}

// noteTimes notes whether the replica has taken a snapshot.
func (f *feed) noteTimes(format rdb.Format, taken bool) {
	switch {
	case format != rdb.Redis74 || f.times != stopAtTimes || f.client.Old || f.client.OnlyRDB:
	case taken:
		f.times = sendTimes
		f.node.times.set(f.name(), timesTaken)
	default:
		f.node.Logger.Warn("a replica hasn't taken a snapshot of RDB version 12, which has times at which fields of hashes expire; "+
			"Redis before 7.4 refuses that: replica-field-expiry drop leaves the times out", "address", f.name())
		f.node.times.set(f.name(), timesRefused)
	}
}

// fieldTimes is what a feed does about commands that give fields times.
type fieldTimes int

const (
	sendTimes fieldTimes = iota
	stopAtTimes
	dropTimes
)

// adapt returns the bytes of the log as the replica gets them. What is left out is made up for by
// PINGs of the same length, since positions count bytes.
func (f *feed) adapt(payload []byte) ([]byte, error) {
	if f.times == sendTimes {
		return payload, nil
	}
	var adapted []byte
	done := 0 // bytes of payload that adapted has
	for at := 0; at < len(payload); {
		words, size, ok := splitRequest(payload[at:])
		if !ok {
			return nil, fmt.Errorf("replication: no request at byte %d of a record of the log", at)
		}
		gives := fieldtimes.Gives(words)
		if gives && f.times == stopAtTimes {
			f.node.times.set(f.name(), timesWanted)
			return nil, errFieldTimes
		}
		if gives || fieldtimes.IsNewerStream(words) {
			rest, err := fieldtimes.Without(words)
			if err != nil {
				return nil, err
			}
			instead, err := appendInstead(append(adapted, payload[done:at]...), rest, size)
			switch {
			case err == nil:
				adapted, done = instead, at+size
			case gives:
				f.node.times.set(f.name(), timesWanted)
				return nil, err
			default: // a newer Redis, whose stream this is, has compressed more: it goes on as it came
			}
		}
		at += size
	}
	if adapted == nil {
		return payload, nil
	}
	return append(adapted, payload[done:]...), nil
}

// splitRequest takes the first request from b: its words, and its size with the empty requests
// before it.
func splitRequest(b []byte) (words [][]byte, size int, ok bool) {
	at := 0
	for at < len(b) && (b[at] == '\r' || b[at] == '\n') {
		at++
	}
	if at == len(b) {
		return nil, at, true
	}
	n, at, ok := splitNumber(b, at, '*')
	for ok && n > 0 {
		var length int
		if length, at, ok = splitNumber(b, at, '$'); ok && length <= len(b)-at-2 {
			words = append(words, b[at:at+length])
			at += length + 2
			n--
		} else {
			return nil, 0, false
		}
	}
	return words, at, ok
}

// splitNumber reads | kind | number | CRLF | at a place.
func splitNumber(b []byte, at int, kind byte) (n, behind int, ok bool) {
	end := bytes.IndexByte(b[at:], '\n')
	if end < 2 || b[at] != kind {
		return 0, 0, false
	}
	n, err := strconv.Atoi(string(b[at+1 : at+end-1]))
	return n, at + end + 1, err == nil && n >= 0
}

// appendInstead appends a command, if there is one, in so many bytes.
func appendInstead(dst []byte, words [][]byte, size int) ([]byte, error) {
	from := len(dst)
	if words != nil {
		dst = resp.AppendRequest(dst, words...)
	}
	used := len(dst) - from
	if used > size {
		return nil, errLonger
	}
	return appendFiller(dst, size-used), nil
}

// appendFiller appends so many bytes that do nothing: a PING with a text, and empty requests where
// its length can't be right.
func appendFiller(dst []byte, size int) []byte {
	const ping, end = "*2\r\n$4\r\nPING\r\n", "\r\n"
	for text := size - len(ping) - len("$0\r\n") - len(end); text >= 0 && size > 0; text-- {
		length := "$" + strconv.Itoa(text) + "\r\n"
		if used := len(ping) + len(length) + text + len(end); used <= size {
			dst = append(append(dst, ping...), length...)
			dst = append(dst, bytes.Repeat([]byte{'.'}, text)...)
			dst = append(dst, end...)
			size -= used
			break
		}
	}
	return append(dst, bytes.Repeat([]byte{'\n'}, size)...)
}
