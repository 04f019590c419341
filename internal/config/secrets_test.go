package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// started is what a start with a file and flags makes of them. There is nothing in the environment.
func started(path string, flags [][2]string) (*Config, error) {
	c := applied()
	if err := c.Load(path); err != nil {
		return nil, err
	}
	for _, flag := range flags {
		if err := c.SetFlag(flag[0], flag[1]); err != nil {
			return nil, err
		}
	}
	return c, c.ReadSecrets(func(string) string { return "" })
}

// TestRewriteBesideFlags starts with the file that Rewrite has written behind flags: with these
// flags, and without them.
func TestRewriteBesideFlags(t *testing.T) {
	secret, other := filepath.Join(t.TempDir(), "secret"), filepath.Join(t.TempDir(), "other")
	for path, password := range map[string]string{secret: "of the file", other: "of another file"} {
		if err := os.WriteFile(path, []byte(password+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	show := func(c *Config) string {
		var renames []string
		for _, r := range c.Renames() {
			renames = append(renames, r.Command+">"+r.Name)
		}
		var users []string
		for _, u := range c.UserLines() {
			users = append(users, strings.Join(u.Words, " "))
		}
		return fmt.Sprintf("%s, %s, %s, %s", c.RequirePass.Get(), c.MasterAuth.Get(), strings.Join(renames, " "), strings.Join(users, "; "))
	}
	for name, test := range map[string]struct {
		content           string
		flags             [][2]string
		set               [][2]string // before it is written
		now, with, behind string      // what the values are, and are behind a start with and without the flags
	}{
		"files": {
			flags: [][2]string{{"requirepass-file", secret}, {"masterauth-file", other}},
			now:   "of the file, of another file, , ", with: "of the file, of another file, , ", behind: "of the file, of another file, , ",
		},
		"files, and others set": {
			flags: [][2]string{{"requirepass-file", secret}, {"masterauth-file", other}},
			set:   [][2]string{{"requirepass", "new"}, {"masterauth", ""}},
			now:   "new, , , ", with: "of the file, of another file, , ", behind: "new, , , ",
		},
		"a file beside a password": {
			content: "requirepass old\n",
			flags:   [][2]string{{"requirepass-file", secret}},
			now:     "of the file, , , ", with: "of the file, , , ", behind: "of the file, , , ",
		},
		"a password beside a file": {
			content: "requirepass-file " + secret + "\n",
			flags:   [][2]string{{"requirepass", "given"}},
			now:     "given, , , ", with: "given, , , ", behind: "given, , , ",
		},
		"commands": {
			content: "rename-command get fetch\nrename-command SET put\n",
			flags:   [][2]string{{"rename-command", "set store"}, {"rename-command", "fetch f"}, {"rename-command", "del "}},
			now:     ", , get>fetch set>store fetch>f del>, ", with: ", , get>fetch set>store fetch>f del>, ", behind: ", , get>fetch set>store fetch>f del>, ",
		},
		"users": {
			content: "user zoe on\nuser amy on\n",
			flags:   [][2]string{{"user", "zoe off"}},
			now:     ", , , amy on; zoe off", with: ", , , amy on; zoe off", behind: ", , , amy on; zoe off",
		},
	} {
		path := writeFile(t, test.content)
		c, err := started(path, test.flags)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for range 2 {
			for _, pair := range test.set {
				set(t, c, pair[0], pair[1])
			}
			if got := show(c); got != test.now {
				t.Errorf("%s: in force is %q", name, got)
			}
			written := rewritten(t, c, path)
			for _, again := range []struct {
				flags [][2]string
				want  string
			}{{test.flags, test.with}, {nil, test.behind}} {
				if c, err := started(path, again.flags); err != nil {
					t.Errorf("%s: with the flags %q: %v", name, again.flags, err)
				} else if got := show(c); got != again.want {
					t.Errorf("%s: with the flags %q: %q, want %q of\n%s", name, again.flags, got, again.want, written)
				}
			}
		}
	}
}

// TestBothPasswordAndFile are a mistake where neither goes before the other.
func TestBothPasswordAndFile(t *testing.T) {
	both := [][2]string{{"requirepass", "x"}, {"requirepass-file", "/none/such"}}
	if _, err := started(writeFile(t, "requirepass x\nrequirepass-file /none/such\n"), nil); err == nil {
		t.Error("a file may have both")
	}
	if _, err := started(writeFile(t, ""), both); err == nil {
		t.Error("both may be flags")
	}
}

// TestPasswordThatComesBack: one that was read from a file, changed, written and is the former one
// again, stands in what is written then.
func TestPasswordThatComesBack(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("first"), 0o600); err != nil {
		t.Fatal(err)
	}
	path := writeFile(t, "requirepass-file "+secret+"\n")
	c, err := started(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, password := range []string{"second", "first"} {
		set(t, c, "requirepass", password)
		rewritten(t, c, path)
		again, err := started(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := again.RequirePass.Get(); got != password {
			t.Errorf("a start has %q, and %q was written", got, password)
		}
	}
}

// TestSecretFileBesideInclude: what is written can't say that a password of another file doesn't
// count.
func TestSecretFileBesideInclude(t *testing.T) {
	path := writeFile(t, "include more.conf\n")
	directory := filepath.Dir(path)
	for name, content := range map[string]string{"more.conf": "requirepass x\n", "secret": "y"} {
		if err := os.WriteFile(filepath.Join(directory, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := started(path, [][2]string{{"requirepass-file", filepath.Join(directory, "secret")}})
	if err != nil || c.RequirePass.Get() != "y" {
		t.Fatalf("%v", err)
	}
	if err := c.Rewrite(); err == nil || !strings.Contains(err.Error(), "an included file has requirepass") {
		t.Errorf("%v", err)
	}
}
