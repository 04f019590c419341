package access

import (
	"strings"
	"testing"

	"kedis/redis-tests/launch"
	"kedis/redis-tests/resp"
)

// TestDatabases binds users to databases, in the words of Valkey 9.1
// (https://valkey.io/topics/acl/, "Database permissions"). The texts of refusals are Kedis's.
func TestDatabases(t *testing.T) {
	server := launch.ForTest(t, launch.MustUnderTest(t))
	c := server.MustDial(t)
	must(t, c, "acl", "setuser", "alice", "on", "nopass", "+@all", "~*", "&*", "db=2,3")
	must(t, c, "acl", "setuser", "bob", "on", "nopass", "(+@write +select ~* db=0,1)", "(+@read +select ~* db=2)")
	const no = "-NOPERM this user has no permissions to access one of the databases used"
	const changed = "-NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This command is no longer " +
		"allowed for the following reason: no permission to access one of the databases used"
	users := map[string]*resp.Connection{"alice": as(t, server, "alice"), "bob": as(t, server, "bob"), "default": c}
	for _, step := range []struct{ user, request, reply string }{
		// The first database may be one that the user may not use.
		{"alice", "ping", "+PONG"}, {"alice", "get a", no}, {"alice", "dbsize", no}, {"alice", "keys *", no}, {"alice", "scan 0", no},
		{"alice", "flushdb", no}, {"alice", "publish a b", ":0"}, {"alice", "select 1", no}, {"alice", "select 16", no},
		{"alice", "select x", "-ERR value is not an integer or out of range"},
		{"alice", "select 2", "+OK"}, {"alice", "set a 1", "+OK"}, {"alice", "dbsize", ":1"},
		{"alice", "move a 1", no}, {"alice", "copy a b db 1", no}, {"alice", "copy a b", ":1"}, {"alice", "copy a b db 3", ":1"},
		{"alice", "move a 3", ":1"}, {"alice", "swapdb 2 3", "+OK"}, {"alice", "swapdb 2 4", no}, {"alice", "swapdb 0 1", no}, {"alice", "flushall", no},
		{"alice", "flushdb", "+OK"},
		// A transaction is in the database that it selects.
		{"alice", "multi", "+OK"}, {"alice", "select 3", "+QUEUED"}, {"alice", "set k v", "+QUEUED"}, {"alice", "exec", "[+OK +OK]"},
		{"alice", "multi", "+OK"}, {"alice", "select 0", no}, {"alice", "exec", "-EXECABORT Transaction discarded because of previous errors."},
		{"alice", "multi", "+OK"}, {"alice", "get k", "+QUEUED"}, {"default", "acl setuser alice db=2", "+OK"},
		{"alice", "exec", "[" + changed + "]"}, {"alice", "get k", no}, {"alice", "select 2", "+OK"},
		{"alice", "multi", "+OK"}, {"alice", "set k v", "+QUEUED"}, {"default", "acl setuser alice resetdbs", "+OK"},
		{"alice", "exec", "[" + changed + "]"}, {"alice", "get k", no}, {"alice", "select 2", no}, {"alice", "ping", "+PONG"},
		{"default", "acl setuser alice alldbs", "+OK"}, {"alice", "flushall", "+OK"},
		// A script asks with whatever words it likes.
		{"alice", "select 2", "+OK"}, {"default", "acl setuser alice db=2", "+OK"},
		{"alice", "eval return{redis.acl_check_cmd('select'),redis.acl_check_cmd('swapdb'),redis.acl_check_cmd('swapdb','2')} 0", "[:1 :1 :1]"},
		{"alice", "eval return{redis.acl_check_cmd('swapdb','1'),redis.acl_check_cmd('get'),redis.acl_check_cmd('flushall','x')} 0", "[nil :1 nil]"},
		// Each selector has databases of its own.
		{"bob", "set a 1", "+OK"}, {"bob", "get a", no}, {"bob", "select 2", "+OK"}, {"bob", "get a", "nil"}, {"bob", "set a 1", no}, {"bob", "select 3", no},
		{"bob", "ping", "-NOPERM this user has no permissions to run the 'ping' command"},
		{"default", "acl dryrun bob get a", `"This user has no permissions to access one of the databases used"`},
		{"default", "acl dryrun bob set a 1", "+OK"}, {"default", "acl dryrun bob flushall", `"This user has no permissions to access one of the databases used"`},
	} {
		got := do(t, users[step.user], strings.Fields(step.request)...).String()
		if strings.Join(strings.Fields(got), "") != strings.Join(strings.Fields(step.reply), "") { // an array may stand on several lines
			t.Errorf("%s: %s: %s, want %s", step.user, step.request, got, step.reply)
		}
	}
	log := must(t, c, "acl", "log").String()
	if !strings.Contains(log, `"database"`) {
		t.Errorf("the log says %s", log)
	}
	if list := must(t, c, "acl", "list").String(); !strings.Contains(list, "resetchannels db=0,1 -@all +@write +select") {
		t.Errorf("the users are %s", list)
	}
}
