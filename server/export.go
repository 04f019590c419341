package server

import (
	"context"
	"errors"
	"io"

	"github.com/hashicorp/go-hclog"

	"kedis/internal/config"
	"kedis/replication"
	"kedis/server/command"
)

// WriteSnapshot writes the data directory (the configuration's dir) of a server that doesn't run as an RDB file.
// What the log has and the data lacks is applied first, as a start does.
func WriteSnapshot(ctx context.Context, c *config.Config, w io.Writer, version string, logger hclog.Logger) (err error) {
	d, err := OpenData(c, logger)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	if err := d.Recover(ctx, command.NewEngine(d.Store, c, d, logger, 1)); err != nil {
		return err
	}
	view := d.Store.View()
	defer view.Release()
	return replication.WriteSnapshot(ctx, w, d.Store, view, d.Log().History().ID, version)
}
