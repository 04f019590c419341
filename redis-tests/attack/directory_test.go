package attack

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"kedis/redis-tests/launch"
	"kedis/redis-tests/resp"
	"kedis/redis-tests/seed"
)

// dataset is what a data directory has: values of all types, and numbered keys, which were written
// one after the other.
type dataset struct {
	directory string
	stopped   bool // in order; otherwise by a kill
	numbered  int
	digests   map[string]string // of the values
}

const numberedKeys = 300

// made makes a data directory of which a part is in RocksDB and a part in the log, unless the
// server is stopped in order.
func made(t *testing.T, stopped bool) *dataset {
	t.Helper()
	d := &dataset{directory: t.TempDir(), stopped: stopped, numbered: numberedKeys, digests: map[string]string{}}
	server, err := launch.MustUnderTest(t).Start(d.directory, modest...)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Kill()
	v := &target{Server: server, t: t}
	v.payloads()
	c := server.MustDial(t)
	for i := range d.numbered {
		if i == d.numbered/2 {
			if _, err := c.Must("save"); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := c.Must("set", fmt.Sprint("number", i), strconv.Itoa(i)); err != nil {
			t.Fatal(err)
		}
	}
	keys, err := c.Must("keys", "[^n]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys.Strings() {
		d.digests[key] = digestOf(t, c, key)
	}
	if stopped {
		if err := server.Shutdown(); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

func digestOf(t *testing.T, c *resp.Connection, key string) string {
	t.Helper()
	reply, err := c.Do("debug", "digest-value", key)
	if err != nil {
		t.Fatal(err)
	}
	return reply.String()
}

// files are those of the directory that a start reads; checkpoints are not.
func (d *dataset) files(t *testing.T) (paths []string) {
	t.Helper()
	err := filepath.WalkDir(d.directory, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && entry.Name() == "backup" {
			return fs.SkipDir
		}
		if entry.Type().IsRegular() && entry.Name() != "LOCK" {
			relative, err := filepath.Rel(d.directory, path)
			paths = append(paths, relative)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

// damages are ways of changing a file.
var damages = map[string]func(random *rand.Rand, content []byte) []byte{
	"truncated": func(random *rand.Rand, b []byte) []byte { return b[:random.IntN(len(b))] },
	"emptied":   func(_ *rand.Rand, b []byte) []byte { return b[:0] },
	"flipped": func(random *rand.Rand, b []byte) []byte {
		b[random.IntN(len(b))] ^= 1 << random.IntN(8)
		return b
	},
	"zeroed": func(random *rand.Rand, b []byte) []byte {
		at := random.IntN(len(b))
		clear(b[at:min(len(b), at+512)])
		return b
	},
	"longer": func(random *rand.Rand, b []byte) []byte { return append(b, b[random.IntN(len(b)):]...) },
}

// TestDamagedDirectories changes a file of a data directory at a time. The start refuses that and
// says why, or comes up with exactly the data: what can't be read is an error, and not something
// that isn't there. A log whose end a crash may have cut off ends earlier, and the server says so.
func TestDamagedDirectories(t *testing.T) {
	random := rand.New(rand.NewPCG(seed.Of(t), 1))
	refused, same, shorter, failing := 0, 0, 0, 0
	for _, stopped := range []bool{true, false} {
		d := made(t, stopped)
		ways := slices.Sorted(maps.Keys(damages))
		for i, file := range d.files(t) {
			for j, way := range ways {
				if *scale == 1 && (i+j)%(2*len(ways)) != 0 { // one way, for every second file
					continue
				}
				for range max(1, *scale/2) {
					switch outcome := d.try(t, random, file, way); outcome {
					case "refused":
						refused++
					case "same":
						same++
					case "shorter":
						shorter++
					case "failing":
						failing++
					}
				}
			}
		}
	}
	t.Logf("%d starts were refused, %d had all of the data, %d a shorter log, %d answered errors for what was damaged", refused, same, shorter, failing)
	if refused == 0 || same == 0 {
		t.Error("nothing was tried")
	}
}

// try starts a copy of the directory with a file that was damaged in some way.
func (d *dataset) try(t *testing.T, random *rand.Rand, file, way string) (outcome string) {
	t.Helper()
	directory := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(directory, os.DirFS(d.directory)); err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(directory)
	path := filepath.Join(directory, file)
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(content) == 0 {
		return "nothing"
	}
	damaged := damages[way](random, slices.Clone(content))
	if err := os.WriteFile(path, damaged, 0o600); err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("%s %s, %d of %d bytes, stopped=%v", file, way, len(damaged), len(content), d.stopped)
	server, err := launch.MustUnderTest(t).Start(directory, modest...)
	if err != nil {
		d.refusal(t, name, err)
		return "refused"
	}
	defer server.Kill()
	outcome = d.compare(t, name, server)
	if strings.Contains(server.Output(), "panic") {
		t.Errorf("%s: a panic:\n%s", name, server.Output())
	}
	if outcome == "shorter" && (d.stopped || !strings.HasPrefix(file, "binlog") || !strings.Contains(server.Output(), "cut")) {
		t.Errorf("%s: it has less than it had:\n%s", name, server.Output())
	}
	return outcome
}

// refusal asserts that a start ends in order, with a reason.
func (d *dataset) refusal(t *testing.T, name string, err error) {
	t.Helper()
	var failed *launch.StartError
	if !errors.As(err, &failed) {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(failed.Output), "\n")
	if last := lines[len(lines)-1]; failed.ExitCode != 1 || !strings.HasPrefix(last, "kedis: ") || strings.Contains(failed.Output, "goroutine ") {
		t.Errorf("%s: exit code %d, and it says\n%s", name, failed.ExitCode, failed.Output)
	}
}

// compare compares what a server has with what was written.
func (d *dataset) compare(t *testing.T, name string, server *launch.Server) (outcome string) {
	t.Helper()
	c := server.MustDial(t)
	outcome = "same"
	for key, digest := range d.digests {
		switch got := digestOf(t, c, key); {
		case got == digest:
		case isCorruption(got):
			outcome = "failing"
		default:
			t.Errorf("%s: %s is %s, was %s:\n%s", name, key, got, digest, server.Output())
		}
	}
	missing := false
	for i := range d.numbered {
		reply, err := c.Do("get", fmt.Sprint("number", i))
		switch got := string(reply.Text); {
		case err != nil:
			t.Fatalf("%s: %v", name, err)
		case got == strconv.Itoa(i) && !missing:
		case isCorruption(reply.String()):
			outcome = "failing"
		case reply.Null && i >= d.numbered/2:
			missing, outcome = true, "shorter"
		default:
			t.Fatalf("%s: number%d is %s:\n%s", name, i, reply, server.Output())
		}
	}
	return outcome
}

func isCorruption(text string) bool {
	return strings.HasPrefix(text, "-") && strings.Contains(strings.ToLower(text), "corrupt")
}
