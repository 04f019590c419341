package server

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// ticksPerSecond is USER_HZ, the unit of /proc/stat, which is the same on all processors that Go
// knows.
const ticksPerSecond = 100

// readProcessorTimes asks the kernel: getrusage(2), clock_gettime(2), and the first line of
// /proc/stat, as proc_stat(5) has it:
//
//	cpu user nice system idle iowait …
func readProcessorTimes() (processorTimes, error) {
	var t processorTimes
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		return t, fmt.Errorf("server: getrusage: %w", err)
	}
	t.used = time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return t, fmt.Errorf("server: clock_gettime: %w", err)
	}
	t.at = time.Duration(now.Nano())
	idle, err := idleTicks()
	t.idle = time.Duration(idle) * time.Second / ticksPerSecond
	return t, err
}

func idleTicks() (int64, error) {
	file, err := os.Open("/proc/stat")
	if err != nil {
		return 0, fmt.Errorf("server: %w", err)
	}
	defer file.Close()
	var line [256]byte
	n, err := file.Read(line[:])
	if err != nil {
		return 0, fmt.Errorf("server: %w", err)
	}
	fields := bytes.Fields(line[:n])
	if len(fields) < 6 || string(fields[0]) != "cpu" {
		return 0, fmt.Errorf("server: /proc/stat begins with %q", line[:n])
	}
	var ticks int64
	for _, field := range fields[4:6] {
		more, err := strconv.ParseInt(string(field), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("server: /proc/stat: %w", err)
		}
		ticks += more
	}
	return ticks, nil
}
