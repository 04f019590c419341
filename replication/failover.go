package replication

import (
	"context"
	"strings"

	"kedis/internal/psync"
	"kedis/internal/resp"
)

const (
	errFailingOver  = resp.Error("ERR REPLICAOF not allowed while failing over.")
	errNoFailover   = resp.Error("ERR No failover in progress.")
	errToPrimary    = resp.Error("ERR PSYNC FAILOVER can't be sent to a master.")
	errOtherHistory = resp.Error("ERR PSYNC FAILOVER replid must match my replid.")
)

// failover is a change of roles that is under way. First no write is let in, until a replica has
// everything; then the server becomes its replica, and tells it to be the primary.
type failover struct {
	psync.Failover
	ctx    context.Context
	cancel context.CancelFunc

	demoted bool // the server is a replica already; it belongs to the node's role
}

// FailOver begins to change roles with a replica, in the background.
func (n *Node) FailOver(o psync.Failover) error {
	n.roles.Lock()
	defer n.roles.Unlock()
	if err := n.checkFailover(&o); err != nil {
		return err
	}
	f := &failover{Failover: o}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	n.change(func() { n.failover = f })
	n.Host.HoldWrites()
	n.Logger.Info("a failover begins", "to", f.String(), "timeout", o.Timeout.String(), "force", o.Force)
	n.running.Go(func() { n.awaitReplica(f) })
	return nil
}

func (n *Node) checkFailover(o *psync.Failover) error {
	feeds := n.sorted(false)
	switch {
	case n.failover != nil:
		return resp.Error("ERR FAILOVER already in progress.")
	case n.link != nil:
		return resp.Error("ERR FAILOVER is not valid when server is a replica.")
	case len(feeds) == 0:
		return resp.Error("ERR FAILOVER requires connected replicas.")
	case o.Force && (o.Timeout == 0 || o.Host == ""):
		return resp.Error("ERR FAILOVER with force option requires both a timeout and target HOST and IP.")
	case o.Host == "":
		return nil
	}
	known := false
	for _, f := range feeds {
		if f.is(o.Host, o.Port) && (target{o.Host, o.Port}).reachable() {
			known = true
			if f.State() == feedOnline {
				return nil
			}
		}
	}
	if known {
		return resp.Error("ERR FAILOVER target replica is not online.")
	}
	return resp.Error("ERR FAILOVER target HOST and PORT is not a replica.")
}

// String names the replica.
func (f *failover) String() string {
	if f.Host == "" {
		return "any replica"
	}
	return target{f.Host, f.Port}.String()
}

// is reports whether the feed's replica is to be found at a place.
func (f *feed) is(host string, port int) bool {
	ownHost, ownPort := f.announced()
	return ownHost == host && ownPort == port
}

// awaitReplica waits until a replica has everything, and changes roles with it. The failover's time
// includes what writes take that began before they were held.
func (n *Node) awaitReplica(f *failover) {
	ctx, cancel := f.ctx, context.CancelFunc(func() {})
	if f.Timeout > 0 {
		ctx, cancel = context.WithTimeout(f.ctx, f.Timeout)
	}
	defer cancel()
	if admit := n.Host.Exclude(ctx); admit != nil {
		admit() // those writes are done
		n.askFailingOver(f)
		if n.awaitAcknowledgement(ctx, f) {
			return
		}
	}
	if f.ctx.Err() == nil {
		n.failoverOverdue(f)
	}
}

// awaitAcknowledgement hands over to a replica once it has everything; done is false when ctx is
// done before.
func (n *Node) awaitAcknowledgement(ctx context.Context, f *failover) (done bool) {
	for {
		done, acks := n.tryHandOver(f)
		if done {
			return true
		}
		select {
		case <-acks:
		case <-ctx.Done():
			return false
		}
	}
}

// askFailingOver has the replicas say at once how far they are.
func (n *Node) askFailingOver(f *failover) {
	n.roles.Lock()
	defer n.roles.Unlock()
	if n.failover != f {
		return
	}
	if err := n.say(getAck); err != nil {
		n.Logger.Warn("replicas are not asked how far they are", "error", err)
	}
}

// tryHandOver changes roles if there is a replica that has everything. done says that there is no
// more to wait for; else acks is closed when it is worth another try.
func (n *Node) tryHandOver(f *failover) (done bool, acks <-chan struct{}) {
	n.roles.Lock()
	defer n.roles.Unlock()
	if n.failover != f || n.stopped {
		return true, nil
	}
	acks, position := n.nextAcknowledgement(), n.Host.Log().Position()
	for _, feed := range n.sorted(true) {
		host, port := feed.announced()
		if !(target{host, port}).reachable() || f.Host != "" && !feed.is(f.Host, f.Port) || feed.acked.Load() != position {
			continue
		}
		n.Logger.Info("a replica has everything; it is to be the primary", "address", feed.name(), "position", position)
		f.Host, f.Port = host, port
		n.handOver(f)
		return true, nil
	}
	return false, acks
}

// failoverOverdue ends the waiting for a replica.
func (n *Node) failoverOverdue(f *failover) {
	n.roles.Lock()
	defer n.roles.Unlock()
	if n.failover != f || n.stopped {
		return
	}
	if !f.Force {
		n.Logger.Warn("a failover is given up: no replica has come to have everything in time", "to", f.String())
		n.endFailover()
		return
	}
	n.Logger.Warn("a replica is to be the primary without having everything", "address", f.String())
	n.handOver(f)
}

// handOver makes the server a replica; its link does the rest. The role is on the disk before, so
// that a crash leaves no two primaries. It needs roles to be held.
func (n *Node) handOver(f *failover) {
	to := target{f.Host, f.Port}
	if err := n.saveRole(&to); err != nil {
		n.Logger.Error("a failover is given up", "error", err)
		n.endFailover()
		return
	}
	n.change(func() { f.demoted = true })
	n.follow(to)
}

// endFailover lets writes go on. It needs roles to be held.
func (n *Node) endFailover() {
	n.failover.cancel()
	n.change(func() { n.failover = nil })
	n.Host.ReleaseWrites()
}

// AbortFailover ends a failover: the server is the primary that it was. A replica that has been
// told to be the primary stays that.
func (n *Node) AbortFailover() error {
	n.roles.Lock()
	defer n.roles.Unlock()
	if n.failover == nil {
		return errNoFailover
	}
	n.Logger.Warn("a failover is aborted", "to", n.failover.String())
	return n.undoFailover()
}

// undoFailover makes the server a primary again. It needs roles to be held.
func (n *Node) undoFailover() error {
	if n.failover.demoted {
		if err := n.promote(); err != nil {
			return err
		}
	}
	n.endFailover()
	return nil
}

// TakeOver makes a replica the primary, as its primary asks it to do. One that has handed over
// itself, and waits for an answer, is the primary again.
func (n *Node) TakeOver(id string) error {
	n.roles.Lock()
	defer n.roles.Unlock()
	switch {
	case n.link == nil:
		return errToPrimary
	case !strings.EqualFold(id, n.Host.Log().History().ID):
		return errOtherHistory
	}
	n.Logger.Info("the primary asks its replica to take over")
	if n.failover != nil {
		return n.undoFailover()
	}
	return n.promote()
}

// failoverState is what INFO calls it. mu is held.
func (n *Node) failoverState() string {
	switch {
	case n.failover == nil:
		return "no-failover"
	case n.failover.demoted:
		return "failover-in-progress"
	}
	return "waiting-for-sync"
}

// failingOver reports whether the link's primary has still to be told that it is one.
func (l *link) failingOver() bool {
	l.node.roles.Lock()
	defer l.node.roles.Unlock()
	return !l.ended && l.node.failover != nil
}

// tookOver ends the failover: the other one is the primary.
func (l *link) tookOver() error {
	return l.exclusively(func() error {
		if l.node.failover != nil {
			l.node.Logger.Info("the failover is complete", "primary", l.target.String())
			l.node.endFailover()
		}
		return nil
	})
}

// handedDown judges what the new primary answers to PSYNC … FAILOVER, or that it doesn't. When no
// answer came to the first request, the next one finds a primary that has taken over already.
func (l *link) handedDown(reply resp.Reply, err error) error {
	if err != nil {
		l.unanswered = true
		return err
	}
	refusal := reply.Err()
	switch {
	case refusal == nil:
		return l.tookOver()
	case l.unanswered && strings.HasPrefix(string(reply.Text), string(errToPrimary)):
		return l.tookOver()
	}
	return l.exclusively(func() error {
		l.node.Logger.Error("a failover is given up: the replica refuses to be the primary", "address", l.target.String(), "error", refusal)
		return l.node.undoFailover()
	})
}
