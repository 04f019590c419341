package metrics

import (
	"math"
	"slices"
	"strings"
	"testing"

	"kedis/internal/oracle"
)

func TestFields(t *testing.T) {
	info := Info{
		{"Server", false, func(f *Fields) {
			f.Text("version", "7.2.0")
			f.Int("port", -1)
			f.Bool("yes", true)
			f.Bool("no", false)
			f.Text("forged", "a\r\nb:1")
		}},
		{"Empty", false, func(*Fields) {}},
		{"Stats", false, func(f *Fields) {
			f.Float("rate", 1.5, 2)
			f.Percent("share", 99.905)
			f.Size("memory", 1170208)
			f.Custom("db0", func(dst []byte) []byte { return append(dst, "keys=1"...) })
		}},
	}
	const want = "before# Server\r\nversion:7.2.0\r\nport:-1\r\nyes:1\r\nno:0\r\nforged:a  b:1\r\n\r\n" +
		"# Empty\r\n\r\n" +
		"# Stats\r\nrate:1.50\r\nshare:99.91%\r\nmemory:1170208\r\nmemory_human:1.12M\r\ndb0:keys=1\r\n"
	if got := string(info.Append([]byte("before"))); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestSizesAsRedis: the oracle shows maxmemory both ways.
func TestSizesAsRedis(t *testing.T) {
	server := oracle.Start(t)
	for _, size := range []int64{0, 1, 1023, 1024, 1025, 1<<20 - 1, 1 << 20, 1170208, 1<<30 - 1, 25276514304, 1 << 40, 1<<50 - 1, 1 << 50, 1 << 60, math.MaxInt64} {
		server.Do("CONFIG", "SET", "maxmemory", size)
		_, after, _ := strings.Cut(server.Do("INFO", "memory").(string), "maxmemory_human:")
		theirs, _, _ := strings.Cut(after, "\r\n")
		if got := humanSize(size); got != theirs {
			t.Errorf("%d: %s, Redis has %s", size, got, theirs)
		}
	}
}

func headings(reply string) []string {
	var names []string
	for line := range strings.Lines(reply) {
		if name, found := strings.CutPrefix(line, "# "); found {
			names = append(names, strings.TrimRight(name, "\r\n"))
		}
	}
	return names
}

// TestSectionsAsRedis asks the oracle, and an Info with the oracle's sections, for sections in many
// ways.
func TestSectionsAsRedis(t *testing.T) {
	server := oracle.Start(t)
	everything := headings(server.Do("INFO", "everything").(string))
	usual := headings(server.Do("INFO").(string))
	if len(everything) < 12 || len(usual) < 9 {
		t.Fatalf("everything is %v, the default is %v", everything, usual)
	}
	var info Info
	for _, name := range everything {
		info = append(info, Section{name, !slices.Contains(usual, name), func(*Fields) {}})
	}
	for _, words := range []string{
		"", "default", "DEFAULT", "everything", "Everything", "server", "SERVER", "nosuch", "keyspace server", "server server",
		"commandstats", "commandstats default", "default server", "nosuch cpu", "default everything", "latencystats nosuch commandstats",
	} {
		command, arguments := []any{"INFO"}, [][]byte(nil)
		for word := range strings.FieldsSeq(words) {
			command, arguments = append(command, word), append(arguments, []byte(word))
		}
		theirs := server.Do(command...).(string)
		ours := string(info.Append(nil, arguments...))
		if !slices.Equal(headings(ours), headings(theirs)) {
			t.Errorf("INFO %s: %v, Redis has %v", words, headings(ours), headings(theirs))
		}
		if (ours == "") != (theirs == "") || strings.HasSuffix(ours, "\r\n") != strings.HasSuffix(theirs, "\r\n") {
			t.Errorf("INFO %s: %q, Redis has %q", words, ours, theirs)
		}
	}
}
