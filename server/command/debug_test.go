package command

import (
	"fmt"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"kedis/internal/oracle"
	"kedis/server/enginetest"
)

// TestDebugObject compares the length of what DUMP would return with Redis's, for collections that
// are packed and that aren't.
func TestDebugObject(t *testing.T) {
	redis := oracle.Start(t, "--enable-debug-command", "yes")
	engine, _ := newTestEngine(t)
	if err := engine.Config.SetFlag("enable-debug-command", "yes"); err != nil {
		t.Fatal(err)
	}
	client := newTestClient(t, engine)
	both := func(words ...string) (kedis, want string) {
		return client.Do(words...), fmt.Sprint(redis.Do(toAny(words)...))
	}
	both("SET", "string", "12345x")
	for _, size := range []int{3, 3000} {
		for i := range size {
			number, word := fmt.Sprint(i), fmt.Sprintf("w%d", i)
			both("RPUSH", fmt.Sprint("list", size), word)
			both("RPUSH", fmt.Sprint("long", size), strings.Repeat("x", i%5)+word)
			both("SADD", fmt.Sprint("set", size), word)
			both("SADD", fmt.Sprint("integers", size), number)
			both("HSET", fmt.Sprint("hash", size), word, number)
			both("ZADD", fmt.Sprint("sorted", size), number, word)
		}
	}
	told := regexp.MustCompile(`serializedlength:\d+`)
	for _, key := range []string{"string", "list3", "long3", "integers3", "hash3", "sorted3", "list3000", "set3000", "hash3000", "sorted3000"} {
		got, want := both("DEBUG", "OBJECT", key)
		if g, w := told.FindString(got), told.FindString(want); g != w || g == "" {
			t.Errorf("%s: %q, want %q", key, g, w)
		}
	}
	if got, want := both("DEBUG", "OBJECT", "nothing"); strings.TrimSpace(got[1:]) != want {
		t.Errorf("a missing key: %q, want %q", got, want)
	}
}

// TestReloadOnAFullDisk: what can't be brought to disk doesn't end the server.
func TestReloadOnAFullDisk(t *testing.T) {
	engine, log := newTestEngine(t)
	if err := engine.Config.SetFlag("enable-debug-command", "yes"); err != nil {
		t.Fatal(err)
	}
	engine.Server = serverThatStays{t}
	client := newTestClient(t, engine)
	client.Do("SET", "key", "value")
	engine.Store.Attach(&enginetest.Log{Length: log.Length, FailSync: syscall.ENOSPC}, 1)
	if got := client.Do("DEBUG", "RELOAD"); !strings.HasPrefix(got, "-ERR storage: ") {
		t.Errorf("on a full disk: %q", got)
	}
	engine.Store.Attach(log, 1)
	for deadline := time.Now().Add(time.Minute); client.Do("DEBUG", "RELOAD") != "+OK\r\n"; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("there is room, and the store isn't opened anew")
		}
	}
	if got := client.Do("GET", "key"); got != "$5\r\nvalue\r\n" {
		t.Errorf("the key is %q", got)
	}
}

// serverThatStays is one that nothing may end.
type serverThatStays struct{ t *testing.T }

func (s serverThatStays) Shutdown() error {
	s.t.Error("the server ends")
	return nil
}
