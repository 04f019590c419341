package encryption

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"kedis/redis-tests/certificates"
	"kedis/redis-tests/launch"
	"kedis/redis-tests/resp"
)

// patience is how long something may take that has to happen.
const patience = 60 * time.Second

func eventually(t *testing.T, what string, happened func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !happened(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it never came that %s", what)
		}
	}
}

// net is an authority, and a certificate that all servers and clients of a test show.
type net struct {
	*certificates.Authority
	own certificates.Certificate
}

func newNet(t *testing.T) *net {
	t.Helper()
	authority := certificates.NewAuthority(t)
	return &net{authority, authority.Sign("everybody")}
}

// options are those of a server that speaks TLS with all others.
func (n *net) options() []string {
	return append(n.ServerOptions(n.own), "--tls-port", launch.FreePort, "--tls-replication", "yes")
}

func tlsPort(s *launch.Server) string {
	_, port, _ := strings.Cut(s.TLSAddress(), ":")
	return port
}

func must(t *testing.T, s *launch.Server, words ...string) resp.Reply {
	t.Helper()
	c, err := s.Dial()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	reply, err := c.Must(words...)
	if err != nil {
		t.Fatal(err)
	}
	return reply
}

// field returns a field of INFO; empty while the server is away.
func field(s *launch.Server, name string) string {
	c, err := s.Dial()
	if err != nil {
		return ""
	}
	defer c.Close()
	reply, err := c.Must("info", "everything")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(reply.Text)) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+":"); ok {
			return value
		}
	}
	return ""
}

func digest(t *testing.T, s *launch.Server) string {
	t.Helper()
	return string(must(t, s, "debug", "digest").Text)
}

func TestRedisCLI(t *testing.T) {
	n := newNet(t)
	server := launch.ForTest(t, launch.MustUnderTest(t), n.options()...)
	cli := func(input string, arguments ...string) (string, error) {
		command := exec.Command("redis-cli", slices.Concat([]string{"-p", tlsPort(server)}, arguments)...)
		command.Stdin = strings.NewReader(input)
		output, err := command.CombinedOutput()
		return string(output), err
	}
	flags := n.ClientFlags(n.own)
	var pipe strings.Builder
	for i := range 20000 {
		pipe.Write(resp.AppendRequest(nil, "set", "key:"+strconv.Itoa(i), "value"))
	}
	if output, err := cli(pipe.String(), append(flags, "--pipe")...); err != nil || !strings.Contains(output, "replies: 20000") {
		t.Errorf("--pipe: %s (%v)", output, err)
	}
	if output, err := cli("", append(flags, "dbsize")...); err != nil || strings.TrimSpace(output) != "20000" {
		t.Errorf("dbsize: %s (%v)", output, err)
	}
	rdb := filepath.Join(t.TempDir(), "dump.rdb")
	if output, err := cli("", append(flags, "--rdb", rdb)...); err != nil {
		t.Errorf("--rdb: %s (%v)", output, err)
	}
	if header, err := os.ReadFile(rdb); err != nil || !strings.HasPrefix(string(header), "REDIS") {
		t.Errorf("--rdb has written %.10q (%v)", header, err)
	}
	for name, arguments := range map[string][]string{"no TLS": nil, "no certificate": {"--tls", "--cacert", n.File}, "no authority": {"--tls", "--cert", n.own.File, "--key", n.own.Key}} {
		if output, err := cli("", append(arguments, "ping")...); err == nil && strings.Contains(output, "PONG") {
			t.Errorf("%s: %s", name, output)
		}
	}
}

// TestOptionsAsRedis compares what the servers say of options, and how they refuse to start.
func TestOptionsAsRedis(t *testing.T) {
	n := newNet(t)
	options := append(n.ServerOptions(n.own), "--tls-port", launch.FreePort)
	oracle, underTest := launch.Pair(t, options...)
	for _, words := range [][]string{
		{"tls-cert-file", "/none"}, {"tls-key-file", n.File}, {"tls-ca-cert-file", "/none"}, {"tls-ca-cert-file", ""}, {"tls-auth-clients", "perhaps"},
		{"tls-auth-clients", "optional"}, {"tls-protocols", "SSLv3"}, {"tls-protocols", "TLSv1.2 tlsv1.3"}, {"tls-ciphers", "nonsense"},
		{"tls-ciphers", "ECDHE+AESGCM"}, {"tls-ciphersuites", "nonsense"}, {"tls-session-caching", "no"}, {"tls-session-cache-timeout", "-5"},
		{"tls-session-cache-timeout", "60"}, {"tls-replication", "yes"}, {"tls-prefer-server-ciphers", "yes"}, {"tls-cert-file", n.own.File},
		{"tls-cert-file", n.own.File, "tls-key-file", "/none"}, {"tls-key-file-pass", "x"},
	} {
		request := append([]string{"config", "set"}, words...)
		var replies [2]string
		for i, server := range []*launch.Server{oracle, underTest} {
			reply, err := server.MustDial(t).Do(request...)
			if err != nil {
				t.Fatal(err)
			}
			replies[i] = reply.String()
			for _, name := range []string{words[0]} {
				replies[i] += " " + must(t, server, "config", "get", name).String()
			}
		}
		if replies[0] != replies[1] {
			t.Errorf("%q: %s, redis-server says %s", words, replies[1], replies[0])
		}
	}
	for _, change := range [][]string{{"--tls-cert-file", ""}, {"--tls-key-file", ""}, {"--tls-ca-cert-file", ""}, {"--tls-key-file", n.File},
		{"--tls-cert-file", "/none"}, {"--tls-protocols", "SSLv3"}, {"--tls-ciphers", "nonsense"}} {
		options := append(slices.Clone(options), change...)
		oracle, redis := launch.MustOracle(t).Start(t.TempDir(), options...)
		underTest, kedis := launch.MustUnderTest(t).Start(t.TempDir(), options...)
		if redis == nil || kedis == nil {
			launch.End(t, oracle)
			launch.End(t, underTest)
			t.Errorf("%q: redis-server: %v, the server under test: %v", change, redis, kedis)
		} else if said := complaint(redis); !strings.Contains(kedis.Error(), said) {
			t.Errorf("%q: %v, redis-server says %q", change, kedis, said)
		}
	}
}

// complaint is what redis-server says before it gives up, without OpenSSL's reason.
func complaint(err error) string {
	lines := strings.Split(strings.TrimSpace(err.Error()), "\n")
	_, said, _ := strings.Cut(lines[max(0, len(lines)-2)], " # ")
	said, _, _ = strings.Cut(said, ": error:")
	return said
}

// TestReplication has replicas follow over TLS, both ways with redis-server, through kill -9 of
// either side.
func TestReplication(t *testing.T) {
	n := newNet(t)
	kedis, redis := launch.MustUnderTest(t), launch.MustOracle(t)
	for name, pair := range map[string][2]launch.Program{"Kedis of Kedis": {kedis, kedis}, "Kedis of Redis": {redis, kedis}, "Redis of Kedis": {kedis, redis}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			primary, replica := start(t, pair[0], n.options()), start(t, pair[1], n.options())
			fill := func(from int) {
				t.Helper()
				c := primary.MustDial(t)
				for i := from; i < from+3000; i++ {
					c.Queue("set", "key:"+strconv.Itoa(i), strings.Repeat("v", i%2000))
				}
				if err := c.Flush(); err != nil {
					t.Fatal(err)
				}
				for range 3000 {
					if _, err := c.Read(); err != nil {
						t.Fatal(err)
					}
				}
			}
			same := func(what string) {
				t.Helper()
				eventually(t, "they have the same "+what, func() bool {
					return field(replica, "master_link_status") == "up" && digest(t, primary) == digest(t, replica)
				})
			}
			fill(0)
			must(t, replica, "replicaof", "127.0.0.1", tlsPort(primary))
			same("at first")
			fill(3000)
			same("after writes")
			if got := must(t, primary, "role").String(); !strings.Contains(got, tlsPort(replica)) {
				t.Errorf("ROLE says %s, and nothing of port %s", got, tlsPort(replica))
			}
			if pair[0].IsRedis {
				must(t, primary, "save")
			}
			primary.Kill()
			primary = again(t, primary)
			fill(6000)
			same("when the primary is back")
			replica.Kill()
			replica = again(t, replica)
			if pair[1].IsRedis {
				must(t, replica, "replicaof", "127.0.0.1", tlsPort(primary))
			}
			fill(9000)
			same("when the replica is back")
		})
	}
}

func start(t *testing.T, program launch.Program, options []string) *launch.Server {
	t.Helper()
	return launch.ForTest(t, program, options...)
}

// again starts a server that was killed, where others look for it.
func again(t *testing.T, s *launch.Server) *launch.Server {
	t.Helper()
	server, err := s.RestartInPlace()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { launch.End(t, server) })
	return server
}

// TestReplicationNeedsTrust has a replica refuse a primary whose certificate nobody has signed whom
// it trusts, and one without TLS.
func TestReplicationNeedsTrust(t *testing.T) {
	n, strangers := newNet(t), newNet(t)
	replica := launch.ForTest(t, launch.MustUnderTest(t), append(n.options(), "--repl-timeout", "1")...)
	primary := launch.ForTest(t, launch.MustUnderTest(t), strangers.options()...)
	must(t, primary, "set", "key", "value")
	for _, port := range []string{tlsPort(primary), strconv.Itoa(primary.Port)} {
		must(t, replica, "replicaof", "127.0.0.1", port)
		eventually(t, "the replica says why", func() bool {
			return strings.Contains(replica.Output(), "no stream from the primary: primary=127.0.0.1:"+port)
		})
		if status := field(replica, "master_link_status"); status != "down" {
			t.Errorf("port %s: the link is %s", port, status)
		}
	}
}

// TestSentinel has a Sentinel with TLS find the replica of a primary that dies, and make it the
// primary.
func TestSentinel(t *testing.T) {
	n := newNet(t)
	kedis := launch.MustUnderTest(t)
	var servers []*launch.Server
	for range 2 {
		directory := t.TempDir()
		file := filepath.Join(directory, "kedis.conf")
		if err := os.WriteFile(file, []byte("user sentinel on >watch &* +@all\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		configured := kedis
		configured.Line = append(slices.Clone(kedis.Line), file)
		server, err := configured.Start(directory, append(n.options(), "--sentinel-quorum", "1", "--sentinel-user", "sentinel")...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { launch.End(t, server) })
		servers = append(servers, server)
	}
	must(t, servers[0], "set", "key", "value")
	must(t, servers[1], "replicaof", "127.0.0.1", tlsPort(servers[0]))
	directory := t.TempDir()
	file := filepath.Join(directory, "sentinel.conf")
	text := fmt.Sprintf("sentinel monitor it 127.0.0.1 %s 1\nsentinel down-after-milliseconds it 1000\nsentinel failover-timeout it 5000\n"+
		"sentinel auth-user it sentinel\nsentinel auth-pass it watch\n", tlsPort(servers[0]))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	program := launch.MustOracle(t)
	program.Line = append(slices.Clone(program.Line), file, "--sentinel")
	sentinel, err := program.Start(directory, n.options()...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { launch.End(t, sentinel) })
	eventually(t, "Sentinel knows the replica", func() bool {
		return strings.Contains(must(t, sentinel, "sentinel", "replicas", "it").String(), tlsPort(servers[1]))
	})
	eventually(t, "the replica is in step", func() bool { return field(servers[1], "master_link_status") == "up" })
	servers[0].Kill()
	eventually(t, "the replica is the primary", func() bool { return field(servers[1], "role") == "master" })
	eventually(t, "Sentinel tells clients", func() bool {
		return strings.Contains(must(t, sentinel, "sentinel", "get-master-addr-by-name", "it").String(), tlsPort(servers[1]))
	})
	if got := must(t, servers[1], "get", "key").String(); got != `"value"` {
		t.Errorf("the new primary has %s", got)
	}
	eventually(t, "the new primary hears from Sentinel that it is one", func() bool {
		_, err := os.Stat(filepath.Join(servers[1].Directory, "sentinel-epoch"))
		return err == nil
	})
	if got := field(servers[1], "role"); got != "master" {
		t.Errorf("then it is a %s", got)
	}
}

// kedis runs one of Kedis's commands.
func kedis(t *testing.T, words ...string) (string, error) {
	t.Helper()
	binary, err := launch.Binary()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(binary, words...)
	command.Dir = t.TempDir()
	output, err := command.CombinedOutput()
	return string(output), err
}

// TestCommands moves data with TLS: by export and import, by port, and by MIGRATE; and compares it.
func TestCommands(t *testing.T) {
	n := newNet(t)
	oracle, underTest := launch.Pair(t, append(n.options(), "--repl-diskless-sync-delay", "0")...)
	for i := range 500 {
		must(t, oracle, "set", "key:"+strconv.Itoa(i), strings.Repeat("v", i))
	}
	flags := n.ClientFlags(n.own)
	succeeds := func(words ...string) {
		t.Helper()
		if output, err := kedis(t, append(words, flags...)...); err != nil {
			t.Errorf("%q: %v\n%s", words, err, output)
		}
	}
	from, to := oracle.TLSAddress(), underTest.TLSAddress()
	file := filepath.Join(t.TempDir(), "dump.rdb")
	succeeds("export", file, "--from", from)
	succeeds("import", file, "--to", to)
	succeeds("verify", "--from", from, "--to", to)
	must(t, underTest, "flushall")
	succeeds("port", "--from", from, "--to", to)
	succeeds("verify", "--from", from, "--to", to)
	// One side with TLS, and the other without.
	sided := []string{"--to-tls", "--to-cacert", n.File, "--to-cert", n.own.File, "--to-key", n.own.Key}
	if output, err := kedis(t, append([]string{"verify", "--from", oracle.Address, "--to", to}, sided...)...); err != nil {
		t.Errorf("verify with TLS on one side: %v\n%s", err, output)
	}
	for name, words := range map[string][]string{
		"no TLS":       {"verify", "--from", from, "--to", to},
		"no authority": {"verify", "--from", from, "--to", to, "--tls", "--cert", n.own.File, "--key", n.own.Key},
		"no key":       {"verify", "--from", from, "--to", to, "--tls", "--cert", n.own.File},
		"not there":    {"verify", "--from", from, "--to", to, "--tls", "--cacert", "/none"},
	} {
		if output, err := kedis(t, words...); err == nil {
			t.Errorf("%s: %s", name, output)
		}
	}
	if output, err := kedis(t, "verify", "--from", from, "--to", to, "--tls", "--insecure", "--cert", n.own.File, "--key", n.own.Key); err != nil {
		t.Errorf("--insecure: %v\n%s", err, output)
	}
	must(t, oracle, "flushall")
	must(t, underTest, "migrate", "127.0.0.1", tlsPort(oracle), "key:7", "0", "5000")
	must(t, underTest, "migrate", "127.0.0.1", tlsPort(oracle), "", "0", "5000", "keys", "key:8", "key:9")
	if got := must(t, oracle, "mget", "key:7", "key:8", "key:9").String(); !strings.Contains(got, "vvvvvvvvv") {
		t.Errorf("after MIGRATE the target has %s", got)
	}
	c := underTest.MustDial(t)
	if reply, err := c.Do("migrate", "127.0.0.1", strconv.Itoa(oracle.Port), "key:10", "0", "200"); err != nil || !reply.IsError() {
		t.Errorf("MIGRATE with TLS to a port without: %s (%v)", reply, err)
	}
}

// TestHangup puts new files into effect with SIGHUP, and keeps the old ones when the new ones are
// none.
func TestHangup(t *testing.T) {
	n := newNet(t)
	server := launch.ForTest(t, launch.MustUnderTest(t), n.options()...)
	old, err := resp.DialTLS(server.TLSAddress(), patience, n.Client(n.own))
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	hangup := func(said string) {
		t.Helper()
		if err := syscall.Kill(server.ProcessID(), syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the log says: "+said, func() bool { return strings.Contains(server.Output(), said) })
	}
	authority, err := os.ReadFile(n.File)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(n.File, []byte("none"), 0o600); err != nil {
		t.Fatal(err)
	}
	hangup("the certificates stay as they were")
	works := func(n *net) error {
		c, err := resp.DialTLS(server.TLSAddress(), patience, n.Client(n.own))
		if err != nil {
			return err
		}
		defer c.Close()
		_, err = c.Must("ping")
		return err
	}
	if err := works(n); err != nil {
		t.Errorf("after a failed reload: %v", err)
	}
	next := newNet(t)
	for from, to := range map[string]string{next.File: n.File, next.own.File: n.own.File, next.own.Key: n.own.Key} {
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	hangup("were read anew")
	if err := works(next); err != nil {
		t.Errorf("with the new files: %v", err)
	}
	if err := os.WriteFile(n.File, authority, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := old.Must("ping"); err != nil {
		t.Errorf("the connection of before: %v", err)
	}
}
