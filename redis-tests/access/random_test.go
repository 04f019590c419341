package access

import (
	"flag"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"kedis/redis-tests/launch"
	"kedis/redis-tests/resp"
	"kedis/redis-tests/seed"
)

var scale = flag.Int("scale", 1, "how many times as long as in an ordinary run")

// side is a client's connection to one of the servers.
type side struct {
	server   *launch.Server
	c        *resp.Connection
	messages []string // that came unasked
}

func (s *side) dial(t *testing.T) {
	if s.c != nil {
		s.c.Close()
	}
	s.c, s.messages = s.server.MustDial(t), nil
}

// ask returns the reply to a request, "closed" if there is none.
func (s *side) ask(words []string) string {
	s.c.Queue(words...)
	err := s.c.Flush()
	for err == nil {
		var reply resp.Reply
		if reply, err = s.c.Read(); err != nil {
			break
		}
		if len(reply.Elements) < 3 || !strings.HasSuffix(string(reply.Elements[0].Text), "message") {
			return reply.String()
		}
		s.messages = append(s.messages, reply.String())
	}
	return "closed"
}

// someone is a client of both servers.
type someone struct {
	sides  [2]side // redis-server's first
	user   string
	listen bool
}

// crowd is some clients of users by chance, whose rules change by chance.
type crowd struct {
	t       *testing.T
	random  *rand.Rand
	admin   someone
	clients []*someone
	history []string
}

func (c *crowd) pick(of ...string) string { return of[c.random.IntN(len(of))] }

func (c *crowd) join() *someone {
	s := &someone{sides: [2]side{{server: c.admin.sides[0].server}, {server: c.admin.sides[1].server}}}
	c.greet(s)
	return s
}

func (c *crowd) greet(s *someone) {
	s.user, s.listen = "default", false
	for i := range s.sides {
		s.sides[i].dial(c.t)
	}
}

// ask has both servers asked, and compares what they say.
func (c *crowd) ask(s *someone, words ...string) string {
	c.t.Helper()
	want, got := s.sides[0].ask(words), s.sides[1].ask(words)
	c.history = append(c.history, s.user+": "+resp.Line(words)+": "+want)
	if want != got {
		c.t.Fatalf("%s\nit says %s", strings.Join(c.history[max(0, len(c.history)-40):], "\n"), got)
	}
	return want
}

const randomLibrary = "#!lua name=lib\nredis.register_function('run', function(keys, words) return redis.call(unpack(words)) end)\n" +
	"redis.register_function('try', function(keys, words) local r = redis.pcall(unpack(words)) return type(r) == 'table' and r.err or r end)"

// rules are those of a user, some of which give what others take.
func (c *crowd) rules() (rules []string) {
	if c.random.IntN(3) == 0 {
		rules = []string{"reset", "on", "nopass", c.pick("+@all", "-@all"), c.pick("~*", "~r*"), c.pick("&*", "&c1")}
	}
	for range 1 + c.random.IntN(4) {
		switch c.random.IntN(5) {
		case 0:
			rules = append(rules, c.pick("+", "-")+c.pick("get", "set", "mget", "mset", "@all", "@read", "@write", "@keyspace", "@pubsub", "@scripting", "@transaction",
				"@dangerous", "@fast", "config", "config|get", "eval", "fcall", "subscribe", "publish", "sort", "exec", "multi", "copy", "select", "acl|whoami"))
		case 1:
			rules = append(rules, c.pick("~", "%R~", "%W~")+c.pick("r*", "w*", "b*", "*", "r1"))
		case 2:
			rules = append(rules, "&"+c.pick("c*", "c1", "d1", "*"))
		case 3:
			rules = append(rules, c.pick("resetkeys", "resetchannels", "+@all", "-@all", "clearselectors", "off", ">x", "<x", "resetpass", "reset", "+select|1", "+get|r1"))
		default:
			rules = append(rules, c.pick("(+get ~b*)", "(+@write %W~w*)", "(+publish &d*)", "(+@all ~r* &c1)", "+@all", "allkeys", "allchannels"))
		}
	}
	if c.random.IntN(2) == 0 {
		rules = append(rules, "on", "nopass", "+auth")
	}
	return rules
}

func (c *crowd) key() string { return c.pick("r1", "w1", "b1", "x1") }

// command is one on keys and channels, with words that need one right or another.
func (c *crowd) command() []string {
	k, l := c.key(), c.key()
	line := c.pick("get "+k, "set "+k+" 1", "mget "+k+" "+l, "mset "+k+" 1 "+l+" 2", "copy "+k+" "+l+" replace", "sort_ro l by nosort", "sort l by x_* get #",
		"sort l by nosort get r* store "+k+"s", "del "+k, "exists "+k+" "+l, "publish c1 m", "publish d1 m", "spublish c1 m", "config get maxclients",
		"config set maxclients 900", "select 1", "select 0", "ping", "dbsize", "strlen "+k, "append "+k+" x", "set "+k+" v get", "getdel "+k, "type l",
		"lmpop 1 l left", "zunionstore "+k+"z 1 z", "bitfield_ro "+k+" get u8 0", "bitfield "+k+" get u8 0", "xread streams "+k+"s 0", "keys z*", "touch "+k,
		"georadius g 0 0 1 m store "+k, "expire "+k+" 10000", "nosuch", "get", "acl whoami", "config nosuch", "eval_ro \"return redis.call('get', KEYS[1])\" 1 "+k)
	words, err := resp.SplitLine(line)
	if err != nil {
		c.t.Fatal(err)
	}
	return words
}

// request is a client's: a command by itself, in a script or a function, or what leads to others.
func (c *crowd) request() []string {
	switch c.random.IntN(20) {
	case 0, 1:
		return append([]string{"eval", c.pick("return redis.call(unpack(ARGV))", "return {redis.acl_check_cmd('get', KEYS[1]), redis.acl_check_cmd('set', KEYS[1], 'v')}"),
			"1", c.key()}, c.command()...)
	case 2:
		return append([]string{"fcall", c.pick("run", "try"), "1", c.key()}, c.command()...)
	case 3, 4:
		return []string{c.pick("multi", "exec", "exec", "discard", "unwatch")}
	case 5, 6:
		return []string{"auth", c.pick("u0", "u1", "u2"), c.pick("x", "x", "y")}
	case 7:
		return c.list([]string{"subscribe", "c1"}, []string{"psubscribe", "c*"}, []string{"ssubscribe", "c1"}, []string{"unsubscribe", "c1"})
	}
	return c.command()
}

func (c *crowd) list(of ...[]string) []string { return of[c.random.IntN(len(of))] }

// step has a user changed or a client ask for something.
func (c *crowd) step() {
	user := c.pick("u0", "u1", "u2")
	switch n := c.random.IntN(100); {
	case n < 16:
		c.ask(&c.admin, slices.Concat([]string{"acl", "setuser", user}, c.rules())...)
		c.restart(func(s *someone) bool { return s.listen && s.user == user })
	case n < 18:
		if c.ask(&c.admin, "acl", "deluser", user) == ":1" {
			c.restart(func(s *someone) bool { return s.user == user })
		}
	case n < 20:
		c.compareLogs()
	default:
		c.turn(c.clients[c.random.IntN(len(c.clients))])
	}
}

func (c *crowd) turn(s *someone) {
	words := c.request()
	switch n := c.random.IntN(4); {
	case n == 0 && s.listen: // with RESP2 it may do little else
		words = []string{"reset"}
	case n == 0 && s.user == "default":
		words = []string{"auth", c.pick("u0", "u1", "u2"), "x"}
	}
	said := c.ask(s, words...)
	if words[0] == "reset" && said != "closed" {
		c.compareMessages(s)
		s.user, s.listen = "default", false
	}
	if words[0] == "auth" && said == "+OK" {
		s.user = words[1]
	}
	if strings.HasSuffix(words[0], "subscribe") && said[0] != '-' {
		s.listen = true
	}
}

// restart ends clients whose user was changed. Redis disconnects fewer of them, and none that Kedis
// lets stay. What they were sent is compared.
func (c *crowd) restart(who func(*someone) bool) {
	for _, s := range c.clients {
		if !who(s) {
			continue
		}
		oracle, underTest := &s.sides[0], &s.sides[1]
		if oracle.ask([]string{"reset"}) != "closed" {
			if underTest.ask([]string{"reset"}) != "closed" {
				c.compareMessages(s)
			}
		} else if err := untilClosed(underTest.c); err != nil {
			c.t.Fatalf("%s\nthe connection stays: %v", strings.Join(c.history[max(0, len(c.history)-40):], "\n"), err)
		}
		c.greet(s)
	}
}

func (c *crowd) compareMessages(s *someone) {
	want, got := s.sides[0].messages, s.sides[1].messages
	if !slices.Equal(want, got) {
		c.t.Fatalf("%s\nthe messages are %q, want %q", strings.Join(c.history[max(0, len(c.history)-40):], "\n"), got, want)
	}
	s.sides[0].messages, s.sides[1].messages = nil, nil
}

// untilClosed reads until there is nothing more to come; it fails when that lasts.
func untilClosed(c *resp.Connection) error {
	for {
		_, err := c.Read()
		if timeout, ok := err.(interface{ Timeout() bool }); ok && timeout.Timeout() {
			return err
		}
		if err != nil {
			return nil
		}
	}
}

// compareLogs compares what stands in ACL LOG but numbers and times.
func (c *crowd) compareLogs() {
	var said [2]string
	for i := range said {
		reply := do(c.t, c.admin.sides[i].c, "acl", "log", "100")
		for _, entry := range reply.Elements {
			for at := 0; at+1 < len(entry.Elements); at += 2 {
				switch string(entry.Elements[at].Text) {
				case "count", "reason", "context", "object", "username":
					said[i] += " " + entry.Elements[at+1].String()
				case "client-info":
					_, user, _ := strings.Cut(string(entry.Elements[at+1].Text), " user=")
					said[i] += " " + strings.Fields(user)[0] + "\n"
				}
			}
		}
	}
	if said[0] != said[1] {
		c.t.Fatalf("%s\nthe log is\n%s, want\n%s", strings.Join(c.history[max(0, len(c.history)-40):], "\n"), said[1], said[0])
	}
}

// TestClientsOfUsers has clients ask for what they may do and may not, while their users are
// changed, beside redis-server: by themselves, in transactions, in scripts and functions.
func TestClientsOfUsers(t *testing.T) {
	oracle, underTest := launch.Pair(t)
	c := &crowd{t: t, random: rand.New(rand.NewPCG(seed.Of(t), 1)), admin: someone{sides: [2]side{{server: oracle}, {server: underTest}}}}
	c.greet(&c.admin)
	c.ask(&c.admin, "config", "set", "acllog-max-len", "100")
	c.ask(&c.admin, "function", "load", randomLibrary)
	c.ask(&c.admin, "rpush", "l", "2", "1")
	for range 4 {
		c.clients = append(c.clients, c.join())
	}
	for range 2500 * *scale {
		c.step()
	}
	c.compareLogs()
	c.restart(func(*someone) bool { return true })
	denied := 0
	for _, said := range c.history {
		if strings.Contains(said, "permission") {
			denied++
		}
	}
	if denied < len(c.history)/20 {
		t.Errorf("of %d requests only %d were denied", len(c.history), denied)
	}
}
