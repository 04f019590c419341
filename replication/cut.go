package replication

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"kedis/binlog"
	"kedis/internal/resp"
)

// A server that was a primary, or followed one that is lost, may have more of a history than its
// new primary: PINGs, messages, questions to replicas. When that is all, it is cut off, and the
// rest is gone on with. The replica does so, since only it knows what it has: it asks where the
// primary's histories branched off from its own, looks at its log from there, and asks for the
// stream from there.

// Histories returns the ids of the histories that the server has been in, and up to where: "id
// position id position …". The last one is the present one.
func (n *Node) Histories() string {
	var text strings.Builder
	for _, h := range branches(n.Host.Log()) {
		fmt.Fprintf(&text, "%s %d ", h.ID, h.Left)
	}
	return strings.TrimSuffix(text.String(), " ")
}

// branches lists a log's history and its ancestors with the positions up to where they are known.
// The position comes first: behind a promotion it could be one that only the next history has.
func branches(log interface {
	Position() int64
	History() binlog.History
}) []binlog.Ancestor {
	position := log.Position()
	h := log.History()
	return append(h.Ancestors[:len(h.Ancestors):len(h.Ancestors)], binlog.Ancestor{ID: h.ID, Left: position})
}

// meet returns the last position up to which two servers have the same stream, and the id of the
// history that it is in.
func meet(own, others []binlog.Ancestor) (id string, at int64, found bool) {
	at = -1
	for _, a := range own {
		for _, b := range others {
			if shared := min(a.Left, b.Left); a.ID == b.ID && shared > at {
				id, at = a.ID, shared
			}
		}
	}
	return id, at, at >= 0
}

// start is where a server asks for the stream from.
type start struct {
	id       string
	position int64
	parted   int64 // what the log holds behind it, the primary hasn't got, for all that is known; or whole
}

// whole is the start.parted of a server that has nothing of its own.
const whole = -1

// startingPoint is where the server goes on from: from its end, or, if the primary hasn't got that
// and nothing was written behind it, from where their histories part. A replica that is about to be
// told that it is the primary is asked from the end in any case.
func (l *link) startingPoint() (start, error) {
	id, end := l.claim()
	from, log := start{id, end, whole}, l.node.Host.Log()
	if l.diverged || end <= log.First() {
		return from, nil
	}
	others, err := l.askHistories()
	if err != nil {
		return start{}, err
	}
	branch, at, found := meet(branches(log), others)
	switch {
	case !found && len(others) > 0: // strangers, whose data take the place of the server's, as REPLICAOF asks
		return from, nil
	case !found: // the primary doesn't tell
		at = log.First()
	}
	switch {
	case at < end && l.hasWritten(log, at):
		from.parted = at
	case found && !l.failingOver():
		from.id, from.position = branch, at
	}
	return from, nil
}

// hasWritten reports whether the log may hold changes of data behind where the server and its
// primary parted.
func (l *link) hasWritten(log *binlog.Log, at int64) bool {
	idle, err := l.idleSince(log, at)
	switch {
	case err != nil:
		l.node.Logger.Warn("it is unknown what the server has written since it and its primary parted", "position", at, "end", log.Position(), "error", err)
	case !idle:
		l.node.Logger.Warn("the server has written since it and its primary parted", "position", at, "end", log.Position())
	}
	return !idle
}

// askHistories asks for the primary's histories. One that is no Kedis tells of two in INFO; one
// that tells nothing has none.
func (l *link) askHistories() ([]binlog.Ancestor, error) {
	reply, err := l.do("REPLCONF", "kedis-histories", "1")
	if err != nil {
		return nil, fmt.Errorf("replication: REPLCONF: %w", err)
	}
	if reply.Err() == nil {
		return parseHistories(strings.Fields(string(reply.Text)))
	}
	reply, err = l.do("INFO", "replication")
	if err != nil {
		return nil, fmt.Errorf("replication: INFO: %w", err)
	}
	if refusal := reply.Err(); refusal != nil {
		l.node.Logger.Info("the primary doesn't tell its histories", "primary", l.target.String(), "answer", refusal)
		return nil, nil
	}
	return parseHistories(historiesOfInfo(string(reply.Text)))
}

func parseHistories(words []string) (found []binlog.Ancestor, err error) {
	for ; len(words) > 1; words = words[2:] {
		left, err := strconv.ParseInt(words[1], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("replication: the primary tells %.100q of its histories", words)
		}
		found = append(found, binlog.Ancestor{ID: words[0], Left: left})
	}
	return found, nil
}

// historiesOfInfo takes out of INFO what Redis says of its two histories. It counts from 1 where
// the second was left.
func historiesOfInfo(text string) (words []string) {
	fields := map[string]string{}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		fields[name] = value
	}
	if left, err := strconv.ParseInt(fields["second_repl_offset"], 10, 64); err == nil && left > 0 && left < math.MaxInt64 {
		words = append(words, fields["master_replid2"], strconv.FormatInt(left-1, 10))
	}
	if id := fields["master_replid"]; id != "" {
		words = append(words, id, fields["master_repl_offset"])
	}
	return words
}

// idleSince reports whether nothing in the log behind a position changes data.
func (l *link) idleSince(log *binlog.Log, at int64) (idle bool, err error) {
	reader, err := log.NewReader(at)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, reader.Close()) }()
	for reader.Position() < log.Position() {
		record, err := reader.Next(l.ctx)
		if err != nil {
			return false, err
		}
		if idle, err := l.idle(record.Payload); err != nil || !idle {
			return false, err
		}
	}
	return true, nil
}

func (l *link) idle(payload []byte) (bool, error) {
	stream := resp.NewReader(bytes.NewReader(payload), math.MaxInt64)
	for {
		args, _, err := stream.ReadRequest()
		if err == io.EOF {
			return true, nil
		}
		if err != nil {
			return false, fmt.Errorf("replication: what the log holds: %w", err)
		}
		if l.node.Host.ChangesData(args) {
			return false, nil
		}
	}
}

// cutTo takes off the log's end, behind which nothing has changed data. Until the new log stands in
// RocksDB's files a crash leaves the former one in use, whole. It needs roles to be held.
func (n *Node) cutTo(at int64) error {
	former := n.Host.Log()
	n.disconnect()
	log, directory, err := n.Host.ForkLog(at)
	if err != nil {
		return err
	}
	if err := n.Store.Rebase(log, directory); err != nil {
		return errors.Join(err, n.Host.DiscardLog(log, directory))
	}
	n.Logger.Warn("the end of the log is cut off: it changed no data, and the primary hasn't got it", "history", former.History().ID,
		"position", at, "end", former.Position(), "bytes", former.Position()-at)
	n.unsettled = true
	n.Host.AdoptLog(log)
	if err := n.settle(); err != nil {
		return err
	}
	n.removeFormerLogs()
	return nil
}
