package server

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A reactor that is woken usually takes the processor from who has it. Where that is a client that has just sent the first of its pipelines, the reactor
// serves that one, sleeps, and is woken by the next: for each pipeline two threads are exchanged. A patient one waits until the client has sent all
// and sleeps itself, and serves them in one pass. It waits for others, too, which is why reactors are patient only while they have no processors of
// their own and get requests in pipelines (balance.go).

// setPatient makes this thread patient, or not: SCHED_BATCH or SCHED_OTHER (sched(7)). A thread that has got another policy keeps it.
// Threads inherit theirs from those that make them, but Go has none made by one that is locked to a goroutine.
func setPatient(patient bool) error {
	policy, _, failed := unix.RawSyscall(unix.SYS_SCHED_GETSCHEDULER, 0, 0, 0)
	if failed != 0 {
		return fmt.Errorf("asking for the policy of a thread: %w", failed)
	}
	if policy != unix.SCHED_NORMAL && policy != unix.SCHED_BATCH {
		return nil
	}
	wanted := uintptr(unix.SCHED_NORMAL)
	if patient {
		wanted = unix.SCHED_BATCH
	}
	var priority int32 // has to be 0
	if _, _, failed := unix.RawSyscall(unix.SYS_SCHED_SETSCHEDULER, 0, wanted, uintptr(unsafe.Pointer(&priority))); failed != 0 {
		return fmt.Errorf("changing the policy of a thread: %w", failed)
	}
	return nil
}

// bePatient has all reactors be patient, or not. The caller holds s.mu.
func (s *Server) bePatient(patient bool) {
	if s.patient == patient {
		return
	}
	s.patient = patient
	for _, r := range s.reactors {
		r.post(func() {
			if err := setPatient(patient); err != nil {
				s.logger.Debug("a reactor can't wait for others", "error", err)
			}
		})
	}
}
