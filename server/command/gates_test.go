package command

import (
	"strings"
	"testing"
)

// remote is the peer of a client with an address.
type remote struct {
	Nowhere
	address string
}

func (r remote) RemoteAddress() string { return r.address }

func TestDebugIsForThoseWhoMay(t *testing.T) {
	const here, v6, elsewhere = "127.0.0.1:1000", "[::1]:1000", "192.0.2.1:1000"
	for _, c := range []struct {
		option  string
		allowed []string
		refused []string
	}{
		{"no", nil, []string{here, v6, elsewhere}},
		{"local", []string{here, v6}, []string{elsewhere}},
		{"yes", []string{here, v6, elsewhere}, nil},
	} {
		engine, _ := newTestEngine(t)
		if err := engine.Config.SetFlag("enable-debug-command", c.option); err != nil {
			t.Fatal(err)
		}
		client := newTestClient(t, engine)
		ask := func(address string) string {
			client.session.Peer = remote{address: address}
			return client.do("DEBUG", "ERROR", "reached")
		}
		for _, address := range c.allowed {
			if reply := ask(address); reply != "-reached\r\n" {
				t.Errorf("%s: %s got %q", c.option, address, reply)
			}
		}
		for _, address := range c.refused {
			if reply := ask(address); !strings.HasPrefix(reply, "-ERR DEBUG command not allowed. ") {
				t.Errorf("%s: %s got %q", c.option, address, reply)
			}
		}
	}
}
