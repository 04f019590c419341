package access

import (
	"strings"
	"testing"
)

// testVocabulary has two commands, a container and what is in it.
func testVocabulary() *Vocabulary {
	return NewVocabulary([]string{"read", "write"}, []Command{
		{"get", 1}, {"set", 2}, {"config", 0}, {"config|get", 0}, {"config|set", 2}, {"select", 0}})
}

func testUsers() *Users { return NewUsers(testVocabulary(), func() bool { return false }, 16) }

// testRequest is a request on keys.
type testRequest struct {
	command   int
	words     []string
	needs     Permission
	channels  bool
	databases []int
}

func (r *testRequest) CommandNumber() int { return r.command }
func (r *testRequest) Word(place int) []byte {
	if place >= len(r.words) {
		return nil
	}
	return []byte(r.words[place])
}
func (r *testRequest) Keys() int {
	if r.channels {
		return 0
	}
	return len(r.words) - 1
}
func (r *testRequest) Key(number int) (int, Permission, bool) { return 1 + number, r.needs, true }
func (r *testRequest) Channel(number int) (int, bool, bool) {
	return 1 + number, false, r.channels && number+1 < len(r.words)
}
func (r *testRequest) Database(number int) (int, bool) {
	if number >= len(r.databases) {
		return 0, false
	}
	return r.databases[number], true
}

func set(t *testing.T, users *Users, name string, rules string) *User {
	t.Helper()
	user, err := users.Set(name, strings.Fields(rules))
	if err != nil {
		t.Fatal(err)
	}
	return user
}

// TestWhatRulesSay keeps the order of rules on commands, as Redis 7.2 does (src/acl.c,
// ACLUpdateCommandRules).
func TestWhatRulesSay(t *testing.T) {
	for rules, want := range map[string]string{
		"":                                        "off resetchannels -@all",
		"+@read +@write -set":                     "off resetchannels -@all +@read +@write -set",
		"+get +set +get":                          "off resetchannels -@all +set +get",
		"+@all -config|set -config +CONFIG|get":   "off resetchannels +@all -config +config|get",
		"+config|get +config|set +config":         "off resetchannels -@all +config",
		"+select|1 +select|2 +SELECT|1":           "off resetchannels -@all +select|2 +select|1",
		"+select|1 -select":                       "off resetchannels -@all -select",
		"+@read -@read":                           "off resetchannels -@all -@read",
		"+get +@all":                              "off resetchannels +@all",
		"on nopass ~a (%R~b +get) (&c db=2,0,2)":  "on nopass ~a resetchannels -@all (%R~b resetchannels -@all +get) (resetchannels &c db=0,2 -@all)",
		"resetdbs":                                "off resetchannels resetdbs -@all",
		"db=1 alldbs":                             "off resetchannels -@all",
		"db=3 DB=15,1":                            "off resetchannels db=1,15 -@all",
		"+get ~* on nopass reset":                 "off sanitize-payload resetchannels -@all",
		"~a ~b resetkeys %R~a %W~a &x &y &x (+a)": "",
	} {
		user, err := testUsers().Set("alice", strings.Fields(rules))
		switch {
		case want == "":
			if err == nil {
				t.Errorf("%s: no error", rules)
			}
		case err != nil:
			t.Errorf("%s: %v", rules, err)
		case user.Rules().String() != want:
			t.Errorf("%s: %s, want %s", rules, user.Rules(), want)
		default:
			again := set(t, testUsers(), "alice", user.Rules().String())
			if again.Rules().String() != want {
				t.Errorf("%s makes %s", want, again.Rules())
			}
		}
	}
}

func TestRefusedDatabases(t *testing.T) {
	for _, rule := range []string{"db=", "db=a", "db=-1", "db=16", "db=1,", "db=1,,2", "db=01", "db=+1", "db= 1"} {
		if _, err := testUsers().Set("alice", []string{rule}); err == nil {
			t.Errorf("%s is taken", rule)
		}
	}
}

func TestDatabases(t *testing.T) {
	users := testUsers()
	user := set(t, users, "alice", "+@all ~* &* db=0,3 (+get ~* db=5)")
	for _, try := range []struct {
		command   int
		databases []int
		why       Reason
	}{
		{1, []int{0}, Permitted}, {1, []int{3, 0}, Permitted}, {1, []int{1}, DeniedDatabase}, {1, []int{0, 5}, DeniedDatabase},
		{0, []int{5}, Permitted}, {1, []int{5}, DeniedDatabase}, {1, []int{AllDatabases}, DeniedDatabase}, {5, nil, Permitted},
	} {
		r := &testRequest{command: try.command, words: []string{"x", "key"}, databases: try.databases}
		if why, _ := user.Rules().Check(r); why != try.why {
			t.Errorf("command %d in %d: %d, want %d", try.command, try.databases, why, try.why)
		}
	}
	if user.Unrestricted() || !set(t, users, "alice", "alldbs").Unrestricted() {
		t.Error("who may not use all databases may do everything")
	}
}

// TestCheckDoesNotAllocate: it is asked before every command.
func TestCheckDoesNotAllocate(t *testing.T) {
	rules := set(t, testUsers(), "alice", "+select|0 +@read %R~a* ~b* &c*").Rules()
	r := &testRequest{command: 0, words: []string{"get", "a1", "b1"}, needs: Read}
	if n := testing.AllocsPerRun(100, func() {
		if why, _ := rules.Check(r); why != Permitted {
			t.Fatal(why)
		}
	}); n > 2 { // the test's Word makes them
		t.Errorf("%v allocations", n)
	}
}

func TestUsersAreNotChangedByErrors(t *testing.T) {
	users := testUsers()
	user := set(t, users, "alice", "on ~a +get")
	before := user.Rules()
	if _, err := users.Set("alice", []string{"-get", "~b", "(+set", "~c)", "foo"}); err == nil || user.Rules() != before {
		t.Errorf("%v: %s", err, user.Rules())
	}
	if _, err := users.Set("bob", []string{"foo"}); err == nil || users.Get("bob") != nil {
		t.Error("a user was made by wrong rules")
	}
	changed := set(t, users, "alice", "~b +set")
	if before.String() != "on ~a resetchannels -@all +get" || changed != user {
		t.Errorf("what the user could do before is %s now", before)
	}
}

func TestAuthenticate(t *testing.T) {
	users := testUsers()
	alice := set(t, users, "alice", "on >one >two")
	for _, try := range []struct {
		name, password string
		want           *User
	}{{"alice", "one", alice}, {"alice", "two", alice}, {"alice", "", nil}, {"alice", "three", nil}, {"nobody", "one", nil},
		{DefaultName, "whatever", users.Default()}} {
		if got := users.Authenticate([]byte(try.name), []byte(try.password)); got != try.want {
			t.Errorf("%s with %q: %v", try.name, try.password, got)
		}
	}
	set(t, users, "alice", "off")
	if users.Authenticate([]byte("alice"), []byte("one")) != nil {
		t.Error("who is disabled comes in")
	}
	users.SetDefaultPassword("secret")
	if users.Default().Open() || users.Authenticate([]byte(DefaultName), []byte("secret")) == nil {
		t.Error("requirepass isn't the default user's password")
	}
	if gone := users.Delete("alice"); gone != alice || !gone.Gone() || gone.Rules().MayRun(0) || users.Delete(DefaultName) != nil {
		t.Error("a deleted user goes on")
	}
}
