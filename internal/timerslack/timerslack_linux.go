// Package timerslack lets timers wake the threads of a process that imports it up to 0.2 ms late.
// The kernel does so up to 0.05 ms by itself.
//
// Go's monitor thread sleeps for 20 µs again and again as long as others go to sleep in the kernel
// and wake up, which those that read from the disk do all the time. Each time it is woken takes a
// few microseconds from a processor, and on a virtual machine an exit to its host; it needn't be
// that exact. What else is woken by a timer has milliseconds and more.
//
// The slack is a thread's, and threads inherit it from those that make them; so it has to be set
// before Go starts its own, which is why this is in C. It imports nothing. See prctl(2),
// PR_SET_TIMERSLACK.
package timerslack

/*
#include <sys/prctl.h>

__attribute__((constructor)) static void set_timer_slack(void) {
	prctl(PR_SET_TIMERSLACK, 200000UL, 0UL, 0UL, 0UL);
}
*/
import "C"
