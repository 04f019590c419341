package hugepage

import (
	"os"
	"strings"
	"testing"
)

// TestAdvise asks for large pages under a large slice and looks whether the kernel took note.
func TestAdvise(t *testing.T) {
	enabled, err := os.ReadFile("/sys/kernel/mm/transparent_hugepage/enabled")
	if err != nil || strings.Contains(string(enabled), "[never]") {
		t.Skip("this kernel has no transparent huge pages, and then there is nothing to ask it for")
	}
	memory := make([]byte, 8*size)
	Advise(memory)
	for i := 0; i < len(memory); i += 4096 {
		memory[i] = 1
	}
	maps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(string(maps), "\n") {
		if flags, ok := strings.CutPrefix(line, "VmFlags:"); ok && strings.Contains(flags+" ", " hg ") {
			return
		}
	}
	t.Error("no memory of this process is marked for huge pages")
}
