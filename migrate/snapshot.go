package migrate

import (
	"context"
	"errors"
)

// ReadServer reads what a running server has at one moment: it attaches as a replica does, and
// leaves when it has the snapshot.
func (f *Files) ReadServer(ctx context.Context, server Server, to Sink) (err error) {
	l, answer, err := attach(ctx, server, "", Position{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	if !answer.Full {
		return failure(ExitSource, "the source %s sends no snapshot", server.address())
	}
	snapshot, length, err := l.snapshot()
	if err != nil {
		return sourceSide.explain(server.address(), err)
	}
	return f.ReadSnapshot(ctx, "the snapshot of "+server.address(), snapshot, length, to)
}
