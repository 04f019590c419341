// Package hugepage asks the kernel for large pages under memory that is read at random, where each access would otherwise miss the
// processor's table of page translations as well as its caches.
//
// It imports the standard library and golang.org/x/sys only.
package hugepage

import (
	"unsafe"
)

// size is that of a huge page on the processors that Kedis is built for.
const size = 2 << 20

// Advise asks for large pages under a slice that was just made, before it is first touched. What lies beside it in the same large pages is advised too, since the heap puts the next slice there. Where
// the kernel has no large pages, or gives them to everybody, nothing changes. Large pages that are used only in part take memory that nobody
// asked for, so it is for what is large or is made again and again.
func Advise[T any](slice []T) {
	if cap(slice) == 0 {
		return
	}
	var element T
	start := uintptr(unsafe.Pointer(unsafe.SliceData(slice)))
	end := start + uintptr(cap(slice))*unsafe.Sizeof(element)
	advise(start&^(size-1), (end+size-1)&^(size-1))
}
