package commandline

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"kedis/binlog"
	"kedis/storage"
)

func binlogCommand() *cli.Command {
	from := &cli.StringFlag{Name: "from", Usage: "the `position` to begin at (default: the log's beginning)"}
	to := &cli.StringFlag{Name: "to", Usage: "the `position or time` to end at, such as 2026-11-21T07:30:00Z (default: the log's end)"}
	force := &cli.BoolFlag{Name: "force", Usage: "cut also a log with which the server starts, so that it doesn't any more"}
	row := func(name, usage string, run func(*cli.Context, string) error, flags ...cli.Flag) *cli.Command {
		command := &cli.Command{Name: name, Usage: usage, ArgsUsage: "DIR", Flags: flags}
		return withOptions(command, func(ctx *cli.Context, words []string) error {
			if len(words) != 1 {
				return fmt.Errorf("binlog %s: expected one directory, got %d words", name, len(words))
			}
			if _, err := os.Stat(words[0]); err != nil {
				return err
			}
			err := run(ctx, words[0])
			if !errors.Is(err, binlog.ErrNoLog) {
				return err
			}
			within := filepath.Join(words[0], "binlog")
			entries, _ := os.ReadDir(within)
			var logs []string
			for _, entry := range entries {
				logs = append(logs, filepath.Join(within, entry.Name()))
			}
			if len(logs) > 0 {
				err = fmt.Errorf("%w, but in %s", err, strings.Join(logs, " "))
			}
			return err
		})
	}
	return &cli.Command{
		Name:            "binlog",
		Usage:           "read, check or repair a log (a directory such as data/binlog/1)",
		HideHelpCommand: true,
		Action:          refuseUnknown,
		Subcommands: []*cli.Command{
			row("dump", "print the commands of a log, one to a line", dumpLog, from, to),
			row("verify", "check a log, and tell where it is damaged", verifyLog, from, to),
			row("repair", "cut a log at its first bad record, and tell what that loses", repairLog, force),
		},
	}
}

func logRange(ctx *cli.Context) (binlog.Range, error) {
	var r binlog.Range
	if text := ctx.String("from"); text != "" {
		position, err := strconv.ParseInt(text, 10, 64)
		if err != nil || position < 0 {
			return r, fmt.Errorf("--from: expected a position, got %q", text)
		}
		r.From = position
	}
	return r, endOf(&r, ctx.String("to"))
}

// endOf sets a range's end from a position or a time.
func endOf(r *binlog.Range, text string) error {
	if text == "" {
		return nil
	}
	if position, err := strconv.ParseInt(text, 10, 64); err == nil && position > 0 {
		r.To = position
		return nil
	}
	for _, form := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02 15:04", time.DateOnly} {
		if at, err := time.ParseInLocation(form, text, time.Local); err == nil {
			r.Until = at
			return nil
		}
	}
	return fmt.Errorf("--to: expected a position, or a time such as 2026-11-21T07:30:00Z, got %q", text)
}

func dumpLog(ctx *cli.Context, directory string) error {
	r, err := logRange(ctx)
	if err != nil {
		return err
	}
	return binlog.Dump(directory, r, ctx.App.Writer)
}

func verifyLog(ctx *cli.Context, directory string) error {
	r, err := logRange(ctx)
	if err != nil {
		return err
	}
	report, err := binlog.Verify(directory, r, dataBeside(ctx, directory).position)
	if err != nil {
		return err
	}
	fmt.Fprint(ctx.App.Writer, report.String())
	if report.Short || report.Bad != nil && !report.Torn {
		return cli.Exit("", 1)
	}
	return nil
}

// data is what lies beside a log in a data directory, as far as it can be told.
type data struct {
	directory string
	position  int64 // that it has reached; 0 when there is none, or it belongs to another log
}

// dataBeside looks for the data to which the log DIR/binlog/N belongs, in DIR/db.
func dataBeside(ctx *cli.Context, log string) data {
	absolute, err := filepath.Abs(log)
	if err != nil {
		return data{}
	}
	found := data{directory: filepath.Join(filepath.Dir(filepath.Dir(absolute)), "db")}
	if _, err := os.Stat(filepath.Join(found.directory, "CURRENT")); err != nil {
		return data{}
	}
	position, number, err := storage.PersistedIn(found.directory)
	switch {
	case err != nil:
		fmt.Fprintf(ctx.App.ErrWriter, "kedis: what the data has reached can't be read: %v\n", err)
	case strconv.FormatUint(number, 10) == filepath.Base(absolute):
		found.position = position
	}
	return found
}

func repairLog(ctx *cli.Context, directory string) error {
	data := dataBeside(ctx, directory)
	report, err := binlog.Verify(directory, binlog.Range{}, data.position)
	if err != nil {
		return err
	}
	if report.Unread && report.BelowData() && !ctx.Bool("force") {
		fmt.Fprint(ctx.App.Writer, report.String())
		return fmt.Errorf("nothing was changed, since a server starts with this log and would not with one that is cut (--force cuts it all the same)")
	}
	cut, err := binlog.Repair(directory)
	if err != nil {
		return err
	}
	if cut == nil {
		fmt.Fprintln(ctx.App.Writer, "the log is sound; nothing was changed")
	} else {
		fmt.Fprintln(ctx.App.Writer, cut.String())
	}
	if report.BelowData() || report.Position < data.position {
		fmt.Fprintf(ctx.App.Writer, "the data has reached position %d, and the log ends below: the server does not start with it; "+
			"`kedis restore --checkpoint %s --binlog %s --to %d NEWDIR` makes a data directory of what the data has reached\n",
			data.position, data.directory, directory, data.position)
	}
	return nil
}
