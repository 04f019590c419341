package port

import (
	"bytes"
	"errors"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"kedis/redis-tests/launch"
	"kedis/redis-tests/resp"
)

// tool is a running kedis port or verify.
type tool struct {
	t       *testing.T
	command *exec.Cmd
	output  *output
	exited  chan struct{}
	limit   time.Duration  // within which it has to end
	said    map[string]int // how often says has waited for a text
}

// output is what a program has printed, which may be read while it runs.
type output struct {
	mu    sync.Mutex
	bytes bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.bytes.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.bytes.String()
}

// startTool runs the kedis binary in a directory, where it leaves its position file.
func startTool(t *testing.T, directory string, words ...string) *tool {
	t.Helper()
	binary, err := launch.Binary()
	if err != nil {
		t.Fatal(err)
	}
	p := &tool{t: t, command: exec.Command(binary, words...), output: new(output), exited: make(chan struct{}), limit: 2 * time.Minute}
	p.command.Dir, p.command.Stdout, p.command.Stderr = directory, p.output, p.output
	p.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.command.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		// The exit code is looked at by whoever waits.
		_ = p.command.Wait()
		close(p.exited)
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("%s:\n%s", resp.Line(words), p.output)
		}
	})
	return p
}

func (p *tool) kill() {
	if err := p.command.Process.Kill(); err == nil || errors.Is(err, syscall.ESRCH) {
		<-p.exited
	}
}

func (p *tool) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.command.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// says waits until the program has printed something more often than when says was called last.
func (p *tool) says(text string) {
	p.t.Helper()
	if p.said == nil {
		p.said = map[string]int{}
	}
	p.said[text]++
	said := func() bool { return strings.Count(p.output.String(), text) >= p.said[text] }
	deadline := time.Now().Add(time.Minute)
	for !said() {
		select {
		case <-p.exited:
			if !said() {
				p.t.Fatalf("ended without saying %q", text)
			}
			return
		case <-time.After(5 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("didn't say %q within a minute", text)
		}
	}
}

// ends waits for the end, and checks the exit code.
func (p *tool) ends(code int) string {
	p.t.Helper()
	select {
	case <-p.exited:
	case <-time.After(p.limit):
		p.t.Fatalf("didn't end within %v", p.limit)
	}
	if got := p.command.ProcessState.ExitCode(); got != code {
		p.t.Fatalf("exit code %d, expected %d:\n%s", got, code, p.output)
	}
	return p.output.String()
}

// port is the beginning of a command line that moves between two servers.
func port(from, to *launch.Server, more ...string) []string {
	return append([]string{"port", "--from", from.Address, "--to", to.Address}, more...)
}

// verify is the beginning of a command line that compares two servers.
func verify(from, to *launch.Server, more ...string) []string {
	return append([]string{"verify", "--from", from.Address, "--to", to.Address, "--retry-after", "1ms"}, more...)
}

// do sends a request that has to succeed.
func do(t *testing.T, c *resp.Connection, words ...string) resp.Reply {
	t.Helper()
	reply, err := c.Must(words...)
	if err != nil {
		t.Fatalf("%q: %v", words, err)
	}
	return reply
}

// same compares all data of two servers that nobody writes to. Redis's digest counts keys that have
// expired and that it has not come upon yet: that passes.
func same(t *testing.T, a, b *launch.Server) {
	t.Helper()
	one, other := a.MustDial(t), b.MustDial(t)
	var left, right string
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		left, right = string(do(t, one, "DEBUG", "DIGEST").Text), string(do(t, other, "DEBUG", "DIGEST").Text)
		if left == right {
			if left == strings.Repeat("0", 40) {
				t.Fatal("there is no data to compare")
			}
			return
		}
	}
	t.Fatalf("DEBUG DIGEST: %s and %s\n%s", left, right, differences(t, a, b))
}

// differences shows where two servers have other data.
func differences(t *testing.T, a, b *launch.Server) string {
	t.Helper()
	var all []string
	left, right := a.MustDial(t), b.MustDial(t)
	for database := range databases {
		number := string(rune('0' + database))
		do(t, left, "SELECT", number)
		do(t, right, "SELECT", number)
		keys := map[string]bool{}
		for _, c := range []*resp.Connection{left, right} {
			for _, key := range do(t, c, "KEYS", "*").Strings() {
				keys[key] = true
			}
		}
		for key := range keys {
			l, r := string(do(t, left, "DEBUG", "DIGEST-VALUE", key).Elements[0].Text), string(do(t, right, "DEBUG", "DIGEST-VALUE", key).Elements[0].Text)
			if l != r {
				all = append(all, number+"/"+key+": "+l+" "+string(do(t, left, "PTTL", key).Text)+", "+r+" "+string(do(t, right, "PTTL", key).Text))
			}
		}
	}
	return strings.Join(all, "\n")
}
