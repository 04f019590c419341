package launch

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Freeze stops a process until it gets SIGCONT. When it returns, none of the threads runs any more:
// on a busy machine those that the signal has not reached yet go on for a while.
func Freeze(pid int) error {
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return err
	}
	for {
		frozen, err := allStopped(pid)
		if frozen || err != nil {
			return err
		}
		time.Sleep(time.Millisecond)
	}
}

func allStopped(pid int) (bool, error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil {
		return false, err
	}
	for _, thread := range threads {
		fields, err := statistics(thread)
		switch {
		case errors.Is(err, os.ErrNotExist), errors.Is(err, syscall.ESRCH): // it has ended
		case err != nil:
			return false, err
		case !slices.Contains([]string{"T", "t", "Z", "X"}, fields[0]):
			return false, nil
		}
	}
	return true, nil
}

// statistics are the fields of a stat file of proc(5) from the third on: the second is a name,
// which may hold anything, and ends with the last parenthesis.
func statistics(file string) ([]string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 13 {
		return nil, fmt.Errorf("%s is %q", file, text)
	}
	return fields, nil
}

// ProcessField reads one number of a file in /proc/PID that has lines of "name: number"; see
// proc(5).
func ProcessField(pid int, file, name string) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
	if err != nil {
		return 0, err
	}
	for line := range strings.SplitSeq(string(text), "\n") {
		if words := strings.Fields(line); len(words) >= 2 && words[0] == name+":" {
			return strconv.ParseInt(words[1], 10, 64)
		}
	}
	return 0, fmt.Errorf("/proc/PID/%s has no %s", file, name)
}

// ProcessMemory is a size of a process's memory in bytes, by its name in /proc/PID/status: VmRSS,
// VmHWM, RssAnon, RssFile.
func ProcessMemory(pid int, name string) (bytes int64, err error) {
	kilobytes, err := ProcessField(pid, "status", name)
	return kilobytes << 10, err
}

// PeakMemory watches a process until exited is closed, and returns the most memory that it had, in
// bytes, to within what it took in the last few milliseconds. What the kernel tells of a process
// that has ended (ru_maxrss) won't do: that begins with the size of the one that started it.
func PeakMemory(pid int, exited <-chan struct{}) (most int64) {
	for {
		// A process that has ended has none.
		if size, err := ProcessMemory(pid, "VmHWM"); err == nil {
			most = max(most, size)
		}
		select {
		case <-exited:
			return most
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// ProcessorTime is how long a process has computed, in all threads and in the kernel, in steps of
// 10 ms.
func ProcessorTime(pid int) (time.Duration, error) {
	fields, err := statistics(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	var sum time.Duration
	for _, field := range fields[11:13] { // 14 and 15 of proc(5), in hundredths of a second
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, err
		}
		sum += time.Duration(ticks) * 10 * time.Millisecond
	}
	return sum, nil
}
