package commandline

import (
	"fmt"

	"github.com/hashicorp/go-hclog"
	"github.com/urfave/cli/v2"

	"kedis/binlog"
	"kedis/internal/config"
	"kedis/server/datadir"
)

func restoreCommand() *cli.Command {
	return withOptions(&cli.Command{
		Name:      "restore",
		Usage:     "make a data directory from a checkpoint, and from a log as of a time or a position",
		ArgsUsage: "NEWDIR",
		Description: "The checkpoint is a directory that SAVE or BGSAVE made, the log a directory such as data/binlog/1 that\n" +
			"reaches back to it. What the log has later than --to is left out. Without a log the data is that of the\n" +
			"checkpoint. Both stay as they are.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "checkpoint", Usage: "the checkpoint's `directory`"},
			&cli.StringFlag{Name: "binlog", Usage: "the log's `directory` (default: none is applied)"},
			&cli.StringFlag{Name: "to", Usage: "the `time or position` to stop at (default: the log's end)"},
			&cli.StringFlag{Name: "databases", Usage: "the `number` of databases that the server was configured with", Value: "16"},
		},
	}, restore)
}

func restore(ctx *cli.Context, words []string) error {
	switch {
	case len(words) != 1 || ctx.String("checkpoint") == "":
		return fmt.Errorf("restore: expected --checkpoint DIR, perhaps --binlog DIR, and one new directory")
	case ctx.String("to") != "" && ctx.String("binlog") == "":
		return fmt.Errorf("restore: --to needs --binlog DIR: a checkpoint alone has no other position than its own")
	}
	c := config.New()
	if err := c.SetFlag("databases", ctx.String("databases")); err != nil {
		return err
	}
	if err := c.SetFlag("dir", words[0]); err != nil {
		return err
	}
	var to binlog.Range
	if err := endOf(&to, ctx.String("to")); err != nil {
		return err
	}
	logger := hclog.New(&hclog.LoggerOptions{Name: "kedis", Level: hclog.Warn, Output: ctx.App.ErrWriter})
	position, err := datadir.Restore(c, ctx.String("checkpoint"), ctx.String("binlog"), to, logger)
	if err != nil {
		return err
	}
	fmt.Fprintf(ctx.App.Writer, "%s is as of position %d\n", c.Dir.Get(), position)
	return nil
}
