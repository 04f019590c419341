package rocks

// #include <stdlib.h>
// #include "shim.h"
import "C"

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"unsafe"
)

var (
	// ErrClosed is returned by calls on a database, or on a family of one, after its Close.
	ErrClosed = errors.New("rocks: the database is closed")
	// ErrDropped is returned by calls on a family after its Drop.
	ErrDropped = errors.New("rocks: the family was dropped")
	// ErrInUse is returned by Close and Drop while iterators or snapshots are open, and by Close
	// while a checkpoint is made.
	ErrInUse = errors.New("still in use")
	// ErrForeign is returned for a family of another database.
	ErrForeign = errors.New("rocks: the family belongs to another database")
	// ErrTooLarge is returned by Write for a batch with a key or value of 4 GiB or more, or with
	// 2^32 records.
	ErrTooLarge = errors.New("rocks: a key, value or batch is too large")
)

// The codes of rocksdb::Status (rocksdb/status.h) that decide something here.
const (
	codeCorruption      = 2
	codeIOError         = 5
	codeIncomplete      = 7
	subcodeNoSpace      = 4
	subcodeSpaceLimit   = 8 // the room that was set is used up
	subcodePathNotFound = 9 // a file that should be there is not
)

// Error is a rocksdb::Status that was not OK.
type Error struct {
	Operation     string // what was asked for
	Code, Subcode uint8  // of rocksdb::Status
	Missing       bool   // a file that the database names is not there
	Text          string // what RocksDB says about it, its kind first
}

func (e *Error) Error() string { return "rocks: " + e.Operation + ": " + e.Text }

// IsNoSpace reports whether an operation failed because the disk, or the room that was set for the
// database, is full.
func IsNoSpace(err error) bool {
	var e *Error
	if !errors.As(err, &e) {
		return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
	}
	return e.Code == codeIOError && (e.Subcode == subcodeNoSpace || e.Subcode == subcodeSpaceLimit)
}

// IsIncomplete reports whether a call was not done since it would have had to wait.
func IsIncomplete(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == codeIncomplete
}

// IsCorruption reports whether stored data was found damaged or missing.
func IsCorruption(err error) bool {
	var e *Error
	return errors.As(err, &e) && (e.Code == codeCorruption || e.Missing)
}

// IsLocked reports whether Open failed because the directory is in use already.
func IsLocked(err error) bool {
	var e *lockedError
	return errors.As(err, &e)
}

// lockedError says who holds a directory.
type lockedError struct {
	directory string
	owner     int // process id, or 0 when it could not be found out
	cause     error
}

func (e *lockedError) Error() string {
	switch e.owner {
	case 0:
		return fmt.Sprintf("rocks: open %s: it is in use already", e.directory)
	case os.Getpid():
		return fmt.Sprintf("rocks: open %s: this process has it open already", e.directory)
	default:
		return fmt.Sprintf("rocks: open %s: process %d holds it", e.directory, e.owner)
	}
}

func (e *lockedError) Unwrap() error { return e.cause }

// lockOwner looks a file's lock up in /proc/locks, whose lines read
//
//	1: POSIX  ADVISORY  WRITE 4242 fe:01:131074 0 EOF
//
// with the process and the file's device and inode. It returns 0 when it finds none.
func lockOwner(path string) int {
	var file syscall.Stat_t
	if syscall.Stat(path, &file) != nil {
		return 0
	}
	locks, err := os.Open("/proc/locks")
	if err != nil {
		return 0
	}
	defer locks.Close()
	device := uint64(file.Dev)
	major, minor := device>>8&0xfff|device>>32&^0xfff, device&0xff|device>>12&^0xff
	place := fmt.Sprintf("%02x:%02x:%d", major, minor, file.Ino)
	for lines := bufio.NewScanner(locks); lines.Scan(); {
		words := strings.Fields(lines.Text())
		if len(words) >= 6 && words[1] == "POSIX" && words[5] == place {
			owner, _ := strconv.Atoi(words[4]) // 0, unknown, is what we say anyway
			return max(owner, 0)               // a process outside of our namespace shows as -1
		}
	}
	return 0
}

// fromStatus makes an error of a status, whose message it frees.
func fromStatus(operation string, status C.rocks_status) error {
	if status.code == 0 {
		return nil
	}
	defer C.free(unsafe.Pointer(status.message))
	return &Error{Operation: operation, Code: uint8(status.code), Subcode: uint8(status.subcode),
		Missing: status.subcode == subcodePathNotFound, Text: C.GoString(status.message)}
}

// fromGrocksdb makes an error of what grocksdb returns: the text of a status, which begins with its
// code and subcode (Status::ToString) and from which alone they can be had. A file that is not
// there may be one that the caller named.
func fromGrocksdb(operation string, err error) error {
	if err == nil {
		return nil
	}
	return parseStatus(operation, err)
}

func parseStatus(operation string, err error) *Error {
	e := &Error{Operation: operation, Text: err.Error()}
	switch {
	case strings.HasPrefix(e.Text, "Corruption: "):
		e.Code = codeCorruption
	case strings.HasPrefix(e.Text, "IO error: No space left on device"):
		e.Code, e.Subcode = codeIOError, subcodeNoSpace
	case strings.HasPrefix(e.Text, "IO error: Space limit reached"):
		e.Code, e.Subcode = codeIOError, subcodeSpaceLimit
	case strings.HasPrefix(e.Text, "IO error: No such file or directory"):
		e.Code, e.Subcode = codeIOError, subcodePathNotFound
	case strings.HasPrefix(e.Text, "IO error: "):
		e.Code = codeIOError
	}
	return e
}
