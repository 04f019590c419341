package replication

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"kedis/binlog"
	"kedis/internal/psync"
	"kedis/internal/resp"
)

// feedState is how far a feed has come.
type feedState int32

// The states, in the order in which they come.
const (
	feedBegins feedState = iota
	feedSnapshot
	feedAwaitsAck // the snapshot is sent; the replica says when it has taken it
	feedOnline
)

// The names are those of Redis's INFO.
func (s feedState) String() string {
	return [...]string{"wait_bgsave", "send_bulk", "send_bulk", "online"}[s]
}

// feed sends one replica what it needs, on goroutines of its own. A replica that doesn't read costs
// log on disk: the reader pins it.
type feed struct {
	node   *Node
	conn   net.Conn
	client psync.Replica
	times  fieldTimes // for the goroutine that sends
	cancel context.CancelFunc

	state    atomic.Int32
	sent     atomic.Int64 // position
	acked    atomic.Int64 // position
	synced   atomic.Int64 // position that the replica has on its disk; stays 0 when it doesn't tell
	heard    atomic.Int64 // Unix ms when the replica last said something
	taken    chan struct{}
	snapshot atomic.Pointer[snapshot] // that is being sent; nil before and behind it
	once     sync.Once
	ending   atomic.Bool
}

// Serve feeds a replica over a connection that is the part's own, until it ends.
func (n *Node) Serve(conn net.Conn, client psync.Replica) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	f := &feed{node: n, conn: conn, client: client, cancel: cancel, taken: make(chan struct{})}
	f.heard.Store(time.Now().UnixMilli())
	n.mu.Lock()
	if n.stopped {
		n.mu.Unlock()
		f.close()
		return
	}
	n.feeds[f] = struct{}{}
	n.fed.Add(1)
	n.running.Add(2)
	n.mu.Unlock()
	defer n.running.Done()
	go func() {
		defer n.running.Done()
		f.listen()
	}()
	n.Logger.Info("a replica asks", "address", f.name(), "history", fmt.Sprintf("%.40s", client.ID), "from", client.From)
	err := f.run(ctx)
	n.Logger.Info("a replica's feed has ended", "address", f.name(), "sent", f.sent.Load(), "reason", err)
	f.close()
	n.change(func() {
		delete(n.feeds, f)
		n.fed.Add(-1)
		n.countGood()
	})
}

// close ends the feed from anywhere.
func (f *feed) close() {
	f.ending.Store(true)
	f.cancel()
	if err := f.conn.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		f.node.Logger.Debug("closing a replica's connection", "address", f.name(), "error", err)
	}
}

func (f *feed) set(s feedState) { f.state.Store(int32(s)) }

// State is how far the feed has come.
func (f *feed) State() feedState { return feedState(f.state.Load()) }

// announced is the address that the replica announces.
func (f *feed) announced() (host string, port int) {
	host, _, err := net.SplitHostPort(f.client.Address)
	if err != nil {
		host = f.client.Address
	}
	if f.client.Announce != "" {
		host = f.client.Announce
	}
	return host, f.client.Port
}

func (f *feed) name() string {
	host, port := f.announced()
	if port == 0 {
		return f.client.Address
	}
	return net.JoinHostPort(host, strconv.Itoa(port))
}

func (f *feed) timeout() time.Duration {
	return time.Duration(f.node.Config.ReplTimeout.Get()) * time.Second
}

// atOnce is how many bytes a replica has to take within repl-timeout.
const atOnce = 64 << 10

// Write sends bytes; a replica that takes none for too long is lost. One that is slow isn't,
// however much there is to send.
func (f *feed) Write(b []byte) (sent int, err error) {
	for len(b) > 0 && err == nil {
		if err = f.conn.SetWriteDeadline(time.Now().Add(f.timeout())); err != nil {
			break
		}
		var n int
		n, err = f.conn.Write(b[:min(len(b), atOnce)])
		f.node.counters.sent.Add(int64(n))
		sent, b = sent+n, b[n:]
	}
	return sent, err
}

// run sends a snapshot if need be, and then the stream.
func (f *feed) run(ctx context.Context) error {
	reader, err := f.resume()
	if err == nil && reader == nil {
		reader, err = f.synchronize(ctx)
	}
	if err != nil || reader == nil {
		return err
	}
	err = f.stream(ctx, reader)
	return errors.Join(err, reader.Close())
}

// resume goes on where the replica is, if the log holds the stream from there and the replica has
// seen no other; nil if not.
func (f *feed) resume() (*binlog.Reader, error) {
	n, c := f.node, &f.client
	resumes, err := f.beginTimes()
	if err != nil || c.Old || c.From <= 0 {
		return nil, err
	}
	log := n.Host.Log()
	history := log.History()
	position := c.From - 1
	if !resumes || !shared(history, c.ID, position) || c.ID != history.ID && !c.Resumes {
		n.counters.refused.Add(1)
		return nil, nil
	}
	reader, err := log.NewReader(position)
	switch {
	case errors.Is(err, binlog.ErrPurged), errors.Is(err, binlog.ErrBeyondEnd), errors.Is(err, binlog.ErrNotBorder), errors.Is(err, binlog.ErrCorrupt):
		n.counters.refused.Add(1)
		n.Logger.Info("a replica can't go on where it is", "address", f.name(), "reason", err)
		return nil, nil
	case err != nil:
		return nil, err
	}
	line := "+CONTINUE\r\n"
	if c.Resumes {
		line = "+CONTINUE " + history.ID + "\r\n"
	}
	if _, err := f.Write([]byte(line)); err != nil {
		return nil, errors.Join(err, reader.Close())
	}
	n.counters.partial.Add(1)
	if !c.Acknowledges { // who does may have what it goes on behind, and not on its disk
		f.acked.Store(position)
	}
	return reader, nil
}

// shared reports whether a history and the one with an id are the same up to a position.
func shared(h binlog.History, id string, position int64) bool {
	if id == h.ID {
		return true
	}
	for _, a := range h.Ancestors {
		if a.ID == id && position <= a.Left {
			return true
		}
	}
	return false
}

// coalesce is how much of the stream is gathered before it is sent, while there is more.
const coalesce = 64 << 10

// stream sends the log as it grows.
func (f *feed) stream(ctx context.Context, reader *binlog.Reader) error {
	f.sent.Store(reader.Position())
	f.node.comesOnline(f)
	defer f.node.goesOffline(f)
	w := bufio.NewWriterSize(f, coalesce)
	for {
		record, err := reader.Next(ctx)
		if err != nil {
			return err
		}
		payload, err := f.adapt(record.Payload)
		if err != nil {
			return errors.Join(err, w.Flush())
		}
		if _, err := w.Write(payload); err != nil {
			return err
		}
		if !reader.Pending() {
			if err := w.Flush(); err != nil {
				return err
			}
		}
		f.sent.Store(record.End)
	}
}

// longestAck is more than a replica has to say at once.
const longestAck = 1 << 20

// listen takes the replica's acknowledgements until the connection ends.
func (f *feed) listen() {
	defer f.cancel()
	requests := resp.NewReader(hearing{f}, longestAck)
	for {
		args, _, err := requests.ReadRequest()
		if err != nil {
			return
		}
		f.client.Heard()
		if len(args) < 3 || !bytes.EqualFold(args[0], []byte("REPLCONF")) || !bytes.EqualFold(args[1], []byte("ACK")) {
			continue
		}
		position, synced, err := parseAck(args[2:])
		if err != nil {
			f.node.Logger.Warn("a replica acknowledges nonsense", "address", f.name(), "error", err)
			f.close()
			return
		}
		if end := f.node.Host.Log().Position(); position > end || synced > end {
			f.node.Logger.Warn("a replica acknowledges what there isn't", "address", f.name(), "position", position, "synced", synced, "log ends", end)
			f.close()
			return
		}
		f.acknowledge(position, synced)
	}
}

// parseAck reads the position that a replica has and, behind FACK, which Redis has since 7.2, the
// one that it has on its disk: 0 if it doesn't tell.
func parseAck(words [][]byte) (position, synced int64, err error) {
	if position, err = parsePosition(words[0]); err != nil {
		return 0, 0, fmt.Errorf("replication: ACK: %w", err)
	}
	if len(words) > 2 && bytes.EqualFold(words[1], []byte("FACK")) {
		if synced, err = parsePosition(words[2]); err != nil {
			return 0, 0, fmt.Errorf("replication: FACK: %w", err)
		}
	}
	return position, synced, nil
}

func parsePosition(word []byte) (int64, error) {
	position, err := strconv.ParseInt(string(word), 10, 64)
	if err != nil || position < 0 {
		return 0, fmt.Errorf("%.40q is no position", word)
	}
	return position, nil
}

// hearing reads what a replica says: empty lines while it takes a snapshot, and acknowledgements.
type hearing struct{ feed *feed }

func (h hearing) Read(p []byte) (int, error) {
	n, err := h.feed.conn.Read(p)
	if n > 0 {
		h.feed.heard.Store(time.Now().UnixMilli())
	}
	return n, err
}

func (f *feed) acknowledge(position, synced int64) {
	from, to := f.acked.Load(), max(position, f.acked.Load())
	if formerly := f.synced.Load(); synced > formerly {
		from = min(from, formerly)
		f.synced.Store(synced)
	}
	f.acked.Store(to)
	f.once.Do(func() { close(f.taken) })
	n := f.node
	n.change(func() {
		close(n.acks)
		n.acks = make(chan struct{})
	})
	n.acknowledgements.settle(n.progress(), from, to)
}

// comesOnline and goesOffline count the replicas that get the stream.
func (n *Node) comesOnline(f *feed) {
	n.change(func() {
		f.set(feedOnline)
		n.countGood()
	})
	if !f.client.Acknowledges {
		n.acknowledgements.hesitant.Add(1)
	}
	n.acknowledgements.asked.Store(0)
	n.online.Add(1)
	n.settleAll()
}

func (n *Node) goesOffline(f *feed) {
	n.online.Add(-1)
	if !f.client.Acknowledges {
		n.acknowledgements.hesitant.Add(-1)
	}
}

// lag is for how long the replica hasn't said anything.
func (f *feed) lag(now time.Time) time.Duration {
	return max(0, now.Sub(time.UnixMilli(f.heard.Load())))
}

// good reports whether the replica keeps up, as min-replicas-max-lag has it.
func (f *feed) good(now time.Time) bool {
	return f.State() == feedOnline && f.lag(now) <= time.Duration(f.node.Config.MinReplicasMaxLag.Get())*time.Second
}

// good is how many replicas keep up. The mutex is held.
func (n *Node) good(now time.Time) (count int) {
	for f := range n.feeds {
		if f.good(now) {
			count++
		}
	}
	return count
}

// countGood tells the host how many replicas keep up. The mutex is held.
func (n *Node) countGood() { n.Host.SetGoodReplicas(n.good(time.Now())) }

// inspect ends a feed whose replica is silent, or so far behind that the log would grow too large.
// One from before PSYNC acknowledges the snapshot, if it has asked for a marked one, and is silent
// from then on.
func (f *feed) inspect(now time.Time) {
	state := f.State()
	if state == feedBegins || f.ending.Load() {
		return
	}
	if silent := state == feedOnline && f.client.Old; state >= feedAwaitsAck && !silent && f.lag(now) > f.timeout() {
		f.node.Logger.Warn("a replica is silent; its feed ends", "address", f.name(), "state", state.String(), "lag", f.lag(now).String())
		f.close()
		return
	}
	limit := f.node.Config.ReplicaLogLimit.Get()
	if behind := f.node.Host.Log().Position() - f.sent.Load(); limit > 0 && behind > limit {
		f.node.Logger.Error("a replica has fallen back too far; it will have to take all data anew when the log no longer holds what it lacks",
			"address", f.name(), "bytes behind", behind, "replica-log-limit", limit)
		f.close()
	}
}
