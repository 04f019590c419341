// Package clients runs little programmes that use client libraries as their users do, against the
// server under test: goredis (Go) and ioredis (Node.js). Each checks its own results and says by
// its exit code whether they are right.
//
// It imports the standard library and its neighbours in redis-tests, nothing of Kedis.
package clients

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"kedis/redis-tests/certificates"
	"kedis/redis-tests/launch"
)

func TestGoRedis(t *testing.T) {
	program := filepath.Join(t.TempDir(), "goredis")
	if output, err := exec.Command("go", "build", "-o", program, "./goredis").CombinedOutput(); err != nil {
		t.Fatalf("building: %v\n%s", err, output)
	}
	run(t, program)
}

func TestIORedis(t *testing.T) {
	if _, err := os.Stat("ioredis/node_modules/ioredis"); err != nil {
		t.Fatal("ioredis isn't installed; make test-dependencies installs it (npm ci in redis-tests/clients/ioredis)")
	}
	run(t, "node", "ioredis/main.js")
}

// run runs a programme without and with TLS.
func run(t *testing.T, line ...string) {
	t.Helper()
	authority := certificates.NewAuthority(t)
	own := authority.Sign("server")
	server := launch.ForTest(t, launch.MustUnderTest(t), append(authority.ServerOptions(own), "--tls-port", launch.FreePort)...)
	for _, arguments := range [][]string{{server.Address}, {server.TLSAddress(), authority.File, own.File, own.Key}} {
		output, err := exec.Command(line[0], append(line[1:], arguments...)...).CombinedOutput()
		t.Logf("%s", output)
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestAWrongAddressFails shows that the programmes can fail.
func TestAWrongAddressFails(t *testing.T) {
	const nobody = "127.0.0.1:1"
	if err := exec.Command("go", "run", "./goredis", nobody).Run(); err == nil {
		t.Error("goredis found nothing wrong where no server is")
	}
	if err := exec.Command("node", "ioredis/main.js", nobody).Run(); err == nil {
		t.Error("ioredis found nothing wrong where no server is")
	}
}
