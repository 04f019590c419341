package command

import (
	"slices"
	"strings"

	"kedis/server/execute"
)

const (
	errNotTracking  = Error("ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled")
	errNotOptIn     = Error("ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.")
	errNotOptOut    = Error("ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.")
	errRedirectOnce = Error("ERR A client can only redirect to a single other client")
	errRedirect     = Error("ERR The client ID you want redirect to does not exist")
	errPrefix       = Error("ERR PREFIX option requires BCAST mode to be enabled")
	errBothOptions  = Error("ERR You can't specify both OPTIN mode and OPTOUT mode")
	errBroadcastOpt = Error("ERR OPTIN and OPTOUT are not compatible with BCAST")
	errSwitchBcast  = Error("ERR You can't switch BCAST mode on/off before disabling tracking for this client, " +
		"and then re-enabling it with a different mode.")
	errSwitchOption = Error("ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, " +
		"and then re-enabling it with a different mode.")
)

// clientTracking are the subcommands for clients that keep what they read.
func clientTracking() []Command {
	own := NoScript | Loading | Stale
	return []Command{
		{Name: "getredir", Arity: 2, Flags: own, Categories: CategoryConnection, Run: cmdClientGetRedir,
			Since: "6.0.0", Complexity: "O(1)", Summary: "Returns the id of the connection that is told what this one's cache has to forget."},
		{Name: "trackinginfo", Arity: 2, Flags: own, Categories: CategoryConnection, Run: cmdClientTrackingInfo,
			Since: "6.2.0", Complexity: "O(1)", Summary: "Tells how the server tracks what the client has in its cache."},
		{Name: "tracking", Arity: -3, Flags: own | NoBatch, Categories: CategoryConnection, Run: cmdClientTracking,
			Since: "6.0.0", Complexity: "O(1). Some options may introduce additional complexity.",
			Syntax:  "<ON | OFF> [REDIRECT client-id] [PREFIX prefix [PREFIX prefix ...]] [BCAST] [OPTIN] [OPTOUT] [NOLOOP]",
			Summary: "Says whether the client keeps what it reads, and is to be told when that changes."},
		{Name: "caching", Arity: 3, Flags: own, Categories: CategoryConnection, Run: cmdClientCaching,
			Since: "6.0.0", Complexity: "O(1)", Syntax: "<YES | NO>", Summary: "Says whether the client keeps what the next command reads."},
	}
}

// redirection is who is told for a session: its id, 0 for nobody else, or -1 if the session has no
// cache.
func redirection(s *execute.Session) int64 {
	if tracking := s.Tracking(); tracking != nil {
		return tracking.Redirect
	}
	return -1
}

func cmdClientGetRedir(c *Invocation) error {
	c.Reply.Integer(redirection(c.Session))
	return nil
}

func cmdClientTrackingInfo(c *Invocation) error {
	s := c.Session
	tracking := s.Tracking()
	state := "on"
	if tracking == nil {
		state, tracking = "off", &execute.Tracking{}
	}
	flags := []string{state}
	for _, flag := range []struct {
		name string
		set  bool
	}{
		{"bcast", tracking.Broadcast}, {"optin", tracking.OptIn}, {"caching-yes", tracking.OptIn && s.CachingChosen()},
		{"optout", tracking.OptOut}, {"caching-no", tracking.OptOut && s.CachingChosen()}, {"noloop", tracking.NoLoop},
		{"broken_redirect", s.TrackingBroken()},
	} {
		if flag.set {
			flags = append(flags, flag.name)
		}
	}
	c.Reply.Map(3)
	c.Reply.BulkString("flags")
	c.Reply.Set(len(flags))
	for _, flag := range flags {
		c.Reply.BulkString(flag)
	}
	c.Reply.BulkString("redirect")
	c.Reply.Integer(redirection(s))
	c.Reply.BulkString("prefixes")
	c.Reply.Array(len(tracking.Prefixes))
	for _, prefix := range tracking.Prefixes {
		c.Reply.BulkString(prefix)
	}
	return nil
}

func cmdClientTracking(c *Invocation) error {
	next, err := parseTracking(c)
	if err != nil {
		return err
	}
	on, err := parseSwitch(c.Args[2])
	switch {
	case err != nil:
		return err
	case !on:
		c.Engine.Caching.Stop(c.Session)
	default:
		if err := checkTracking(c.Session.Tracking(), &next); err != nil {
			return err
		}
		c.Engine.Caching.Start(c.Session, next)
		c.Engine.CheckBegun(c.Session)
	}
	c.Reply.OK()
	return nil
}

func parseTracking(c *Invocation) (t execute.Tracking, err error) {
	a := arguments{words: c.Args[3:]}
	for a.more() {
		var prefix, redirect []byte
		switch {
		case a.option("redirect", &redirect):
			if a.err == nil {
				a.err = parseRedirect(c, redirect, &t.Redirect)
			}
		case a.flag("bcast"):
			t.Broadcast = true
		case a.flag("optin"):
			t.OptIn = true
		case a.flag("optout"):
			t.OptOut = true
		case a.flag("noloop"):
			t.NoLoop = true
		case a.option("prefix", &prefix):
			t.Prefixes = append(t.Prefixes, string(prefix))
		default:
			a.fail(ErrSyntax)
		}
	}
	return t, a.err
}

func parseRedirect(c *Invocation, word []byte, id *int64) error {
	if *id != 0 {
		return errRedirectOnce
	}
	n, err := parseInteger(word)
	if err != nil {
		return err
	}
	if to := c.Engine.Clients.Get(n); to == nil || to.Closing() {
		return errRedirect
	}
	*id = n
	return nil
}

// checkTracking is nil, or why a session that tracks in one way, or not at all, can't track in
// another.
func checkTracking(now, next *execute.Tracking) error {
	if !next.Broadcast && len(next.Prefixes) > 0 {
		return errPrefix
	}
	if now == nil {
		now = &execute.Tracking{Broadcast: next.Broadcast}
	}
	switch {
	case now.Broadcast != next.Broadcast:
		return errSwitchBcast
	case next.Broadcast && (next.OptIn || next.OptOut):
		return errBroadcastOpt
	case next.OptIn && next.OptOut:
		return errBothOptions
	case next.OptIn && now.OptOut || next.OptOut && now.OptIn:
		return errSwitchOption
	case !next.Broadcast:
		return nil
	}
	if err := checkPrefixes(now.Prefixes, next.Prefixes); err != nil {
		return err
	}
	if len(next.Prefixes) == 0 && !slices.Contains(now.Prefixes, "") {
		next.Prefixes = []string{""}
	}
	return nil
}

// checkPrefixes refuses prefixes one of which another one begins with, of those that there are, and
// of those that come. As in Redis the error names the first of those that come which overlaps.
func checkPrefixes(now, next []string) error {
	first := firstOverlap(now, next)
	if first == len(next) {
		return nil
	}
	prefix := next[first]
	overlaps := func(other string) bool { return strings.HasPrefix(prefix, other) || strings.HasPrefix(other, prefix) }
	which, others := "an existing", now
	at := slices.IndexFunc(now, overlaps)
	if at < 0 {
		which, others = "another provided", next[first+1:]
		at = slices.IndexFunc(others, overlaps)
	}
	return Errorf("ERR Prefix '%s' overlaps with %s prefix '%s'. Prefixes for a single client must not overlap.",
		execute.UntilZero([]byte(prefix)), which, execute.UntilZero([]byte(others[at])))
}

// firstOverlap is the index of the first prefix of those that come which overlaps with any; their
// number if none does. In order, all that begin with a prefix stand right behind it.
func firstOverlap(now, next []string) int {
	type candidate struct {
		prefix string
		index  int
	}
	all := make([]candidate, 0, len(now)+len(next))
	for i, prefix := range next {
		all = append(all, candidate{prefix, i})
	}
	for _, prefix := range now {
		all = append(all, candidate{prefix, len(next)})
	}
	slices.SortFunc(all, func(a, b candidate) int { return strings.Compare(a.prefix, b.prefix) })
	first, shortest := len(next), 0
	for i := 1; i < len(all); i++ {
		if strings.HasPrefix(all[i].prefix, all[shortest].prefix) {
			first = min(first, all[i].index, all[shortest].index)
		} else {
			shortest = i
		}
	}
	return first
}

func cmdClientCaching(c *Invocation) error {
	tracking := c.Session.Tracking()
	switch {
	case tracking == nil:
		return errNotTracking
	case equalFold(c.Args[2], "yes") && !tracking.OptIn:
		return errNotOptIn
	case equalFold(c.Args[2], "no") && !tracking.OptOut:
		return errNotOptOut
	case !equalFold(c.Args[2], "yes") && !equalFold(c.Args[2], "no"):
		return ErrSyntax
	}
	c.Session.ChooseCaching()
	c.Reply.OK()
	return nil
}
