package commandline

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"

	"github.com/hashicorp/go-hclog"

	"kedis/internal/config"
)

// supervisor is who has started the server and waits until it is ready: systemd, upstart or nobody.
type supervisor struct {
	name   string // as INFO has it
	socket string // systemd's
	logger hclog.Logger
}

const (
	systemdVariable = "NOTIFY_SOCKET"
	upstartVariable = "UPSTART_JOB"
)

// newSupervisor finds out who supervises the server. The configured one counts only if it has set
// its variable.
func newSupervisor(configured config.Supervision, logger hclog.Logger) *supervisor {
	upstart, systemd := os.Getenv(upstartVariable) != "", os.Getenv(systemdVariable) != ""
	s := &supervisor{name: "no", logger: logger}
	switch {
	case upstart && (configured == config.SupervisedByUpstart || configured == config.SupervisedByEither):
		s.name = "upstart"
	case systemd && (configured == config.SupervisedBySystemd || configured == config.SupervisedByEither):
		s.name, s.socket = "systemd", os.Getenv(systemdVariable)
	case configured == config.SupervisedByUpstart:
		logger.Warn("supervision is configured, but not by whom the server was started", "supervised", "upstart", "missing", upstartVariable)
	case configured == config.SupervisedBySystemd:
		logger.Warn("supervision is configured, but not by whom the server was started", "supervised", "systemd", "missing", systemdVariable)
	}
	return s
}

// loading says that the server is at work, and will be for a while.
func (s *supervisor) loading(status string) {
	s.notify("STATUS=" + status + "\nEXTEND_TIMEOUT_USEC=60000000\n")
}

// ready says that clients are served.
func (s *supervisor) ready() {
	s.notify("STATUS=Ready to accept connections\nREADY=1\n")
	if s.name == "upstart" {
		if err := errors.Join(os.Unsetenv(upstartVariable), syscall.Kill(os.Getpid(), syscall.SIGSTOP)); err != nil {
			s.logger.Error("telling upstart that the server is ready", "error", err)
		}
	}
}

// stopping says that the server ends.
func (s *supervisor) stopping() { s.notify("STATUS=Stopping\nSTOPPING=1\n") }

// notify sends systemd a message; see sd_notify(3).
func (s *supervisor) notify(message string) {
	if s.socket == "" {
		return
	}
	if err := send(s.socket, message); err != nil {
		s.logger.Error("telling systemd how the server is", "error", err)
	}
}

func send(socket, message string) error {
	conn, err := net.Dial("unixgram", socket)
	if err != nil {
		return fmt.Errorf("%s: %w", systemdVariable, err)
	}
	_, err = conn.Write([]byte(message))
	return errors.Join(err, conn.Close())
}
