//go:build !linux

package server

import "errors"

// readiness is not told here.
type readiness struct{}

func newReadiness() (*readiness, error) { return nil, errors.ErrUnsupported }
func (r *readiness) add(int) error      { return nil }
func (r *readiness) remove(int) error   { return nil }
func (r *readiness) any() bool          { return true }
func (r *readiness) close() error       { return nil }

func giveWay() {}
