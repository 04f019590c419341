package hugepage

import (
	"time"

	"golang.org/x/sys/unix"
)

// advise is only a hint: that the kernel doesn't know it, or that a part of the range isn't mapped,
// is no error.
func advise(from, to uintptr) {
	_, _, _ = unix.Syscall(unix.SYS_MADVISE, from, to-from, unix.MADV_HUGEPAGE)
}

// refuse asks for small pages only. It is a hint as well: a kernel without large pages doesn't know
// it and has none, and where it can't be noted (parts that aren't mapped, too many mappings) pages
// stay of the kind that they were, which costs time at most, and Choice measures that.
func refuse(from, to uintptr) {
	_, _, _ = unix.Syscall(unix.SYS_MADVISE, from, to-from, unix.MADV_NOHUGEPAGE)
}

// populate leaves pages to their first use where the kernel is older than 5.14 and doesn't know
// how.
func populate(from, to uintptr) {
	_, _, _ = unix.Syscall(unix.SYS_MADVISE, from, to-from, unix.MADV_POPULATE_WRITE)
}

// threadTime is how long this thread has had a processor; 0 where the kernel doesn't say.
func threadTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		return 0
	}
	return time.Duration(t.Nano())
}
