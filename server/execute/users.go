package execute

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"kedis/internal/config"
	"kedis/internal/resp"
	"kedis/server/access"
)

// initAccess makes the default user, with the password that is configured.
func (e *Engine) initAccess() {
	c := e.Config
	e.Denials = access.NewLog(c.ACLLogMaxLen.Get)
	e.Users = access.NewUsers(e.Table.Vocabulary, func() bool { return c.ACLPubSubDefault.Get() == config.AllChannels }, e.Store.Databases())
	e.Users.SetDefaultPassword(c.RequirePass.Get())
	c.OnChange("requirepass", func() error {
		e.Users.SetDefaultPassword(c.RequirePass.Get())
		return nil
	})
}

// NewClient makes the session of a client who hasn't said who it is.
func (e *Engine) NewClient(peer Peer) *Session {
	s := NewSession(peer, false)
	e.SignOut(s)
	return s
}

// SignOut makes a session the default user's, as that of a new client is.
func (e *Engine) SignOut(s *Session) {
	s.setUser(e.Users.Default(), e.Users.Default().Open())
}

// SignIn makes a session a user's whose name and password are given; false if they aren't a user's.
func (e *Engine) SignIn(s *Session, name, password []byte) bool {
	user := e.Users.Authenticate(name, password)
	if user == nil {
		return false
	}
	s.setUser(user, true)
	if user.Gone() { // whoever deleted the user may not have seen this session
		e.SignOut(s)
		return false
	}
	return true
}

// SignInCertified makes a session the first enabled user's of some names that a client's
// certificate has. Without one the session stays as it is, and that is noted.
func (e *Engine) SignInCertified(s *Session, names []string) {
	for _, name := range names {
		if user := e.Users.Get(name); user != nil && user.Enabled() {
			s.setUser(user, true)
			if !user.Gone() { // whoever deleted the user may not have seen this session
				return
			}
			e.SignOut(s)
		}
	}
	e.Denials.Add(access.Entry{Reason: access.DeniedCertificate, Context: atTop, Username: names[0], Client: e.Describe(s, nil)}, time.Now())
}

func (s *Session) setUser(user *access.User, authenticated bool) {
	s.User, s.Authenticated = user, authenticated
	s.user.Store(user)
	s.takeRules()
}

// takeRules notes what the user may do now. The requests inside of another one are judged by what
// was noted when that began: if the rules change meanwhile, all of it is done, or nothing.
func (s *Session) takeRules() {
	if s.User != nil {
		s.rules = s.User.Rules()
	}
}

// ShownUser is who the session is, for others; nil for who may do everything.
func (s *Session) ShownUser() *access.User { return s.user.Load() }

// AuthenticationRequired tells that a session has to authenticate before anything else.
func (e *Engine) AuthenticationRequired(s *Session) bool {
	return !s.Authenticated && s.User != nil && !e.Users.Default().Open()
}

// UserChanged ends at once what clients may do no longer, whose user was changed or deleted. Who
// has changed it still gets a reply, and what follows in the same request is judged anew.
func (e *Engine) UserChanged(user *access.User, by *Session) {
	if by != nil {
		by.takeRules()
	}
	for _, s := range e.Clients.All() {
		if s.ShownUser() != user {
			continue
		}
		if !e.mayStay(s, user) {
			e.Dismiss(s, by)
		} else if blocked := s.blocked.Load(); blocked != nil {
			e.endRefused(blocked)
		}
	}
}

// Dismiss closes a client's connection; that of the client who asks for it when there is a reply.
func (e *Engine) Dismiss(s, by *Session) {
	if s == by {
		s.CloseAfterReply()
	} else {
		e.kill(s)
	}
}

// kill closes a session's connection, from anywhere. As in Redis, nobody finds it among the clients
// from then on, though its reactor closes it a moment later, and nothing is handed to it. A request
// of it that doesn't have its locks yet won't be executed, and one that only reads, on a worker,
// ends.
func (e *Engine) kill(s *Session) {
	s.CloseAfterReply() // before it may be seen that a request of it isn't executed
	s.killed.Store(true)
	s.SetUnwanted(true)
	s.Peer.Close()
	e.Clients.Remove(s)
}

// cameTooLate reports whether a request has its locks only now that its client was killed: others,
// who know that, may have had them meanwhile. What a primary has sent is executed all the same,
// since the link that follows goes on behind it.
func (b *Batch) cameTooLate(s *Session) bool { return s.Killed() && !b.repeat.applying }

// endRefused ends a client's wait for something that it may not do any longer. Who is about to
// serve the client asks itself.
func (e *Engine) endRefused(blocked *Blocked) {
	if !blocked.state.CompareAndSwap(blockedFree, blockedReserved) {
		return
	}
	if err := e.refusal(blocked); err != nil {
		blocked.failure = err.Error()
		blocked.answer = func(reply *resp.Writer) { reply.Error(blocked.failure) }
		blocked.state.Store(blockedEnded)
		blocked.session.Peer.Unblock(blocked)
		return
	}
	blocked.release()
}

// refusal is nil, or why a client that waits may not do any longer what it waits for. The wait is
// reserved.
func (e *Engine) refusal(blocked *Blocked) error {
	s, r := blocked.session, blocked.request
	user := s.ShownUser()
	if user == nil || user.Unrestricted() {
		return nil
	}
	why, index := user.Rules().Check(r)
	if why == access.Permitted {
		return nil
	}
	e.deny(s, r, why, index, user.Name(), atTop)
	return refused(why, r)
}

// mayStay reports whether a client may go on with what it is at: listening to channels, following,
// watching others, or being told of all keys with a prefix. What it asks for next is checked then.
func (e *Engine) mayStay(s *Session, user *access.User) bool {
	rules := user.Rules()
	switch {
	case user.Gone():
		return false
	case rules.Unrestricted():
		return true
	case s.Is(KindMonitor) && !e.mayRun(rules, "monitor"):
		return false
	case s.Is(KindReplica) && !e.mayRun(rules, "psync", "sync"):
		return false
	case s.toldOfPrefixes() && !e.mayRun(rules, "client|tracking"):
		return false
	}
	return !s.Is(KindPubSub) || e.Listeners.permitted(s, rules)
}

// mayRun reports whether rules allow one of some commands.
func (e *Engine) mayRun(rules *access.Rules, names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		command, _ := e.Table.LookupEffect(bytes.Split([]byte(name), []byte("|")))
		return rules.MayRun(command.number)
	})
}

// permitted reports whether rules allow all that a session listens to.
func (l *listeners) permitted(s *Session, rules *access.Rules) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for kind, names := range s.listening.names {
		for name := range names {
			if !rules.MayListen([]byte(name), ListenKind(kind) == PatternKind) {
				return false
			}
		}
	}
	return true
}

// CheckBegun closes the connection of a session that has begun to listen, watch or follow, which
// its user was just forbidden: who changed the user may not have seen it begin.
func (e *Engine) CheckBegun(s *Session) {
	if s.User != nil && !e.mayStay(s, s.User) {
		e.kill(s)
	}
}

// BeginUsers makes the users whom the configuration names, before anybody can connect.
func (e *Engine) BeginUsers() error {
	c := e.Config
	var lines []access.Line
	for _, line := range c.UserLines() {
		lines = append(lines, access.Line{Place: line.Place, Words: line.Words})
	}
	if c.ACLFile.Get() != "" {
		if len(lines) > 0 {
			return fmt.Errorf("%s: users stand in the configuration, and an aclfile is named: define them in one of both places", lines[0].Place)
		}
		return e.LoadUsers(nil)
	}
	disabled, err := e.Users.Configure(lines)
	for _, name := range disabled {
		e.Logger.Info("a user is disabled, since the line has no 'on'", "user", name)
	}
	c.KeepUsers(e.Users.SaidLines)
	return err
}

// LoadUsers replaces the users by those of the aclfile, on behalf of a session or nobody.
func (e *Engine) LoadUsers(by *Session) error {
	changed, err := e.Users.Load(e.userFile(), e.Config.ACLFile.Get())
	for _, user := range changed {
		e.UserChanged(user, by)
	}
	return err
}

// SaveUsers writes the users to the aclfile.
func (e *Engine) SaveUsers() error { return e.Users.Save(e.userFile()) }

func (e *Engine) userFile() string {
	name := e.Config.ACLFile.Get()
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(e.Config.Dir.Get(), name)
}
