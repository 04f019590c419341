package concurrency

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"kedis/redis-tests/launch"
	"kedis/redis-tests/resp"
)

// TestManyKeysExpireAtOnce lets keys expire in two databases while others are written over and
// over. None that has expired is seen, all are removed and counted, and no other is.
func TestManyKeysExpireAtOnce(t *testing.T) {
	server := launch.ForTest(t, launch.MustUnderTest(t))
	const expiring, living = 40_000, 500
	at := time.Now().Add(3 * time.Second).UnixMilli()
	connection := server.MustDial(t)
	for database := range 2 {
		connection.Queue("select", strconv.Itoa(database))
		for i := range expiring / 2 {
			connection.Queue("set", fmt.Sprint("expiring", i), "v", "pxat", strconv.FormatInt(at, 10))
		}
	}
	readAll(t, connection, expiring+2)
	inTime := time.Now().UnixMilli() < at // else some had expired before they came, and count for nothing
	done, writer := make(chan struct{}), server.MustDial(t)
	go func() {
		defer close(done)
		for i := 0; i < living || time.Now().UnixMilli() < at+1000; i++ {
			// One in two was to expire, and lives on.
			writer.Queue("set", fmt.Sprint("living", i%(living/2)), strconv.Itoa(i))
			writer.Queue("set", fmt.Sprint("expiring", i%(living/2)), "lives on")
			if _, err := writer.Do("ping"); err != nil {
				t.Error(err)
				return
			}
			for range 2 {
				if _, err := writer.Read(); err != nil {
					t.Error(err)
					return
				}
			}
		}
	}()
	time.Sleep(time.Until(time.UnixMilli(at + 5))) // when most are still to be removed
	for range 20 {
		if reply, err := connection.Do("mget", "expiring1000", "expiring1001", "expiring19000", "expiring19999"); err != nil || strings.Join(reply.Strings(), "") != "" {
			t.Errorf("keys that have expired are seen: %s (%v)", reply, err)
		}
	}
	<-done
	wantSoon(t, connection, "dbsize", ":0")
	if _, err := connection.Must("select", "0"); err != nil {
		t.Fatal(err)
	}
	wantSoon(t, connection, "dbsize", fmt.Sprint(":", living))
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		info, err := connection.Must("info", "stats")
		if err != nil {
			t.Fatal(err)
		}
		text := string(info.Text)
		if strings.Contains(text, "expires_waiting:0\r\n") && strings.Contains(text, "expire_sweeper_waiting:0\r\n") &&
			strings.Contains(text, "expire_sweeper_lag_ms:0\r\n") {
			_, digits, _ := strings.Cut(text, "\r\nexpired_keys:")
			digits, _, _ = strings.Cut(digits, "\r\n")
			if expired, err := strconv.Atoi(digits); err != nil || inTime && expired < expiring-living/2 || expired > expiring {
				t.Errorf("%s keys are counted", digits)
			}
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("all is removed, and INFO says otherwise:\n%s", text)
		}
	}
}

func readAll(t *testing.T, connection *resp.Connection, count int) {
	t.Helper()
	if err := connection.Flush(); err != nil {
		t.Fatal(err)
	}
	for range count {
		if reply, err := connection.Read(); err != nil || reply.IsError() {
			t.Fatalf("%s (%v)", reply, err)
		}
	}
}

// wantSoon asks until the reply is the one that is wanted.
func wantSoon(t *testing.T, connection *resp.Connection, request, want string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		reply, err := connection.Do(request)
		if err == nil && reply.String() == want {
			return
		}
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("%s: %s (%v), want %s", request, reply, err, want)
		}
	}
}
