package config

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
)

// MachineMemory is the memory in bytes that this process may use: the machine's, or less when a
// control group (a container, a systemd unit) limits it. It is 1 GiB where Linux's files don't
// tell.
func MachineMemory() int64 { return machineMemory(os.DirFS("/")) }

// machineMemory reads the files below root, which is "/" or a test's.
func machineMemory(root fs.FS) int64 {
	total := int64(1 << 30)
	meminfo, err := fs.ReadFile(root, "proc/meminfo")
	var kibibytes int64
	if n, _ := fmt.Sscanf(string(meminfo), "MemTotal: %d kB", &kibibytes); err == nil && n == 1 && kibibytes > 0 {
		total = kibibytes << 10
	}
	for _, file := range controlGroupLimits(root) {
		content, err := fs.ReadFile(root, file)
		if err != nil {
			continue // the file exists only where the controller is in use
		}
		// "max", the word for no limit, is no number.
		limit, err := strconv.ParseInt(strings.TrimSpace(string(content)), 10, 64)
		if err == nil && limit > 0 {
			total = min(total, limit)
		}
	}
	return total
}

// controlGroupLimits lists the files that may limit this process: of its group and of the groups
// around it in version 2, and of version 1.
func controlGroupLimits(root fs.FS) []string {
	files := []string{"sys/fs/cgroup/memory/memory.limit_in_bytes"}
	groups, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return files
	}
	for line := range strings.Lines(string(groups)) {
		group, unified := strings.CutPrefix(strings.TrimSpace(line), "0::")
		if !unified {
			continue
		}
		for group = path.Clean("/" + group); ; group = path.Dir(group) {
			files = append(files, path.Join("sys/fs/cgroup", group, "memory.max"))
			if group == "/" {
				break
			}
		}
	}
	return files
}
