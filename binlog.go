package main

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/urfave/cli/v2"

	"kedis/binlog"
)

func binlogCommand() *cli.Command {
	from := &cli.StringFlag{Name: "from", Usage: "the `position` to begin at (default: the log's beginning)"}
	to := &cli.StringFlag{Name: "to", Usage: "the `position or time` to end at, such as 2026-11-21T07:30:00Z (default: the log's end)"}
	row := func(name, usage string, run func(*cli.Context, string) error, flags ...cli.Flag) *cli.Command {
		command := &cli.Command{Name: name, Usage: usage, ArgsUsage: "DIR", Flags: flags}
		return withOptions(command, func(ctx *cli.Context, words []string) error {
			if len(words) != 1 {
				return fmt.Errorf("binlog %s: expected one directory, got %d words", name, len(words))
			}
			if _, err := os.Stat(words[0]); err != nil {
				return err
			}
			return run(ctx, words[0])
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
			row("repair", "cut a log at its first bad record, and tell what that loses", repairLog),
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
	for _, form := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02 15:04:05"} {
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
	report, err := binlog.Verify(directory, r)
	if err != nil {
		return err
	}
	fmt.Fprint(ctx.App.Writer, report.String())
	if report.Bad != nil && !report.Torn {
		return cli.Exit("", 1)
	}
	return nil
}

func repairLog(ctx *cli.Context, directory string) error {
	cut, err := binlog.Repair(directory)
	if err != nil {
		return err
	}
	if cut == nil {
		fmt.Fprintln(ctx.App.Writer, "the log is sound; nothing was changed")
		return nil
	}
	fmt.Fprintln(ctx.App.Writer, cut.String())
	return nil
}
