package crash

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"kedis/redis-tests/launch"
	"kedis/redis-tests/resp"
)

// parts is how much a function of a writer's library writes between its two keys.
const parts = 20

// versionLibrary is the source of a writer's library, which tells its version and writes two keys
// that belong together, undeclared, and something between them that takes a while.
func versionLibrary(writer, version int) string {
	return fmt.Sprintf(`#!lua name=library%[1]d
redis.register_function('version%[1]d', function() return '%[2]d' end)
redis.register_function('write%[1]d', function(keys, args)
	redis.call('set', 'half:%[1]d:a', '%[2]d')
	for i = 1, %[3]d do redis.call('hset', 'halves:%[1]d', i, '%[2]d') end
	redis.call('set', 'half:%[1]d:b', '%[2]d')
	return '%[2]d'
end)`, writer, version, parts)
}

// TestKilledInFunctions kills the server in the midst of functions, and of transactions that change
// them: each is there as a whole or not at all, what was answered is there, and a library has the
// version that the key says which was written with it.
func TestKilledInFunctions(t *testing.T) {
	server, err := launch.MustUnderTest(t).Start(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	// Another one than the first, when it has been killed.
	defer func() { launch.End(t, server) }()
	const writers = 6
	answered := make([]int, writers)
	for round := range 4 {
		writeUntilKilled(t, server, answered, time.Duration(60*round)*time.Millisecond, changeVersion)
		if server, err = server.Restart(); err != nil {
			t.Fatal(err)
		}
		checkFunctions(t, server, answered)
	}
}

// changeVersion has a writer change its library, together with a key, and call it.
func changeVersion(c *resp.Connection, writer, version int) error {
	number := strconv.Itoa(writer)
	c.Queue("MULTI")
	c.Queue("SET", "version:"+number, strconv.Itoa(version))
	c.Queue("FUNCTION", "LOAD", "REPLACE", versionLibrary(writer, version))
	c.Queue("EXEC")
	c.Queue("FCALL", "write"+number, "0")
	if err := c.Flush(); err != nil {
		return err
	}
	for range 5 {
		if reply, err := c.Read(); err != nil || reply.IsError() {
			return fmt.Errorf("%s, %v", reply, err)
		}
	}
	return nil
}

func checkFunctions(t *testing.T, server *launch.Server, answered []int) {
	t.Helper()
	c := server.MustDial(t)
	text := func(words ...string) string {
		reply, err := c.Must(words...)
		if err != nil {
			t.Fatal(err)
		}
		return string(reply.Text)
	}
	for writer := range answered {
		number := strconv.Itoa(writer)
		version, _ := strconv.Atoi(text("GET", "version:"+number))
		if version < answered[writer] {
			t.Errorf("writer %d: version %d was answered, %d is there", writer, answered[writer], version)
		}
		if version == 0 {
			continue
		}
		if got := text("FCALL", "version"+number, "0"); got != strconv.Itoa(version) {
			t.Errorf("writer %d: the library has version %s, and the key that was written with it %d", writer, got, version)
		}
		whole := text("GET", "half:"+number+":a")
		if other := text("GET", "half:"+number+":b"); other != whole {
			t.Errorf("writer %d: half of a function: %s and %s", writer, whole, other)
		}
		halves, err := c.Must("HVALS", "halves:"+number)
		if err != nil {
			t.Fatal(err)
		}
		different := slices.ContainsFunc(halves.Strings(), func(half string) bool { return strings.Trim(half, `"`) != whole })
		if different || len(halves.Elements) != parts && whole != "" {
			t.Errorf("writer %d: half of a function: %s", writer, halves)
		}
		if written, _ := strconv.Atoi(whole); written < answered[writer] {
			t.Errorf("writer %d: the function of version %d was answered, that of %d is there", writer, answered[writer], written)
		}
		answered[writer], _ = strconv.Atoi(text("FCALL", "write"+number, "0")) // which may not have been called yet
	}
}
