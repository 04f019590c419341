package execute

import (
	"fmt"
	"path/filepath"
	"slices"

	"kedis/internal/config"
	"kedis/server/access"
)

func (e *Engine) initAccess() {
	c := e.Config
	e.Denials = access.NewLog(c.ACLLogMaxLen.Get)
	e.Users = access.NewUsers(e.Table.Vocabulary, func() bool { return c.ACLPubSubDefault.Get() == config.AllChannels }, e.Store.Databases())
	e.Users.OnChange(e.userChanged)
	e.Users.SetDefaultPassword(c.RequirePass.Get())
	c.OnChange("requirepass", func() error {
		e.Users.SetDefaultPassword(c.RequirePass.Get())
		return nil
	})
}

func (e *Engine) NewClient(peer Peer) *Session {
	s := NewSession(peer, false)
	e.SignOut(s)
	return s
}

func (e *Engine) SignOut(s *Session) {
	s.setUser(e.Users.Default(), e.Users.Default().Open())
}

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

func (s *Session) setUser(user *access.User, authenticated bool) {
	s.User, s.Authenticated = user, authenticated
	s.user.Store(user)
}

func (s *Session) ShownUser() *access.User { return s.user.Load() }

func (e *Engine) AuthenticationRequired(s *Session) bool {
	return !s.Authenticated && s.User != nil && !e.Users.Default().Open()
}

func (e *Engine) userChanged(user *access.User) {
	for _, s := range e.Clients.All() {
		if s.ShownUser() == user && !e.mayStay(s, user) {
			s.Peer.Close()
		}
	}
}

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
	}
	return !s.Is(KindPubSub) || e.Listeners.permitted(s, rules)
}

func (e *Engine) mayRun(rules *access.Rules, names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return rules.MayRun(e.Table.byName[name].number) })
}

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

func (e *Engine) CheckListening(s *Session) {
	if s.User != nil && !e.mayStay(s, s.User) {
		s.Peer.Close()
	}
}

// What follows is how rules look at a request.

func (e *Engine) BeginUsers() error {
	c := e.Config
	var lines []access.Line
	for _, line := range c.UserLines() {
		lines = append(lines, access.Line(line))
	}
	if c.ACLFile.Get() != "" {
		if len(lines) > 0 {
			return fmt.Errorf("%s: users stand in the configuration, and an aclfile is named: define them in one of both places", lines[0].Place)
		}
		return e.LoadUsers()
	}
	disabled, err := e.Users.Configure(lines)
	for _, name := range disabled {
		e.Logger.Info("a user is disabled, since the line has no 'on'", "user", name)
	}
	c.KeepUsers(e.Users.SaidLines)
	return err
}

func (e *Engine) LoadUsers() error {
	return e.Users.Load(e.userFile(), e.Config.ACLFile.Get())
}

func (e *Engine) SaveUsers() error { return e.Users.Save(e.userFile()) }

func (e *Engine) userFile() string {
	name := e.Config.ACLFile.Get()
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(e.Config.Dir.Get(), name)
}
