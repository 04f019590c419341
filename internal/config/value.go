package config

import "sync/atomic"

// Value is an option's live value. Get is two loads from memory, without a lock, and may be called
// from any goroutine; what it returns must not be changed.
type Value[T any] struct {
	now  atomic.Pointer[T]
	kind kind[T]
}

// Get returns the value in force.
func (v *Value[T]) Get() T { return *v.now.Load() }

// The types of the options' values. Numbers are in the unit that the option's documentation names.
type (
	Int        = Value[int64]
	Bytes      = Value[int64]
	String     = Value[string]
	StringList = Value[[]string]
	Bool       = Value[bool]
)

// setting is what the table needs of a Value, whatever its type.
type setting interface {
	// prepare checks text, which has no effect until store is called; undo takes store back.
	// The error is what Redis answers to a CONFIG SET.
	prepare(text string) (change, error)
	// String is the value as CONFIG GET answers it.
	String() string
	// lines is the value as a configuration file holds it: what follows the name, for each line.
	lines() []string
	// expects completes "expected …".
	expects() string
	isList() bool
}

type change struct {
	store, undo func()
	isChange    bool // CONFIG GET will answer something else
}

func (v *Value[T]) prepare(text string) (change, error) {
	old := v.now.Load()
	var base T
	if old != nil {
		base = *old
	}
	next, err := v.kind.parse(text, base)
	if err != nil {
		return change{}, err
	}
	return change{
		store:    func() { v.now.Store(&next) },
		undo:     func() { v.now.Store(old) },
		isChange: old == nil || v.kind.show(next) != v.kind.show(base),
	}, nil
}

func (v *Value[T]) String() string { return v.kind.show(v.Get()) }

func (v *Value[T]) lines() []string {
	if v.kind.write == nil {
		return []string{v.String()}
	}
	return v.kind.write(v.Get())
}

func (v *Value[T]) expects() string { return v.kind.expects }

func (v *Value[T]) isList() bool { return v.kind.list }
