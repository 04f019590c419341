package migrate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"kedis/storage/rdb"
)

// DryRun reads a snapshot of the source and counts what would be moved.
func DryRun(ctx context.Context, options PortOptions) (*Census, error) {
	link, answer, err := attach(ctx, options.From, "", Position{})
	if err != nil {
		return nil, err
	}
	if !answer.Full {
		return nil, errors.Join(errors.New("migrate: the source sends no snapshot"), link.close())
	}
	options.Progress.Phase("counting")
	census := &Census{Kinds: map[rdb.Kind]*Tally{}}
	body, length, err := link.snapshot()
	if err == nil {
		options.Progress.Total.Store(max(length, 0))
		loader := loader{sink: census, filter: options.Filter, progress: options.Progress, interrupted: ctx.Err, sized: census.size}
		err = loader.load(body)
	}
	return census, errors.Join(sourceSide.explain(options.From.address(), err), link.close())
}

// Census is a Sink that counts.
type Census struct {
	Kinds map[rdb.Kind]*Tally
	open  bool // the last key's size is still to come
}

// Tally is how many keys there are of a type, and how large they are in a snapshot.
type Tally struct{ Keys, Bytes int64 }

// Load counts a key.
func (c *Census) Load(_ Key, value *rdb.Value) error {
	if c.Kinds[value.Kind] == nil {
		c.Kinds[value.Kind] = &Tally{}
	}
	c.Kinds[value.Kind].Keys++
	c.open = true
	for value.Next() {
	}
	return value.Err()
}

// size adds the size of a key, if it was counted.
func (c *Census) size(kind rdb.Kind, bytes int64) {
	if c.open {
		c.Kinds[kind].Bytes += bytes
	}
	c.open = false
}

// LoadLibrary doesn't count.
func (c *Census) LoadLibrary([]byte) error { return nil }

// Apply fails: a snapshot has no commands.
func (c *Census) Apply(...Command) error { return errors.New("migrate: a census takes no commands") }

// Flush does nothing: everything is counted at once.
func (c *Census) Flush() error { return nil }

// String lists the types.
func (c *Census) String() string {
	var b strings.Builder
	var all Tally
	row := func(name string, t Tally) { fmt.Fprintf(&b, "%-8s %12d keys %12s\n", name, t.Keys, Size(t.Bytes)) }
	for _, kind := range slices.Sorted(maps.Keys(c.Kinds)) {
		row(kind.String(), *c.Kinds[kind])
		all.Keys += c.Kinds[kind].Keys
		all.Bytes += c.Kinds[kind].Bytes
	}
	row("all", all)
	return b.String()
}
