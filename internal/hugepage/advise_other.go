//go:build !linux

package hugepage

// advise has no counterpart here.
func advise(from, to uintptr) {}

// populate leaves pages to their first use.
func populate(from, to uintptr) {}
