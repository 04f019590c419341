package command

import "kedis/server/execute"

// What rows and their functions are written in is package execute's. It is named here, so that a
// row reads as one.
type (
	// Invocation is what a command's function works with.
	Invocation = execute.Invocation

	Command      = execute.Command
	Family       = execute.Family
	Request      = execute.Request
	Engine       = execute.Engine
	Session      = execute.Session
	Table        = execute.Table
	Flags        = execute.Flags
	Categories   = execute.Categories
	KeySpec      = execute.KeySpec
	KeyReference = execute.KeyReference
	KeyFlags     = execute.KeyFlags
	Error        = execute.Error
)

// The flags of commands.
const (
	Write           = execute.Write
	ReadOnly        = execute.ReadOnly
	DenyOOM         = execute.DenyOOM
	Admin           = execute.Admin
	PubSub          = execute.PubSub
	NoScript        = execute.NoScript
	Blocking        = execute.Blocking
	Loading         = execute.Loading
	Stale           = execute.Stale
	SkipMonitor     = execute.SkipMonitor
	SkipSlowlog     = execute.SkipSlowlog
	Asking          = execute.Asking
	Fast            = execute.Fast
	NoAuth          = execute.NoAuth
	MayReplicate    = execute.MayReplicate
	NoMandatoryKeys = execute.NoMandatoryKeys
	NoAsyncLoading  = execute.NoAsyncLoading
	NoMulti         = execute.NoMulti
	MovableKeys     = execute.MovableKeys
	AllowBusy       = execute.AllowBusy
	Exclusive       = execute.Exclusive
	Worker          = execute.Worker
	Walk            = execute.Walk
	Follow          = execute.Follow
	NoBatch         = execute.NoBatch
	AtOnce          = execute.AtOnce
	Protected       = execute.Protected
)

// The ACL categories.
const (
	CategoryKeyspace    = execute.CategoryKeyspace
	CategorySet         = execute.CategorySet
	CategorySortedSet   = execute.CategorySortedSet
	CategoryList        = execute.CategoryList
	CategoryHash        = execute.CategoryHash
	CategoryString      = execute.CategoryString
	CategoryBitmap      = execute.CategoryBitmap
	CategoryHyperLogLog = execute.CategoryHyperLogLog
	CategoryStream      = execute.CategoryStream
	CategoryGeo         = execute.CategoryGeo
	CategoryAdmin       = execute.CategoryAdmin
	CategoryDangerous   = execute.CategoryDangerous
	CategoryConnection  = execute.CategoryConnection
	CategoryTransaction = execute.CategoryTransaction
	CategoryScripting   = execute.CategoryScripting
)

// The flags of keys.
const (
	RW            = execute.RW
	RO            = execute.RO
	OW            = execute.OW
	RM            = execute.RM
	Access        = execute.Access
	Update        = execute.Update
	Insert        = execute.Insert
	Delete        = execute.Delete
	NotKey        = execute.NotKey
	Incomplete    = execute.Incomplete
	VariableFlags = execute.VariableFlags
)

// What is looked up ahead.
const (
	PrefetchElement     = execute.PrefetchElement
	PrefetchLastElement = execute.PrefetchLastElement
	PrefetchLeft        = execute.PrefetchLeft
	PrefetchRight       = execute.PrefetchRight
)

// Replies that the executor gives, too.
const (
	ErrSyntax     = execute.ErrSyntax
	ErrNotInteger = execute.ErrNotInteger
	ErrWrongType  = execute.ErrWrongType
	ErrDBIndex    = execute.ErrDBIndex
)

// Errorf makes an error reply.
func Errorf(format string, args ...any) Error { return execute.Errorf(format, args...) }

// oneKey is a single key at a word.
func oneKey(index int, flags KeyFlags) KeySpec {
	return KeySpec{Flags: flags, Index: index, Step: 1}
}

// keyRange is several keys from a word on; last counts from there, or from the end if negative.
func keyRange(index, last, step int, flags KeyFlags) KeySpec {
	return KeySpec{Flags: flags, Index: index, Last: last, Step: step}
}

// countedKeys is a number of keys at a word, and the keys behind it.
func countedKeys(index int, flags KeyFlags) KeySpec {
	return KeySpec{Flags: flags, Index: index, Counted: true, Count: 0, First: 1, Step: 1}
}
