package lookup

import (
	"bufio"
	"net"
	"strings"
	"testing"
	"time"

	"kedis/redis-tests/launch"
	"kedis/redis-tests/resp"
)

func TestARedisFindsWhatItLists(t *testing.T) {
	c := launch.ForTest(t, launch.MustOracle(t)).MustDial(t)
	for _, line := range []string{"set string 1", "hset hash a 1 b 2", "sadd set a b", "zadd zset 1 a 2 b", "rpush list a"} {
		if _, err := c.Must(strings.Fields(line)...); err != nil {
			t.Fatal(err)
		}
	}
	if err := Everything(c, 16); err != nil {
		t.Error(err)
	}
}

// TestWhatIsListedAndNotFound, from a server that has something wrong with one question.
func TestWhatIsListedAndNotFound(t *testing.T) {
	right := map[string]string{
		"info": "$0\r\n\r\n", "select": "+OK\r\n", "keys": "*3\r\n$1\r\nh\r\n$1\r\ns\r\n$1\r\nz\r\n",
		"type h": "+hash\r\n", "type s": "+set\r\n", "type z": "+zset\r\n",
		"hkeys": "*1\r\n$1\r\nf\r\n", "smembers": "*1\r\n$1\r\nm\r\n", "zrange": "*1\r\n$1\r\nm\r\n",
		"hmget": "*1\r\n$1\r\nv\r\n", "smismember": "*1\r\n:1\r\n", "zmscore": "*1\r\n$1\r\n1\r\n",
	}
	for request, wrong := range map[string]string{"": "", "type s": "+none\r\n", "hmget": "*1\r\n$-1\r\n", "smismember": "*1\r\n:0\r\n", "zmscore": "*1\r\n$-1\r\n"} {
		t.Run(request, func(t *testing.T) {
			answers := map[string]string{request: wrong}
			for question, answer := range right {
				if question != request {
					answers[question] = answer
				}
			}
			err := Everything(pretend(t, answers), 1)
			if found := err == nil; found != (request == "") {
				t.Errorf("%v", err)
			}
		})
	}
}

// pretend connects to a server that gives the same answer to all requests that begin with the same
// words.
func pretend(t *testing.T, answers map[string]string) *resp.Connection {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		connection, err := listener.Accept()
		if err != nil {
			return
		}
		defer connection.Close()
		for reader := bufio.NewReader(connection); ; {
			request, err := resp.ReadReply(reader)
			if err != nil {
				return
			}
			words := request.Strings()
			answer, ok := answers[strings.Join(words[:min(2, len(words))], " ")]
			if !ok {
				answer = answers[words[0]]
			}
			if _, err := connection.Write([]byte(answer)); err != nil {
				return
			}
		}
	}()
	c, err := resp.Dial(listener.Addr().String(), 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		listener.Close()
	})
	return c
}
