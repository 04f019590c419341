package crash

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"kedis/redis-tests/launch"
	"kedis/redis-tests/resp"
	seeds "kedis/redis-tests/seed"
)

// TestKilledWhileReaping deletes collections so large that whole table files are removed of them,
// and kills the server meanwhile: what lies beside them stays, and nothing of them comes back.
func TestKilledWhileReaping(t *testing.T) {
	random := rand.New(rand.NewPCG(seeds.Of(t), 0))
	server, err := launch.MustUnderTest(t).Start(t.TempDir(), "--generation-bytes", "1mb", "--memory-tier", "16mb", "--rocksdb-write-buffer-size", "1mb",
		"--rocksdb-target-file-size", "1mb", "--rocksdb-block-cache", "8mb", "--persist-interval", "1s", "--enable-debug-command", "yes")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { launch.End(t, server) }()
	commands := []string{"SADD", "ZADD", "HSET", "RPUSH"}
	for _, command := range commands {
		fillLarge(t, server, command, command+" that stays", 10_000)
	}
	want := ask(t, server, "DEBUG", "DIGEST")
	for range 5 {
		fillLarge(t, server, commands[random.IntN(len(commands))], "large", 150_000)
		if random.IntN(2) == 0 {
			time.Sleep(time.Second) // so that it comes to files
		}
		ask(t, server, "DEL", "large")
		time.Sleep(time.Duration(random.Int64N(int64(3 * time.Second))))
		server = killed(t, server, want)
	}
	fillLarge(t, server, "SADD", "large", 150_000)
	ask(t, server, "DEL", "large")
	deadline := time.Now().Add(time.Minute)
	for reaped := 0; reaped < 150_000; time.Sleep(50 * time.Millisecond) {
		_, rest, _ := strings.Cut(ask(t, server, "INFO", "tier"), "tier_reaped_elements:")
		digits, _, _ := strings.Cut(rest, "\r\n")
		reaped, _ = strconv.Atoi(digits)
		if time.Now().After(deadline) {
			t.Fatalf("%d elements are reaped", reaped)
		}
	}
	if got := ask(t, server, "DEBUG", "DIGEST"); got != want {
		t.Errorf("the digest is %s, and was %s", got, want)
	}
}

// fillLarge adds so many elements to a collection.
func fillLarge(t *testing.T, server *launch.Server, command, key string, elements int) {
	t.Helper()
	connection := server.MustDial(t)
	defer connection.Close()
	for from := 0; from < elements; from += 500 {
		line := []string{command, key}
		for i := range 500 {
			element := fmt.Sprintf("%s:%d:%040d", key, from+i, 0)
			switch command {
			case "ZADD":
				line = append(line, strconv.Itoa(from+i))
			case "HSET":
				line = append(line, element)
			}
			line = append(line, element)
		}
		if reply, err := connection.Do(line...); err != nil || reply.IsError() {
			t.Fatalf("%s: %v, %v", command, reply, err)
		}
	}
}

// killed kills a server and starts it again, with the data whose digest is given.
func killed(t *testing.T, server *launch.Server, want string) *launch.Server {
	t.Helper()
	server.Kill()
	restarted, err := server.Restart()
	if err != nil {
		t.Fatal(err)
	}
	if got := ask(t, restarted, "DEBUG", "DIGEST"); got != want {
		t.Fatalf("the digest is %s, and was %s", got, want)
	}
	return restarted
}

// ask returns the text of a reply.
func ask(t *testing.T, server *launch.Server, line ...string) string {
	t.Helper()
	connection := server.MustDial(t)
	defer connection.Close()
	reply, err := connection.Do(line...)
	if err != nil || reply.Kind == resp.Error {
		t.Fatalf("%q: %v, %v", line, reply, err)
	}
	return string(reply.Text)
}
