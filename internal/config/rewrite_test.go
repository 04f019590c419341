package config

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// loaded is a Config with a file of that content.
func loaded(t *testing.T, content string) (*Config, string) {
	t.Helper()
	c, path := applied(), writeFile(t, content)
	if err := c.Load(path); err != nil {
		t.Fatal(err)
	}
	return c, path
}

func rewritten(t *testing.T, c *Config, path string) string {
	t.Helper()
	if err := c.Rewrite(); err != nil {
		t.Fatal(err)
	}
	return readFile(t, path)
}

func TestRewriteKeepsWhatItCan(t *testing.T) {
	c, path := loaded(t, "# head\n\n\n  # indented\nport 7000\n\ninclude none*.conf\n# port 1\nhz 20 \n")
	set(t, c, "hz", "30")
	set(t, c, "timeout", "5")
	set(t, c, "checkpoint-dir", "a\tb")
	const want = "# head\n\n\n  # indented\nport 7000\n\ninclude none*.conf\n# port 1\nhz 30\n\n" +
		marker + "\ntimeout 5\ncheckpoint-dir \"a\\tb\"\n"
	if got := rewritten(t, c, path); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	set(t, c, "timeout", "0")
	set(t, c, "maxclients", "9")
	set(t, c, "memory-tier", "2mb")
	want2 := strings.Replace(want, "timeout 5", "timeout 0", 1) + "maxclients 9\nmemory-tier 2mb\n"
	if got := rewritten(t, c, path); got != want2 {
		t.Errorf("%q, want %q", got, want2)
	}
	again := New()
	if err := again.Load(path); err != nil {
		t.Fatal(err)
	}
	if again.CheckpointDir.Get() != "a\tb" || again.Timeout.Get() != 0 || again.MemoryTier.Get().Bytes != 2<<20 {
		t.Error("what was rewritten reads differently")
	}
}

func TestRewriteDropsRepeatedLines(t *testing.T) {
	c, path := loaded(t, "hz 20\n# between\nHZ 30\nclient-output-buffer-limit pubsub 1 1 1\nport 1\n")
	const want = "hz 30\n# between\nclient-output-buffer-limit normal 0 0 0\n" +
		"client-output-buffer-limit replica 256mb 64mb 60\nclient-output-buffer-limit pubsub 1 1 1\nport 1\n"
	if got := rewritten(t, c, path); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestRewriteOverridesIncludes: the option's own line stands before an include that sets it too.
func TestRewriteOverridesIncludes(t *testing.T) {
	c, path := loaded(t, "hz 20\ninclude more*.conf\n")
	if err := os.WriteFile(filepath.Join(filepath.Dir(path), "more.conf"), []byte("hz 30\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	set(t, c, "hz", "40")
	first := rewritten(t, c, path)
	if again := rewritten(t, c, path); again != first {
		t.Errorf("%q the second time, %q the first", again, first)
	}
	again := New()
	if err := again.Load(path); err != nil {
		t.Fatal(err)
	}
	if again.HZ.Get() != 40 {
		t.Errorf("hz is %d after\n%s", again.HZ.Get(), first)
	}
}

// TestRewriteLeavesIncludedRenames as Redis does: lines of included files, and edits of them, stay,
// and come into no other file.
func TestRewriteLeavesIncludedRenames(t *testing.T) {
	path := writeFile(t, "rename-command DEBUG \"\"\ninclude first.conf\nrename-command FLUSHALL all\ninclude last*.conf\nhz 20\n")
	include := func(name, content string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(filepath.Dir(path), name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const first = "rename-command FLUSHDB one\nrename-command GET fetch\ninclude within.conf\n"
	include("first.conf", first)
	include("last.conf", "rename-command SWAPDB swap\n")
	include("within.conf", "")
	c, err := started(path, [][2]string{{"rename-command", "get take"}, {"rename-command", "del remove"}})
	if err != nil {
		t.Fatal(err)
	}
	set(t, c, "hz", "30")
	const own = "rename-command DEBUG \"\"\ninclude first.conf\nrename-command FLUSHALL all\nrename-command del remove\ninclude last*.conf\nhz 30\n"
	for range 2 {
		if got := rewritten(t, c, path); got != own {
			t.Errorf("%q, want %q", got, own)
		}
		include("within.conf", "rename-command SORT order\n") // for the next start
	}
	if got := readFile(t, filepath.Join(filepath.Dir(path), "first.conf")); got != first {
		t.Errorf("the included file is %q", got)
	}
	again, err := started(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, r := range again.Renames() {
		names = append(names, r.Command+">"+r.Name)
	}
	const want = "DEBUG> FLUSHDB>one GET>fetch SORT>order FLUSHALL>all del>remove SWAPDB>swap"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("behind a start: %s, want %s", got, want)
	}
	include("first.conf", "rename-command flushall two\n")
	if err := c.Rewrite(); err == nil || !strings.Contains(err.Error(), "rename-command of FLUSHALL") {
		t.Errorf("with a line in both files: %v", err)
	}
	if got := readFile(t, path); got != own {
		t.Errorf("what was refused has written %q", got)
	}
}

// TestRewriteKeepsLinesThatMeanNothing: a file may have been edited since it was loaded.
func TestRewriteKeepsLinesThatMeanNothing(t *testing.T) {
	c, path := loaded(t, "hz 20\n")
	if err := os.WriteFile(path, []byte("nosuch 1\n\"unbalanced\nport abc\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	const want = "nosuch 1\n\"unbalanced\nport 6379\n\n" + marker + "\nhz 20\n"
	if got := rewritten(t, c, path); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestRewriteMakesTheFileAnew(t *testing.T) {
	c, path := loaded(t, "hz 20\n")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if got, want := rewritten(t, c, path), "\n"+marker+"\nhz 20\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestRewriteKeepsModeAndLink(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o022))
	_, path := loaded(t, "hz 20\n")
	link := filepath.Join(filepath.Dir(path), "link.conf")
	if err := os.Symlink("kedis.conf", link); err != nil {
		t.Fatal(err)
	}
	c := applied()
	if err := c.Load(link); err != nil {
		t.Fatal(err)
	}
	set(t, c, "hz", "21")
	if got := rewritten(t, c, path); got != "hz 21\n" {
		t.Errorf("%q", got)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link was replaced: %v", err)
	}
	if files, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".*")); err != nil || len(files) > 0 {
		t.Errorf("left behind: %v, %v", files, err)
	}
}

// TestRewriteLeavesModesAsRedis: 0644 less the umask, and never what the old file allowed nobody.
func TestRewriteLeavesModesAsRedis(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0))
	const gone = 0
	for _, test := range []struct {
		umask         int
		before, after fs.FileMode
	}{
		{0o022, 0o600, 0o600}, {0o022, 0o640, 0o640}, {0o022, 0o644, 0o644}, {0o022, 0o666, 0o644}, {0o022, gone, 0o644},
		{0o077, 0o644, 0o600}, {0o077, gone, 0o600}, {0o027, 0o604, 0o600}, {0o027, 0o666, 0o640}, {0o027, gone, 0o640},
	} {
		syscall.Umask(test.umask)
		c, path := loaded(t, "hz 20\n")
		change := os.Remove
		if test.before != gone {
			change = func(path string) error { return os.Chmod(path, test.before) }
		}
		if err := change(path); err != nil {
			t.Fatal(err)
		}
		rewritten(t, c, path)
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode() != test.after {
			t.Errorf("umask %03o: %v becomes %v, want %v", test.umask, test.before, info.Mode(), test.after)
		}
	}
}

// TestRewriteWritesWhatWasConfigured: another process may have room for it.
func TestRewriteWritesWhatWasConfigured(t *testing.T) {
	const option = "rocksdb-max-open-files"
	for content, want := range map[string]string{"hz 20\n": "hz 20\n", option + " -1\nhz 20\n": option + " -1\nhz 20\n"} {
		c, path := loaded(t, content)
		if err := c.Fit(option, "56"); err != nil {
			t.Fatal(err)
		}
		if got := c.RocksDBMaxOpenFiles.Get(); got != 56 {
			t.Errorf("%d are in force", got)
		}
		if got := rewritten(t, c, path); got != want {
			t.Errorf("%q becomes %q", content, got)
		}
		set(t, c, option, "56")
		if got := rewritten(t, c, path); !strings.Contains(got, option+" 56\n") {
			t.Errorf("with a value that was set %q becomes %q", content, got)
		}
	}
	c, path := loaded(t, option+" 500\n")
	if err := c.SetFlag(option, "-1"); err != nil {
		t.Fatal(err)
	}
	if err := c.Fit(option, "56"); err != nil {
		t.Fatal(err)
	}
	if got := rewritten(t, c, path); got != option+" -1\n" {
		t.Errorf("behind a flag: %q", got)
	}
	if err := c.Fit(option, "1"); err == nil || c.RocksDBMaxOpenFiles.Get() != 56 {
		t.Errorf("a value that may not be: %v", err)
	}
}

func TestRewriteErrors(t *testing.T) {
	if err := New().Rewrite(); err == nil || err.Error() != "The server is running without a config file" {
		t.Errorf("%v", err)
	}
	c, path := loaded(t, "hz 20\n")
	if err := os.RemoveAll(filepath.Dir(path)); err != nil {
		t.Fatal(err)
	}
	if err := c.Rewrite(); err == nil || !strings.HasPrefix(err.Error(), "Rewriting config file: ") {
		t.Errorf("%v", err)
	}
}

func FuzzWords(f *testing.F) {
	for _, seed := range []string{"", "a b", `"a\x41\n" 'b\'' c"d"`, `"`, `'\`, `"\x4`, "\x00\xff\"\\"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if words, err := splitWords(text); err == nil && len(words) > len(text) {
			t.Errorf("%q: %q", text, words)
		}
		words, err := splitWords(quote(text) + " " + quote(text))
		if err != nil || len(words) != 2 || words[0] != text || words[1] != text {
			t.Errorf("%q came back as %q, %v", text, words, err)
		}
	})
}
