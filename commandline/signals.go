package commandline

import (
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/hashicorp/go-hclog"
)

// stopper is how a running server is asked to end, by signals and by SHUTDOWN.
type stopper struct {
	once  sync.Once
	asked chan struct{} // closed when the server is to end

	hangup atomic.Pointer[func()] // what SIGHUP does besides; nil: nothing
}

func newStopper() *stopper { return &stopper{asked: make(chan struct{})} }

// onHangup names what SIGHUP does.
func (s *stopper) onHangup(do func()) { s.hangup.Store(&do) }

// Shutdown asks for the end.
func (s *stopper) Shutdown() error {
	s.stop()
	return nil
}

func (s *stopper) stop() { s.once.Do(func() { close(s.asked) }) }

func (s *stopper) isAsked() bool {
	select {
	case <-s.asked:
		return true
	default:
		return false
	}
}

// receiveSignals gives signals the meaning that they have for Redis, from now until the process
// ends. SIGTERM and SIGINT end the server in order, and a SIGINT after that ends it at once. SIGHUP
// has certificates read anew, and the log file is opened for each line in any case. SIGPIPE is
// ignored: the reader of standard output may go away.
func receiveSignals(s *stopper, logger hclog.Logger) {
	signal.Ignore(syscall.SIGPIPE)
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		for received := range signals {
			s.receive(received, logger, os.Exit)
		}
	}()
}

// receive handles one signal. exit ends the process at once.
func (s *stopper) receive(received os.Signal, logger hclog.Logger, exit func(code int)) {
	switch {
	case received == syscall.SIGHUP:
		logger.Info("received a signal, and goes on: the log file is opened for each line", "signal", received.String())
		if do := s.hangup.Load(); do != nil {
			(*do)()
		}
	case received == syscall.SIGINT && s.isAsked():
		logger.Warn("received a second signal, and ends at once: the next start applies more of the log", "signal", received.String())
		exit(1)
	default:
		logger.Info("received a signal, and ends", "signal", received.String())
		s.stop()
	}
}
