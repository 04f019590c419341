package binlog

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// files is what the log asks of a file system to write itself. Tests put one under it that fails.
type files interface {
	// create makes an empty file for reading and writing, in place of one that an earlier attempt
	// may have left.
	create(path string) (file, error)
	// open opens an existing file for reading and writing.
	open(path string) (file, error)
	remove(path string) error
	// syncDirectory makes the creation and removal of files in a directory durable.
	syncDirectory(path string) error
	// free returns how many bytes the disk has for files in a directory.
	free(directory string) (int64, error)
}

// file is one open file of the log. Reads, writes and syncs may run at the same time; writes come
// one at a time.
type file interface {
	io.ReaderAt
	// writeAt writes the pieces one behind the other at an offset: all of them, or it returns an
	// error.
	writeAt(pieces [][]byte, offset int64) error
	// allocate reserves the file's first size bytes on disk; what is new reads as zeros. An error
	// may leave a part.
	allocate(size int64) error
	truncate(size int64) error
	// sync makes the file's bytes, and what is needed to read them again, durable.
	sync() error
	size() (int64, error)
	Close() error
}

// disk is the real file system.
type disk struct{}

func (disk) create(path string) (file, error) {
	return openDiskFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
}

func (disk) open(path string) (file, error) { return openDiskFile(path, os.O_RDWR) }

func (disk) remove(path string) error { return os.Remove(path) }

func (disk) syncDirectory(path string) error {
	directory, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(directory.Sync(), directory.Close())
}

func (disk) free(directory string) (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(directory, &s); err != nil {
		return 0, &os.PathError{Op: "statfs", Path: directory, Err: err}
	}
	return int64(min(s.Bavail, math.MaxInt64/uint64(s.Bsize)) * uint64(s.Bsize)), nil
}

func openDiskFile(path string, flags int) (file, error) {
	f, err := os.OpenFile(path, flags, 0o640)
	if err != nil {
		return nil, err
	}
	return &diskFile{File: f, descriptor: f.Fd()}, nil
}

// diskFile adds to os.File what the standard library lacks.
type diskFile struct {
	*os.File
	descriptor uintptr
	vectors    []unix.Iovec // reused by writeAt
}

const (
	maxVectors = 1024    // IOV_MAX of Linux
	zeroBlock  = 1 << 20 // what allocate writes at once where there is no fallocate
)

func (f *diskFile) writeAt(pieces [][]byte, offset int64) error {
	first := 0 // bytes of pieces[0] that are already written
	for len(pieces) > 0 {
		if len(pieces[0]) == first {
			pieces, first = pieces[1:], 0
			continue
		}
		n, err := f.writeVector(pieces, first, offset)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return &os.PathError{Op: "write", Path: f.Name(), Err: err}
		}
		if n == 0 {
			return &os.PathError{Op: "write", Path: f.Name(), Err: io.ErrShortWrite}
		}
		offset += int64(n)
		for first += n; len(pieces) > 0 && first >= len(pieces[0]); pieces = pieces[1:] {
			first -= len(pieces[0])
		}
	}
	return nil
}

// writeVector is one pwritev of as many pieces as it takes. unix.Pwritev would allocate for more
// than eight.
func (f *diskFile) writeVector(pieces [][]byte, first int, offset int64) (int, error) {
	f.vectors = f.vectors[:0]
	for i, piece := range pieces {
		if i == 0 {
			piece = piece[first:]
		}
		if len(piece) == 0 {
			continue
		}
		if len(f.vectors) == maxVectors {
			break
		}
		vector := unix.Iovec{Base: unsafe.SliceData(piece)}
		vector.SetLen(len(piece))
		f.vectors = append(f.vectors, vector)
	}
	n, _, errno := syscall.Syscall6(unix.SYS_PWRITEV, f.descriptor, uintptr(unsafe.Pointer(unsafe.SliceData(f.vectors))),
		uintptr(len(f.vectors)), uintptr(offset), 0, 0)
	clear(f.vectors) // or the payloads would be kept from the collector
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

func (f *diskFile) allocate(size int64) error {
	err := ignoringInterrupts(func() error { return unix.Fallocate(int(f.descriptor), 0, 0, size) })
	if err == unix.EOPNOTSUPP || err == unix.ENOSYS {
		return f.fill(size)
	}
	if err != nil {
		return &os.PathError{Op: "allocate", Path: f.Name(), Err: err}
	}
	return nil
}

// fill reserves space by writing zeros behind the file's end, for file systems that can't allocate.
func (f *diskFile) fill(size int64) error {
	at, err := f.size()
	if err != nil {
		return err
	}
	block := make([]byte, min(zeroBlock, max(0, size-at)))
	for at < size {
		n, err := f.WriteAt(block[:min(int64(len(block)), size-at)], at)
		if err != nil {
			return err
		}
		at += int64(n)
	}
	return nil
}

func (f *diskFile) truncate(size int64) error { return f.Truncate(size) }

func (f *diskFile) sync() error {
	err := ignoringInterrupts(func() error { return unix.Fdatasync(int(f.descriptor)) })
	if err != nil {
		return &os.PathError{Op: "sync", Path: f.Name(), Err: err}
	}
	return nil
}

func (f *diskFile) size() (int64, error) {
	information, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return information.Size(), nil
}

func ignoringInterrupts(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}

// lockDirectory keeps every other process from opening the log in a directory until the returned
// file is closed.
func lockDirectory(path string) (*os.File, error) {
	directory, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("binlog: %w", err)
	}
	err = ignoringInterrupts(func() error { return unix.Flock(int(directory.Fd()), unix.LOCK_EX|unix.LOCK_NB) })
	if err == nil {
		return directory, nil
	}
	if err == unix.EWOULDBLOCK {
		err = errors.New("another process has this log open")
	}
	return nil, errors.Join(fmt.Errorf("binlog: %s: %w", path, err), directory.Close())
}
