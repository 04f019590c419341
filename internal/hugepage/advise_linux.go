package hugepage

import "golang.org/x/sys/unix"

// advise is only a hint: that the kernel doesn't know it, or that a part of the range isn't mapped, is no error.
func advise(from, to uintptr) {
	_, _, _ = unix.Syscall(unix.SYS_MADVISE, from, to-from, unix.MADV_HUGEPAGE)
}

// populate leaves pages to their first use where the kernel is older than 5.14 and doesn't know how.
func populate(from, to uintptr) {
	_, _, _ = unix.Syscall(unix.SYS_MADVISE, from, to-from, unix.MADV_POPULATE_WRITE)
}
