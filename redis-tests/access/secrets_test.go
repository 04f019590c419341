package access

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kedis/redis-tests/launch"
	"kedis/redis-tests/resp"
)

const secret = "correct-horse-battery"

// TestSecretsAreShownNowhere gives passwords in all ways in which they may be given, and looks for
// them where others can look.
func TestSecretsAreShownNowhere(t *testing.T) {
	server := launch.ForTest(t, launch.MustUnderTest(t), "--requirepass", secret, "--masterauth="+secret, "--user", "zoe on >"+secret+" +@all",
		"--slowlog-log-slower-than", "0", "--loglevel", "debug")
	for _, file := range []string{"cmdline", "comm"} {
		content, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", server.ProcessID(), file))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(content), secret) || file == "cmdline" && !strings.Contains(string(content), "--requirepass\x00***") {
			t.Errorf("%s shows %q", file, content)
		}
	}
	c, monitor := server.MustDial(t), server.MustDial(t)
	must(t, monitor, "auth", secret)
	must(t, monitor, "monitor")
	must(t, c, "auth", "default", secret)
	must(t, c, "hello", "3", "auth", "default", secret)
	for _, line := range []string{"config set requirepass " + secret, "config set masterauth " + secret, "config set masteruser " + secret, "acl setuser alice on >" + secret, "acl setuser bob <" + secret,
		"acl getuser alice", "auth nobody " + secret, "migrate 127.0.0.1 1 k 0 1 AUTH " + secret, "migrate 127.0.0.1 1 k 0 1 AUTH2 u " + secret, "acl list"} {
		words, err := resp.SplitLine(line)
		if err != nil {
			t.Fatal(err)
		}
		do(t, c, words...)
	}
	must(t, c, "echo", "the end")
	seen := ""
	for !strings.Contains(seen, "the end") {
		reply, err := monitor.Read()
		if err != nil {
			t.Fatal(err)
		}
		seen += string(reply.Raw)
	}
	shown := map[string]string{"MONITOR": seen, "the log": server.Output()}
	for _, line := range []string{"slowlog get -1", "info everything", "client list", "acl list", "acl log", "acl getuser alice", "latency histogram", "command docs auth"} {
		shown[line] = string(must(t, c, strings.Fields(line)...).Raw)
	}
	for where, text := range shown {
		if strings.Contains(text, secret) {
			at := strings.Index(text, secret)
			t.Errorf("%s shows a password: %q", where, text[max(0, at-100):at+len(secret)])
		}
	}
}

// TestPasswordsFromOutside takes passwords from files and from the environment, and doesn't write
// them into the configuration.
func TestPasswordsFromOutside(t *testing.T) {
	directory := t.TempDir()
	file := filepath.Join(directory, "password")
	if err := os.WriteFile(file, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	configuration := filepath.Join(directory, "kedis.conf")
	if err := os.WriteFile(configuration, []byte("requirepass-file "+file+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KEDIS_MASTERAUTH", secret+"2")
	program := launch.MustUnderTest(t)
	program.Line = append(append([]string(nil), program.Line...), configuration)
	server := launch.ForTest(t, program)
	c := server.MustDial(t)
	if got := do(t, c, "get", "k").String(); !strings.HasPrefix(got, "-NOAUTH") {
		t.Errorf("without the password: %s", got)
	}
	expect(t, c, "auth "+secret, "+OK", "config get masterauth", fmt.Sprintf("[%q %q]", "masterauth", secret+"2"), "config rewrite", "+OK")
	if content, err := os.ReadFile(configuration); err != nil || strings.Contains(string(content), secret) || !strings.Contains(string(content), "requirepass-file "+file) &&
		!strings.Contains(string(content), fmt.Sprintf("requirepass-file %q", file)) {
		t.Errorf("the configuration is now\n%s (%v)", content, err)
	}
	expect(t, c, "config set requirepass other", "+OK", "config rewrite", "+OK")
	if content, err := os.ReadFile(configuration); err != nil || !strings.Contains(string(content), `requirepass "other"`) {
		t.Errorf("with a password that was set the configuration is\n%s (%v)", content, err)
	}
	for _, password := range []string{"other", ""} {
		again, err := program.Start(t.TempDir())
		if err != nil {
			t.Fatalf("a start with the password %q, which was written: %v", password, err)
		}
		words := []string{"config", "get", "requirepass"}
		admin := again.MustDial(t)
		if password != "" {
			must(t, admin, "auth", password)
		}
		if got := must(t, admin, words...).String(); got != fmt.Sprintf("[%q %q]", "requirepass", password) {
			t.Errorf("started with %s", got)
		}
		must(t, admin, "config", "set", "requirepass", "", "masterauth", "")
		must(t, admin, "config", "rewrite")
		if got := must(t, admin, "config", "get", "masterauth").String(); got != `["masterauth" ""]` {
			t.Errorf("%s", got)
		}
		launch.End(t, again)
	}
	binary, err := launch.Binary()
	if err != nil {
		t.Fatal(err)
	}
	must(t, c, "config", "set", "requirepass", secret)
	export := exec.Command(binary, "export", "--from", server.Address, "--from-auth-file", file, filepath.Join(directory, "out.rdb"))
	if output, err := export.CombinedOutput(); err != nil {
		t.Errorf("export with a password file: %v: %s", err, output)
	}
	for lines, says := range map[string]string{
		"requirepass-file " + file + "\nrequirepass x": "the password is given, too",
		"masterauth-file /none/such":                   "masterauth-file: open /none/such: no such file",
		"requirepass-file /dev/null":                   "/dev/null has no password",
	} {
		if err := os.WriteFile(configuration, []byte(lines+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if again, err := program.Start(t.TempDir()); err == nil {
			launch.End(t, again)
			t.Errorf("%q: it starts", lines)
		} else if !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %s", lines, err, says)
		}
	}
}

// TestProtectedMode connects from another network namespace: what isn't of this machine is told why
// it isn't served, until there is a password or the mode is off.
func TestProtectedMode(t *testing.T) {
	space := newNamespace(t)
	server := launch.ForTest(t, launch.MustUnderTest(t), "--bind", "0.0.0.0")
	c := server.MustDial(t)
	if got := space.ask(server.Port, "PING"); !strings.HasPrefix(got, "-DENIED ") {
		t.Errorf("a client of another machine is answered %q", got)
	}
	must(t, c, "config", "set", "protected-mode", "no")
	if got := space.ask(server.Port, "PING"); got != "+PONG" {
		t.Errorf("with the mode off the answer is %q", got)
	}
	must(t, c, "config", "set", "protected-mode", "yes", "requirepass", "x")
	if got := space.ask(server.Port, "PING"); !strings.HasPrefix(got, "-NOAUTH") {
		t.Errorf("with a password the answer is %q", got)
	}
	for option, words := range map[string]string{"enable-debug-command": "DEBUG STRINGMATCH-LEN", "enable-protected-configs": "CONFIG SET checkpoint-dir x"} {
		local := launch.ForTest(t, launch.MustUnderTest(t), "--bind", "0.0.0.0", "--protected-mode", "no", "--"+option, "local")
		if got := space.ask(local.Port, words); !strings.Contains(got, "not allowed") && !strings.Contains(got, "can't set protected config") {
			t.Errorf("%s local: a client of another machine is answered %q", option, got)
		}
	}
}

// namespace is a network namespace with a link to this one.
type namespace struct {
	t       *testing.T
	name    string
	address string // of this end
}

func newNamespace(t *testing.T) *namespace {
	t.Helper()
	number := os.Getpid() % 250
	s := &namespace{t, fmt.Sprint("kedis", number), fmt.Sprintf("10.213.%d.1", number)}
	here, there := fmt.Sprint("kedisa", number), fmt.Sprint("kedisb", number)
	t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", s.name).Run() })
	for _, line := range []string{"netns add " + s.name, "link add " + here + " type veth peer name " + there, "link set " + there + " netns " + s.name,
		"addr add " + s.address + "/24 dev " + here, "link set " + here + " up",
		fmt.Sprintf("netns exec %s ip addr add 10.213.%d.2/24 dev %s", s.name, number, there), "netns exec " + s.name + " ip link set " + there + " up"} {
		if output, err := exec.Command("ip", strings.Fields(line)...).CombinedOutput(); err != nil {
			launch.Skip(t, "ip %s: %v %s: protected mode isn't tested", line, err, output)
		}
	}
	return s
}

// ask sends a request from there and returns the first line of the answer.
func (s *namespace) ask(port int, request string) string {
	s.t.Helper()
	script := fmt.Sprintf(`exec 3<>/dev/tcp/%s/%d && printf '%s\r\n' >&3 && read -r -t 20 line <&3; echo "$line"`, s.address, port, request)
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		output, err := exec.Command("ip", "netns", "exec", s.name, "bash", "-c", script).Output()
		if err == nil || time.Now().After(deadline) { // the link comes up a moment later
			return strings.TrimSpace(string(output))
		}
	}
}
