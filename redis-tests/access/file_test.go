package access

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kedis/redis-tests/launch"
	"kedis/redis-tests/resp"
)

const userFile = "users.acl"

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o640); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// start starts a server with files in its directory, and tells what it says when it doesn't start.
func start(t *testing.T, program launch.Program, files map[string]string, options ...string) (*launch.Server, string) {
	t.Helper()
	directory := t.TempDir()
	for name, text := range files {
		write(t, filepath.Join(directory, name), text)
	}
	if text, found := files["kedis.conf"]; found {
		write(t, filepath.Join(directory, "kedis.conf"), text)
		program.Line = append(slices.Clone(program.Line), filepath.Join(directory, "kedis.conf"))
	}
	server, err := program.Start(directory, options...)
	var failed *launch.StartError
	if errors.As(err, &failed) {
		return nil, failed.Output
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { launch.End(t, server) })
	return server, ""
}

// admin is a connection of a user who may do everything.
func admin(t *testing.T, server *launch.Server) *resp.Connection {
	t.Helper()
	c := server.MustDial(t)
	must(t, c, "auth", "admin", "secret")
	return c
}

const adminLine = "user admin on >secret ~* &* +@all\n"

// TestFile loads files, right and wrong ones, and saves what they say, beside redis-server.
func TestFile(t *testing.T) {
	var servers []*launch.Server
	var admins []*resp.Connection
	for _, program := range []launch.Program{launch.MustOracle(t), launch.MustUnderTest(t)} {
		server, refusal := start(t, program, map[string]string{userFile: adminLine}, "--aclfile", userFile)
		if refusal != "" {
			t.Fatal(refusal)
		}
		servers, admins = append(servers, server), append(admins, server.MustDial(t)) // 7.0 disconnects all others
	}
	same := func(what string, words ...string) {
		t.Helper()
		want, got := do(t, admins[0], words...).String(), do(t, admins[1], words...).String()
		if want != got {
			t.Errorf("%s: %q: %s, want %s", what, words, got, want)
		}
	}
	same("at the start", "acl", "list")
	for _, text := range []string{
		adminLine + "user alice on nopass ~a* %R~b* &c -@all +get (~x +set)\n\n  \n\tuser bob off\r\n",
		adminLine + "user default off ~* +@all\n",
		adminLine + "user alice on nopass   ~a   +get\n",
		"user alice on\n" + adminLine,
		"# a comment\n" + adminLine,
		adminLine + "alice on\nuser\nUSER bob on\n",
		adminLine + "user a\tb on\n",
		adminLine + "user alice on\nuser alice off\n",
		adminLine + "user alice +nosuch -nosuch +@nosuch ~* ~x &* &y >x #y !z\n",
		adminLine + "user alice ~* ~x\nuser bob <nosuch\nuser carol (+nosuch ~a)\n",
		adminLine + "user alice \"~a b\"\n",
		adminLine + "user alice on #" + strings.Repeat("a1", 32) + " ~a resetkeys ~b -@all\n",
	} {
		for _, server := range servers {
			write(t, filepath.Join(server.Directory, userFile), text)
		}
		same(text, "acl", "load")
		same(text, "acl", "users")
		same(text, "acl", "list")
		same(text, "acl", "save")
		saved, oracles := read(t, filepath.Join(servers[1].Directory, userFile)), read(t, filepath.Join(servers[0].Directory, userFile))
		if saved != oracles {
			t.Errorf("%s is saved as\n%s, want\n%s", text, saved, oracles)
		}
		same(text, "acl", "load")
		same(text, "acl", "list")
	}
	for _, server := range servers {
		if err := os.Remove(filepath.Join(server.Directory, userFile)); err != nil {
			t.Fatal(err)
		}
	}
	same("without a file", "acl", "load")
	same("without a file", "acl", "users")
	same("without a file", "acl", "save")
	same("with the file that was saved", "acl", "load")
	same("with a file", "config", "rewrite")
}

// TestSavedFileKeepsItsMode: it may be for its owner only.
func TestSavedFileKeepsItsMode(t *testing.T) {
	server, _ := start(t, launch.MustUnderTest(t), map[string]string{userFile: adminLine, "real": adminLine}, "--aclfile", userFile)
	path := filepath.Join(server.Directory, userFile)
	if err := errors.Join(os.Remove(path), os.Symlink("real", path), os.Chmod(filepath.Join(server.Directory, "real"), 0o600)); err != nil {
		t.Fatal(err)
	}
	must(t, admin(t, server), "acl", "save")
	link, err := os.Lstat(path)
	if err != nil || link.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link was replaced (%v)", err)
	}
	if file, err := os.Stat(path); err != nil || file.Mode().Perm() != 0o600 {
		t.Errorf("the file's mode is %v (%v)", file.Mode(), err)
	}
	must(t, server.MustDial(t), "ping")
}

// TestNobodyComesInWithoutTheFile: a server whose users can't be read doesn't start.
func TestNobodyComesInWithoutTheFile(t *testing.T) {
	program := launch.MustUnderTest(t)
	for name, refused := range map[string]struct {
		files   map[string]string
		options []string
		says    string
	}{
		"missing":      {nil, []string{"--aclfile", userFile}, "Error loading ACLs, opening file 'users.acl': No such file or directory"},
		"wrong":        {map[string]string{userFile: adminLine + "user alice foo\n"}, []string{"--aclfile", userFile}, "users.acl:2: Syntax error."},
		"empty":        {map[string]string{userFile: "user alice (~a \"\" +get)\n"}, []string{"--aclfile", userFile}, "users.acl:1: Syntax error."},
		"unmatched":    {map[string]string{userFile: "user alice (+get\n"}, []string{"--aclfile", userFile}, "users.acl:1: Unmatched parenthesis"},
		"both":         {map[string]string{userFile: adminLine, "kedis.conf": "user alice on\n"}, []string{"--aclfile", userFile}, "define them in one of both places"},
		"wrong line":   {map[string]string{"kedis.conf": "port 0\nuser alice on +nosuch\n"}, nil, "kedis.conf:2: user alice: \"+nosuch\": Unknown command"},
		"wrong hash":   {map[string]string{"kedis.conf": "user alice on #secret\n"}, nil, "user alice: \"#(redacted)\": The password hash"},
		"twice":        {map[string]string{"kedis.conf": "user alice on\nuser alice off\n"}, nil, "Duplicate user found"},
		"parenthesis":  {map[string]string{"kedis.conf": "user alice (+get\n"}, nil, "unmatched parenthesis"},
		"no name":      {map[string]string{"kedis.conf": "user\n"}, nil, "expected a user's name and rules"},
		"wrong option": {nil, []string{"--user", "alice", "on", "foo"}, "--user: user alice: \"foo\": Syntax error"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, says := start(t, program, refused.files, refused.options...); !strings.Contains(says, refused.says) {
				t.Errorf("it says %q, want %q", says, refused.says)
			}
		})
	}
}

// TestUserLines starts with users in the configuration, changes them, and writes them back.
func TestUserLines(t *testing.T) {
	conf := "requirepass pass\nuser alice on \">a b\" ~a* +get\n" + adminLine
	server, refusal := start(t, launch.MustUnderTest(t), map[string]string{"kedis.conf": conf}, "--user", "bob", "on", "nopass", "(+get", "~x)")
	if refusal != "" {
		t.Fatal(refusal)
	}
	c := server.MustDial(t)
	if got := do(t, c, "ping").String(); got != "-NOAUTH Authentication required." {
		t.Errorf("somebody who hasn't said who it is gets %s", got)
	}
	must(t, c, "auth", "alice", "a b")
	must(t, c, "get", "a1")
	must(t, c, "auth", "pass")
	must(t, c, "acl", "setuser", "carol", "on", ">x", "~*", "-@all", "+@read", "-get", "+config|get")
	must(t, c, "acl", "deluser", "bob")
	before := must(t, c, "acl", "list").String()
	must(t, c, "config", "rewrite")
	text := read(t, filepath.Join(server.Directory, "kedis.conf"))
	if strings.Contains(text, "user default") || strings.Contains(text, "a b") || strings.Count(text, "\nuser ") != 3 {
		t.Errorf("the file is\n%s", text)
	}
	must(t, c, "acl", "setuser", "default", "-debug")
	must(t, c, "config", "rewrite")
	if text := read(t, filepath.Join(server.Directory, "kedis.conf")); !strings.Contains(text, "\nuser default on #") {
		t.Errorf("the file is\n%s", text)
	}
	must(t, c, "acl", "setuser", "default", "+@all")
	must(t, c, "config", "rewrite")
	server.Options = nil
	launch.End(t, server)
	again, err := server.Restart()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { launch.End(t, again) })
	c = again.MustDial(t)
	must(t, c, "auth", "pass")
	if after := must(t, c, "acl", "list").String(); after != before {
		t.Errorf("after a restart the users are\n%s, want\n%s", after, before)
	}
}

// TestFileWithoutDefault: requirepass holds for the default user as long as the file doesn't name
// him. Redis 7.0 lets everybody in.
func TestFileWithoutDefault(t *testing.T) {
	server, _ := start(t, launch.MustUnderTest(t), map[string]string{userFile: adminLine}, "--aclfile", userFile, "--requirepass", "pass")
	c := server.MustDial(t)
	for range 2 {
		if got := do(t, c, "ping").String(); got != "-NOAUTH Authentication required." {
			t.Errorf("somebody who hasn't said who it is gets %s", got)
		}
		must(t, admin(t, server), "acl", "load")
	}
	must(t, c, "auth", "pass")
	must(t, c, "ping")
}
