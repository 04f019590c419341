package launch

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// PeakMemory watches a process until exited is closed, and returns the most memory that it had, in bytes, to within what it took in the
// last few milliseconds. What the kernel tells of a process that has ended (ru_maxrss) won't do: that begins with the size of the one
// that started it.
func PeakMemory(pid int, exited <-chan struct{}) (bytes int64) {
	for {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err == nil {
			bytes = max(bytes, peakIn(string(text)))
		}
		select {
		case <-exited:
			return bytes
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// peakIn finds the line VmHWM of /proc/PID/status, which has kilobytes; a process that has ended has none.
func peakIn(status string) int64 {
	_, line, _ := strings.Cut(status, "VmHWM:")
	fields := strings.Fields(line)
	if len(fields) == 0 {
		return 0
	}
	kilobytes, err := strconv.ParseInt(fields[0], 10, 64)
	if err != nil {
		return 0
	}
	return kilobytes << 10
}
