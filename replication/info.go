package replication

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"kedis/internal/metrics"
	"kedis/internal/psync"
	"kedis/internal/resp"
)

// sorted lists the feeds that are past their snapshot, or all, by where their replicas are. mu is
// not held.
func (n *Node) sorted(online bool) []*feed {
	var feeds []*feed
	n.mu.Lock()
	for f := range n.feeds {
		if !online || f.State() == feedOnline {
			feeds = append(feeds, f)
		}
	}
	n.mu.Unlock()
	slices.SortFunc(feeds, func(a, b *feed) int { return cmp.Compare(a.client.Address, b.client.Address) })
	return feeds
}

// Role writes the reply to ROLE.
func (n *Node) Role(reply *resp.Writer) {
	feeds := n.sorted(true)
	n.mu.Lock()
	defer n.mu.Unlock()
	position := n.Host.Log().Position()
	if l := n.link; l != nil {
		reply.Array(5)
		reply.BulkString("slave")
		reply.BulkString(l.target.host)
		reply.Integer(int64(l.target.port))
		reply.BulkString(l.State().String())
		if l.State() != Connected {
			position = -1
		}
		reply.Integer(position)
		return
	}
	reply.Array(3)
	reply.BulkString("master")
	reply.Integer(position)
	reply.Array(len(feeds))
	for _, f := range feeds {
		host, port := f.announced()
		reply.Array(3)
		reply.BulkString(host)
		reply.BulkString(strconv.Itoa(port))
		reply.BulkString(strconv.FormatInt(f.acked.Load(), 10))
	}
}

// Info writes the fields of INFO replication.
func (n *Node) Info(fields *metrics.Fields) {
	feeds := n.sorted(false)
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	if n.link == nil {
		fields.Text("role", "master")
	} else {
		fields.Text("role", "slave")
		n.infoLink(fields, now)
	}
	fields.Int("connected_slaves", int64(len(feeds)))
	if n.Config.MinReplicasToWrite.Get() > 0 && n.Config.MinReplicasMaxLag.Get() > 0 {
		fields.Int("min_slaves_good_slaves", int64(n.good(now)))
	}
	if n.Config.SynchronousReplicas.Get() > 0 {
		fields.Int("synchronous_replicas_online", int64(n.Online()))
	}
	for i, f := range feeds {
		host, port := f.announced()
		state, lag := f.State(), time.Duration(0)
		if state == feedOnline { // a Redis says nothing while it takes a snapshot
			lag = f.lag(now)
		}
		fields.Text(fmt.Sprintf("slave%d", i), fmt.Sprintf("ip=%s,port=%d,state=%s,offset=%d,lag=%d",
			host, port, state, f.acked.Load(), int64(lag/time.Second)))
		if s := f.snapshot.Load(); s != nil && state == feedSnapshot {
			// Not a name that begins with "slave": Sentinel takes all of those for replicas.
			fields.Text(fmt.Sprintf("snapshot%d", i), fmt.Sprintf("ip=%s,port=%d,keys=%d,total_keys=%d,bytes=%d",
				host, port, s.keys.Load(), s.total, s.bytes.Load()))
		}
	}
	fields.Text("master_failover_state", n.failoverState())
	n.infoHistory(fields)
}

func (n *Node) infoLink(fields *metrics.Fields, now time.Time) {
	l, position := n.link, n.Host.Log().Position()
	up, silent := "down", int64(-1)
	if l.applier != nil {
		up, silent = "up", max(0, now.UnixMilli()-l.heard.Load())/1000
	}
	fields.Text("master_host", l.target.host)
	fields.Int("master_port", int64(l.target.port))
	fields.Text("master_link_status", up)
	fields.Int("master_last_io_seconds_ago", silent)
	fields.Bool("master_sync_in_progress", l.State() == FullSync)
	fields.Int("slave_read_repl_offset", position)
	fields.Int("slave_repl_offset", position)
	if l.State() == FullSync {
		total, loaded := l.total.Load(), l.loaded.Load()
		fields.Int("master_sync_total_bytes", total)
		fields.Int("master_sync_read_bytes", loaded)
		fields.Int("master_sync_left_bytes", total-loaded)
		fields.Float("master_sync_perc", float64(loaded)/float64(max(total, 1))*100, 2)
		fields.Int("master_sync_keys", l.keys.Load())
		fields.Int("master_sync_total_keys", l.totalKeys.Load())
		fields.Int("master_sync_last_io_seconds_ago", max(0, now.UnixMilli()-l.heard.Load())/1000)
	}
	if l.State() != Connected {
		fields.Int("master_link_down_since_seconds", int64(now.Sub(l.down)/time.Second))
	}
	fields.Int("slave_priority", n.Config.ReplicaPriority.Get())
	fields.Bool("slave_read_only", true)
	fields.Bool("replica_announced", n.Config.ReplicaAnnounced.Get())
}

// infoHistory tells of the log what Redis tells of its backlog.
func (n *Node) infoHistory(fields *metrics.Fields) {
	log := n.Host.Log()
	history, position, first := log.History(), log.Position(), log.First()
	former, left := strings.Repeat("0", len(history.ID)), int64(-1)
	if count := len(history.Ancestors); count > 0 {
		former, left = history.Ancestors[count-1].ID, history.Ancestors[count-1].Left+1
	}
	fields.Text("master_replid", history.ID)
	fields.Text("master_replid2", former)
	fields.Int("master_repl_offset", position)
	fields.Int("second_repl_offset", left)
	fields.Bool("repl_backlog_active", true)
	fields.Int("repl_backlog_size", n.Config.BinlogRetentionSize.Get())
	fields.Int("repl_backlog_first_byte_offset", first+1)
	fields.Int("repl_backlog_histlen", position-first)
}

// counters are psync.Counts as they are made.
type counters struct{ full, partial, refused, received, sent atomic.Int64 }

// Counts are counted since the start, or ResetCounts.
func (n *Node) Counts() psync.Counts {
	c := &n.counters
	return psync.Counts{Full: c.full.Load(), Partial: c.partial.Load(), Refused: c.refused.Load(), Received: c.received.Load(), Sent: c.sent.Load()}
}

// ResetCounts begins to count anew.
func (n *Node) ResetCounts() {
	c := &n.counters
	for _, counter := range []*atomic.Int64{&c.full, &c.partial, &c.refused, &c.received, &c.sent} {
		counter.Store(0)
	}
}
