package replication

import (
	"fmt"
	"os"
	"testing"

	"kedis/redis-tests/launch"
)

// restarted stops a server cleanly and starts it again.
func restarted(t *testing.T, s *launch.Server) *launch.Server {
	t.Helper()
	if err := s.Shutdown(); err != nil {
		t.Fatal(err)
	}
	s, err := s.Restart()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { launch.End(t, s) })
	return s
}

// TestStoppedPrimary stops a Kedis cleanly, again and again, that is followed by a Redis and by a
// Kedis. Each start begins a history, and both go on with it where they are.
func TestStoppedPrimary(t *testing.T) {
	random := seeded(t)
	primary := launch.ForTest(t, launch.MustUnderTest(t))
	redis, kedis := launch.ForTest(t, launch.MustOracle(t)), launch.ForTest(t, launch.MustUnderTest(t))
	p := newProxy(t, primary.Address)
	newWriter(t, primary, random).write(t, 1000)
	for _, replica := range []*launch.Server{redis, kedis} {
		follow(t, replica, p.port)
		converge(t, primary, replica)
	}
	for range 3 {
		newWriter(t, primary, random).write(t, 200)
		former := info(t, primary, "master_replid")
		primary = restarted(t, primary)
		if id := info(t, primary, "master_replid"); id == former {
			t.Fatalf("after a restart the history still has the id %s, which a copy of the directory would have, too", id)
		}
		if got := info(t, primary, "master_replid2"); got != former {
			t.Fatalf("the history before is %s, and not %s", got, former)
		}
		p.redirect(primary.Address)
		newWriter(t, primary, random).write(t, 200)
		for _, replica := range []*launch.Server{redis, kedis} {
			converge(t, primary, replica)
			equal(t, primary, replica)
		}
		if got := info(t, primary, "sync_full"); got != "0" {
			t.Fatalf("sync_full:%s\n%s", got, primary.Output())
		}
	}
	if got := info(t, kedis, "master_replid"); got != info(t, primary, "master_replid") {
		t.Errorf("the replica's history is %s", got)
	}
}

// TestCopiedDirectory starts a directory that was copied after a clean stop beside the original.
// Who follows one of them, and had not seen anything of its own, goes on with the other; who had
// takes all data, however far each of them has come.
func TestCopiedDirectory(t *testing.T) {
	for _, program := range bothPrograms(t) {
		t.Run(map[bool]string{true: "RedisFollows", false: "KedisFollows"}[program.IsRedis], func(t *testing.T) {
			random := seeded(t)
			first := launch.ForTest(t, launch.MustUnderTest(t))
			newWriter(t, first, random).write(t, 500)
			replica := launch.ForTest(t, program)
			follow(t, replica, first.Port)
			converge(t, first, replica)
			if err := first.Shutdown(); err != nil {
				t.Fatal(err)
			}
			copied := t.TempDir()
			if err := os.CopyFS(copied, os.DirFS(first.Directory)); err != nil {
				t.Fatal(err)
			}
			second, err := first.Program.Start(copied)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { launch.End(t, second) })
			follow(t, replica, second.Port)
			write := func(s *launch.Server, value string, times int) {
				t.Helper()
				c := s.MustDial(t)
				for i := range times {
					do(t, c, "SET", fmt.Sprintf("key:%06d", i), value)
				}
			}
			write(second, "second", 100)
			converge(t, second, replica)
			equal(t, second, replica)
			if got := info(t, second, "sync_full"); got != "0" {
				t.Errorf("a replica that was at the position of the copy had to take all data:\n%s", second.Output())
			}

			if first, err = first.Restart(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { launch.End(t, first) })
			write(first, "other1", 200) // commands as long as the copy's: each position that the replica could ask for is one here, too
			follow(t, replica, first.Port)
			converge(t, first, replica)
			equal(t, first, replica)
			if got := info(t, first, "sync_full"); got != "1" {
				t.Errorf("two primaries from one directory were taken for each other: sync_full:%s\n%s", got, first.Output())
			}
		})
	}
}
