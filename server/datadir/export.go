package datadir

import (
	"context"
	"errors"
	"io"

	"github.com/hashicorp/go-hclog"

	"kedis/internal/config"
	"kedis/replication"
	"kedis/server/command"
)

// WriteSnapshot writes the configuration's data directory as an RDB file, while no server runs. It
// recovers the data first, and leaves the log as long as it is: how much of it is to be kept is the
// server's to say.
func WriteSnapshot(ctx context.Context, c *config.Config, w io.Writer, version string, logger hclog.Logger) (err error) {
	d, err := Open(c, logger)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	d.Log().Hold(d.Log().First()) // until it is closed
	if err := d.Recover(ctx, command.NewEngine(d.Store, c, d, logger, 1)); err != nil {
		return err
	}
	view := d.Store.View()
	defer view.Release()
	return replication.WriteSnapshot(ctx, w, d.Store, view, d.Log().History().ID, version)
}
