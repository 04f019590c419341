//go:build !linux

package hugepage

import "time"

// advise has no counterpart here.
func advise(from, to uintptr) {}

// populate leaves pages to their first use.
func populate(from, to uintptr) {}

// refuse has no counterpart here.
func refuse(from, to uintptr) {}

// threadTime isn't known here.
func threadTime() time.Duration { return 0 }
