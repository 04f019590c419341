package server

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

func TestSetPatient(t *testing.T) {
	done := make(chan struct{})
	go func() { // whose thread ends with it
		defer close(done)
		runtime.LockOSThread()
		for _, patient := range []bool{true, true, false, true} {
			if err := setPatient(patient); err != nil {
				t.Error(err)
			}
			policy, _, _ := unix.RawSyscall(unix.SYS_SCHED_GETSCHEDULER, 0, 0, 0)
			if (policy == unix.SCHED_BATCH) != patient {
				t.Errorf("patient %t: policy %d", patient, policy)
			}
		}
	}()
	<-done
}
