package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"kedis/binlog"
)

func binlogCommand() *cli.Command {
	from := &cli.StringFlag{Name: "from", Usage: "the `position` to begin at (default: the log's beginning)"}
	to := &cli.StringFlag{Name: "to", Usage: "the `position or time` to end at, such as 2026-11-21T07:30:00Z (default: the log's end)"}
	return &cli.Command{
		Name:  "binlog",
		Usage: "read, check or repair a log (a directory such as data/binlog/1)",
		Subcommands: []*cli.Command{
			{Name: "dump", Usage: "print the commands of a log, one to a line", ArgsUsage: "DIR",
				Flags: []cli.Flag{from, to}, Action: dumpLog},
			{Name: "verify", Usage: "check a log, and tell where it is damaged", ArgsUsage: "DIR",
				Flags: []cli.Flag{from, to}, Action: verifyLog},
			{Name: "repair", Usage: "cut a log at its first bad record, and tell what that loses", ArgsUsage: "DIR",
				Action: repairLog},
		},
	}
}

// oneDirectory is the directory that a command is given. Flags may stand behind it too.
func oneDirectory(ctx *cli.Context) (string, error) {
	words, err := flagsBehind(ctx)
	if err != nil {
		return "", err
	}
	if len(words) != 1 {
		return "", fmt.Errorf("%s: expected one directory, got %q", ctx.Command.FullName(), words)
	}
	if _, err := os.Stat(words[0]); err != nil {
		return "", err
	}
	return words[0], nil
}

// flagsBehind sets the flags that stand behind a command's first word, where the library doesn't look for
// them, and returns the other words.
func flagsBehind(ctx *cli.Context) ([]string, error) {
	var words []string
	args := ctx.Args().Slice()
	for i := 0; i < len(args); i++ {
		name, isFlag := strings.CutPrefix(args[i], "--")
		if !isFlag {
			words = append(words, args[i])
			continue
		}
		name, value, given := strings.Cut(name, "=")
		if !given {
			if i++; i == len(args) {
				return nil, fmt.Errorf("--%s: expected a value", name)
			}
			value = args[i]
		}
		if err := ctx.Set(name, value); err != nil {
			return nil, fmt.Errorf("--%s: %w", name, err)
		}
	}
	return words, nil
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

func dumpLog(ctx *cli.Context) error {
	directory, err := oneDirectory(ctx)
	if err != nil {
		return err
	}
	r, err := logRange(ctx)
	if err != nil {
		return err
	}
	return binlog.Dump(directory, r, ctx.App.Writer)
}

func verifyLog(ctx *cli.Context) error {
	directory, err := oneDirectory(ctx)
	if err != nil {
		return err
	}
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

func repairLog(ctx *cli.Context) error {
	directory, err := oneDirectory(ctx)
	if err != nil {
		return err
	}
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
