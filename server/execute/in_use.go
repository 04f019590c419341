package execute

import "sync/atomic"

// inUse has a bit for each condition that not every server, or not always, has to look at. Each
// request looks at all of them together, so what nobody uses costs nothing.
type inUse struct{ bits atomic.Uint32 }

// conditions are bits of inUse. A gate has the bit of its place in the list of gates; bits that are
// a session's own are told by Session.conditions.
type conditions = uint32

const (
	gateProtected      conditions = 1 << iota // always
	gateAuthentication                        // the session's
	gateNoMulti                               // always
	gatePermission                            // the session's
	gateLog                                   // always
	gateReplicas                              // min-replicas-to-write is set
	gateSynchronous                           // somebody waits for replicas
	gateReplica                               // the server is a replica
	gateListening                             // the session's
	gateStale                                 // a replica without its primary
	gateLoading                               // the log is being applied
	gateMonitor                               // the session's

	pausing    // CLIENT PAUSE, or a failover
	limiting   // databases have limits
	notifying  // key events are wanted
	watching   // keys are watched
	blocking   // clients wait for keys
	caching    // clients track keys
	measuring  // latency-tracking
	monitoring // MONITOR
	touching   // accesses are noted
)

// gatesOfWrites are those that ask whether anything may be written now.
const gatesOfWrites = gateLog | gateReplicas | gateSynchronous | gateReplica

// gatesOfUsers are those that ask what the session's user may do.
const gatesOfUsers = gateAuthentication | gatePermission

// any reports whether any of some conditions is met.
func (u *inUse) any(of conditions) bool { return u.bits.Load()&of != 0 }

// condition is one bit of them, which is set and read like an atomic.Bool.
type condition struct {
	of  *inUse
	bit conditions
}

func (c condition) Load() bool { return c.of.any(c.bit) }

func (c condition) Store(met bool) {
	switch {
	case met == c.Load():
	case met:
		c.of.bits.Or(c.bit)
	default:
		c.of.bits.And(^c.bit)
	}
}

// initConditions tells the parts of the engine where to note what is in use.
func (e *Engine) initConditions() {
	one := func(bit conditions) condition { return condition{&e.inUse, bit} }
	e.inUse.bits.Store(gateProtected | gateNoMulti | gateLog)
	e.role.replica, e.role.stale = one(gateReplica), one(gateStale)
	e.Synchronous.active, e.loading.lasts = one(gateSynchronous), one(gateLoading)
	e.Pause.lasts, e.limits.any, e.Monitored = one(pausing), one(limiting), one(monitoring)
	e.Watches.any, e.Blocking.any, e.Caching.any = one(watching), one(blocking), one(caching)
	e.follow("min-replicas-to-write", func() { one(gateReplicas).Store(e.Config.MinReplicasToWrite.Get() > 0) })
	e.follow("latency-tracking", func() { one(measuring).Store(e.Config.LatencyTracking.Get()) })
	e.follow("notify-keyspace-events", func() { one(notifying).Store(e.WantedEvents() != 0) })
}

// follow takes up what is configured, now and when it changes.
func (e *Engine) follow(option string, take func()) {
	take()
	e.Config.OnChange(option, func() error {
		take()
		return nil
	})
}

// conditions are the ones that the session meets by itself.
func (s *Session) conditions() (met conditions) {
	if !s.Authenticated {
		met |= gateAuthentication
	}
	if s.User != nil && !s.User.Unrestricted() {
		met |= gatePermission
	}
	if kind := SessionKind(s.kind.Load()); kind != 0 {
		if kind&KindPubSub != 0 {
			met |= gateListening
		}
		if kind&KindMonitor != 0 {
			met |= gateMonitor
		}
	}
	return met
}
