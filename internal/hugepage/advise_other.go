//go:build !linux

package hugepage

// advise has no counterpart here.
func advise(from, to uintptr) {}
