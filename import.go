package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/urfave/cli/v2"

	"kedis/migrate"
	"kedis/server/command"
)

func importCommand() *cli.Command {
	flags := slices.Concat(serverFlags("to", "`host:port` of the server to write to"), filterFlags(), writeFlags(), []cli.Flag{
		&cli.StringFlag{Name: "on-unsupported", Usage: "what happens to a key whose value can't be imported: `fail` or skip", Value: "fail"},
		&cli.StringFlag{Name: "on-flush", Usage: "what happens at a FLUSHALL or FLUSHDB in an AOF: `fail`, apply or skip", Value: "fail"},
	})
	return withOptions(&cli.Command{
		Name:      "import",
		Usage:     "bring an RDB file or an AOF into a server",
		ArgsUsage: "FILE",
		Description: "FILE is an RDB file, an AOF, the directory or the manifest of an AOF of several files, or - for the\n" +
			"standard input. Exit codes: docs/migration.md.",
		Flags: flags,
	}, importFile)
}

// choice reads an option that is one of some words.
func choice(ctx *cli.Context, name string, words ...string) (string, error) {
	given := ctx.String(name)
	for _, word := range words {
		if given == word {
			return word, nil
		}
	}
	return "", usageError("--%s: expected one of %q, got %q", name, words, given)
}

func usageError(format string, arguments ...any) error {
	return &migrate.Error{Code: migrate.ExitUsage, Err: fmt.Errorf(format, arguments...)}
}

// interruptible ends with a signal.
func interruptible(ctx context.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
}

func importFile(ctx *cli.Context, words []string) error {
	if len(words) != 1 {
		return usageError("import: expected one file")
	}
	filter, err := filterOf(ctx)
	if err != nil {
		return err
	}
	unsupported, err := choice(ctx, "on-unsupported", "fail", "skip")
	if err != nil {
		return err
	}
	flush, err := choice(ctx, "on-flush", "fail", "apply", "skip")
	if err != nil {
		return err
	}
	work, stop := interruptible(ctx.Context)
	defer stop()
	progress := migrate.NewProgress(os.Stderr, "import")
	files := &migrate.Files{Filter: filter, Commands: keyTable{command.NewTable()}, Progress: progress, SkipUnsupported: unsupported == "skip", Flush: flush}
	err = importTo(work, ctx, files, words[0])
	progress.Stop()
	if errors.Is(err, context.Canceled) {
		return &migrate.Error{Code: migrate.ExitInterrupted, Err: errors.New("import: interrupted; what was written stays")}
	}
	if err != nil {
		return fmt.Errorf("import: %w", err)
	}
	fmt.Fprint(ctx.App.Writer, progress.Summary())
	return nil
}

// importTo writes to a server.
func importTo(work context.Context, ctx *cli.Context, files *migrate.Files, name string) (err error) {
	if ctx.String("to") == "" {
		return usageError("import: expected --to host:port")
	}
	conflicts, err := migrate.ParseConflicts(ctx.String("on-conflict"))
	if err != nil {
		return err
	}
	limit, err := migrate.ParseLimit(ctx.String("rate"))
	if err != nil {
		return err
	}
	target, err := migrate.OpenTarget(work, migrate.TargetOptions{
		Server: serverOf(ctx, "to"), Connections: ctx.Int("connections"), Conflicts: conflicts, Limit: limit, Progress: files.Progress})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	if err := target.Survey(files.Filter); err != nil {
		return err
	}
	return files.Read(work, name, os.Stdin, target)
}
