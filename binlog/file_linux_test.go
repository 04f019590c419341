package binlog

import (
	"errors"
	"syscall"
	"testing"
)

// TestSyncAsksTheKernel: a device that can't be synced is opened as any file, and it is only the
// kernel that refuses.
func TestSyncAsksTheKernel(t *testing.T) {
	const device = "/dev/null"
	f, err := disk{}.open(device)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.sync(); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("to sync %s as a file: %v", device, err)
	}
	if err := (disk{}).syncDirectory(device); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("to sync %s as a directory: %v", device, err)
	}
}
