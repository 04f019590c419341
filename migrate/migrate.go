// Package migrate moves data: from a running Redis or Kedis to another one, from and to files, and
// it compares two servers. It is what the subcommands port, verify, import and export, and MIGRATE,
// share.
//
// What is read (a snapshot, a stream of writes, a file) goes through a Filter, which says which
// keys are meant and what they are called at the target, into a Sink, which writes them. Progress
// tells how far it is.
//
// The package knows the protocol and the serialization of Redis, and no command of ours: where keys
// stand in a command, a Commands tells. It may import binlog, storage/rdb, storage/digest,
// storage/fieldtimes, internal packages, the client library and golang.org/x/sys.
// docs/migration.md is the user's guide.
package migrate

import "kedis/storage/rdb"

// Key is a key as it is to stand at the target.
type Key struct {
	Database int
	Name     []byte
	ExpireMs int64 // when it expires, in ms since 1970; 0 is never
	Held     bool  // it and its fields don't expire before Target.Release: see expiry.go
}

// Command is a write. Its words are not changed by whoever gets it, and stay valid.
type Command struct {
	Database int
	Args     [][]byte
	Keys     []KeyPosition
	Wide     bool // reads keys that can't be told from its words
}

// KeyPosition is a key among a command's words.
type KeyPosition struct {
	Index    int
	ReadOnly bool // the command doesn't change this key
}

// Commands tells where keys stand in commands.
type Commands interface {
	// Keys appends the positions of a command's keys. known is false for a command that isn't
	// known.
	Keys(dst []KeyPosition, args [][]byte) (keys []KeyPosition, known bool, err error)
}

// Sink takes what is moved. Its methods are for one goroutine. They may return before anything is
// written, and an error may be that of an earlier call; after an error a Sink takes no more.
type Sink interface {
	// Load writes a key with its value in place of what was there. The value is read to its end.
	Load(key Key, value *rdb.Value) error
	// LoadLibrary writes a library of functions, by its source, in place of the one of that name.
	LoadLibrary(source []byte) error
	// Apply carries commands out, all or none of them where the target can do that.
	Apply(commands ...Command) error
	// Flush waits until all that came before is written.
	Flush() error
}
