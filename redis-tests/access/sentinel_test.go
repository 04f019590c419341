package access

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"kedis/redis-tests/launch"
)

// TestSentinelsUser: Sentinel watches a primary as a user who may do what Redis's documentation
// names, and nothing else.
func TestSentinelsUser(t *testing.T) {
	server := launch.ForTest(t, launch.MustUnderTest(t))
	c := server.MustDial(t)
	must(t, c, "acl", "setuser", "watcher", "on", ">secret", "allchannels", "+multi", "+slaveof", "+ping", "+exec", "+subscribe", "+config|rewrite",
		"+role", "+publish", "+info", "+client|setname", "+client|kill", "+script|kill")
	must(t, c, "acl", "setuser", "default", "off")
	directory := t.TempDir()
	file := filepath.Join(directory, "sentinel.conf")
	write(t, file, fmt.Sprintf("sentinel monitor it 127.0.0.1 %d 1\nsentinel auth-user it watcher\nsentinel auth-pass it secret\n", server.Port))
	program := launch.MustOracle(t)
	program.Line = append(slices.Clone(program.Line), file, "--sentinel")
	sentinel, err := program.Start(directory)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { launch.End(t, sentinel) })
	s := sentinel.MustDial(t)
	eventually(t, "Sentinel knows the primary's run id", func() bool {
		fields := must(t, s, "sentinel", "master", "it").Strings()
		return fields[slices.Index(fields, "flags")+1] == "master" && fields[slices.Index(fields, "runid")+1] != ""
	})
	if denied := must(t, c, "acl", "log").Elements; len(denied) > 0 {
		t.Errorf("Sentinel was denied %v", denied)
	}
}
