package command

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"kedis/internal/oracle"
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
