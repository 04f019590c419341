package scripts

import (
	"io"
	"net"
	"strings"
	"testing"

	"kedis/redis-tests/launch"
	"kedis/redis-tests/resp"
)

// TestRepliesThatContainThemselves: what a script returns is nested as deep as Redis has it, and
// ends with the same error. Of tables that say in two ways what they are, the same way counts.
func TestRepliesThatContainThemselves(t *testing.T) {
	oracle, underTest := launch.Pair(t)
	for _, script := range []string{
		"local t = {} t[1] = t return t",
		"local t = {1} t[2] = t t[3] = 2 return t",
		"local t = {map = {}} t.map.a = t return t",
		"local t = {map = {}} t.map[t] = 1 return t",
		"local t = {set = {}} t.set[t] = true return t",
		"local t = {{set = {}}} t[1].set[t] = true return t",
		"local t = {{map = {a = {set = {}}}}} t[1].map.a.set[t] = 1 return t",
		"local t = 'x' for i = 1, 7994 do t = {t} end return t",
		"local t = 'x' for i = 1, 7995 do t = {t} end return t",
		"return {map = {a = 1}, big_number = '5'}",
		"return {map = {a = 1}, verbatim_string = {format = 'txt', string = 'text'}}",
		"return {big_number = '5', verbatim_string = {format = 'txt', string = 'text'}}",
		"return {set = {a = 1}, big_number = '5', double = 1.5}",
		"return {set = {a = 1}, map = {b = 2}, 7}",
		"return {set = {a = 1}, verbatim_string = {string = 'text'}}",
	} {
		for _, protocol := range []string{"2", "3"} {
			got, want := raw(t, underTest, protocol, script), raw(t, oracle, protocol, script)
			if got != want {
				t.Errorf("RESP%s: %s: %d lines, %d bytes, and in redis-server %d lines, %d bytes: %.60q, %.60q", protocol, script,
					strings.Count(got, "\r\n"), len(got), strings.Count(want, "\r\n"), len(want), got, want)
			}
		}
	}
}

// raw is what a script is answered, in bytes: it is nested deeper than a reader takes.
func raw(t *testing.T, s *launch.Server, protocol, script string) string {
	t.Helper()
	conn, err := net.Dial("tcp", s.Address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	sent := resp.AppendRequest(nil, "HELLO", protocol)
	sent = resp.AppendRequest(resp.AppendRequest(sent, "ECHO", "begins"), "EVAL", script, "0")
	if _, err := conn.Write(resp.AppendRequest(sent, "QUIT")); err != nil {
		t.Fatal(err)
	}
	all, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	_, reply, _ := strings.Cut(string(all), "begins\r\n")
	return reply
}
