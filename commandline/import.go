package commandline

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/hashicorp/go-hclog"
	"github.com/urfave/cli/v2"

	"kedis/internal/config"
	"kedis/migrate"
	"kedis/server/command"
	"kedis/server/datadir"
	"kedis/storage"
	"kedis/storage/rdb"
)

func importCommand() *cli.Command {
	flags := slices.Concat(serverFlags("to", "`host:port` of the server to write to"), encryptionFlags("", ""), filterFlags(), writeFlags(), []cli.Flag{
		&cli.StringFlag{Name: "on-flush", Usage: "what happens at a FLUSHALL or FLUSHDB in an AOF: `fail`, apply or skip", Value: "fail"},
	}, fileFlags("instead of --to: the data `directory` to make, for kedis serve --dir", "what happens to a key whose value can't be imported"))
	return withOptions(&cli.Command{
		Name:      "import",
		Usage:     "bring an RDB file or an AOF into a server",
		ArgsUsage: "FILE",
		Description: "FILE is an RDB file, an AOF, the directory or the manifest of an AOF of several files, a log of Kedis\n" +
			"(DIR/parted/… is what a former primary has written alone), or - for the standard input. Exit codes: docs/migration.md.",
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
	files, err := filesOf(ctx)
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
	files.Commands, files.Progress, files.Flush = keyTable{command.NewTable()}, progress, flush
	switch to, dir := ctx.String("to"), ctx.String("dir"); {
	case (to == "") == (dir == ""):
		err = usageError("expected --to host:port, or --dir directory")
	case to != "":
		err = importTo(work, ctx, files, words[0])
	default:
		err = importInto(work, ctx, files, words[0])
	}
	progress.Stop()
	if migrate.ExitCode(err) != migrate.ExitUsage {
		fmt.Fprint(ctx.App.Writer, progress.Summary())
	}
	if errors.Is(err, context.Canceled) {
		return &migrate.Error{Code: migrate.ExitInterrupted, Err: errors.New("import: interrupted")}
	}
	if err != nil {
		return fmt.Errorf("import: %w", err)
	}
	return nil
}

// importTo writes to a server.
func importTo(work context.Context, ctx *cli.Context, files *migrate.Files, name string) (err error) {
	conflicts, err := migrate.ParseConflicts(ctx.String("on-conflict"))
	if err != nil {
		return err
	}
	limit, err := migrate.ParseLimit(ctx.String("rate"))
	if err != nil {
		return err
	}
	server, err := serverOf(ctx, "to")
	if err != nil {
		return err
	}
	target, err := migrate.OpenTarget(work, migrate.TargetOptions{
		Server: server, Connections: ctx.Int("connections"), Conflicts: conflicts, Limit: limit, Progress: files.Progress})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	if err := target.Survey(files.Filter); err != nil {
		return err
	}
	files.Commands, files.Live = target.Commands(files.Commands), true
	if !migrate.IsTail(name) {
		files.Replay = func() error { return target.ReplaceBefore(files.Filter) }
	}
	if err := files.Read(work, name, os.Stdin, target); err != nil || !files.Held {
		return err
	}
	files.Progress.Phase("putting expiries right")
	_, err = target.Release(files.Filter)
	return err
}

// importInto fills a data directory.
func importInto(work context.Context, ctx *cli.Context, files *migrate.Files, name string) (err error) {
	c := config.New()
	for option, value := range map[string]string{"dir": ctx.String("dir"), "databases": ctx.String("databases"),
		"memory-tier": "32mb", "rocksdb-block-cache": "32mb"} {
		if err := c.SetFlag(option, value); err != nil {
			return usageError("%w", err)
		}
	}
	// The directory is a new one: nothing else is there that a command on a whole database could be
	// about, and what has expired goes when it is served.
	files.Expired = true
	if files.Flush == "fail" {
		files.Flush = "apply"
	}
	fill, err := datadir.NewFill(c, hclog.New(&hclog.LoggerOptions{Name: "kedis", Level: hclog.Warn, Output: ctx.App.ErrWriter}))
	if err != nil {
		return &migrate.Error{Code: migrate.ExitTarget, Err: err}
	}
	if err := files.Read(work, name, os.Stdin, &filling{fill, files.Progress}); err != nil {
		return errors.Join(err, fill.Abandon())
	}
	files.Progress.Phase("sorting")
	if err := fill.Finish(); err != nil {
		return errors.Join(failed(err), fill.Abandon())
	}
	return nil
}

// failed is an error of a fill with its exit code: of what was read, or else of where it goes.
func failed(err error) error {
	code := migrate.ExitTarget
	if errors.Is(err, storage.ErrDuplicate) || errors.Is(err, storage.ErrIncomplete) {
		code = migrate.ExitSource
	}
	return &migrate.Error{Code: code, Err: err}
}

// filling is a data directory that is being filled, as migrate sees it.
type filling struct {
	fill     *datadir.Fill
	progress *migrate.Progress
}

// Load takes one key.
func (f *filling) Load(key migrate.Key, value *rdb.Value) error {
	if key.Database >= f.fill.Databases() {
		return &migrate.Error{Code: migrate.ExitTarget, Err: fmt.Errorf("key %.200q is in database %d, of %d (see --databases and --db-map)",
			key.Name, key.Database, f.fill.Databases())}
	}
	if err := f.fill.Load(key.Database, key.Name, value, key.ExpireMs); err != nil {
		return failed(fmt.Errorf("key %.200q of type %s in database %d: %w", key.Name, value.Kind, key.Database, err))
	}
	f.progress.Keys.Add(1)
	return nil
}

// LoadLibrary takes a library of functions.
func (f *filling) LoadLibrary(source []byte) error {
	if err := f.fill.LoadLibrary(source); err != nil {
		return failed(fmt.Errorf("the library of functions %.60q …: %w", source, err))
	}
	return nil
}

// Apply carries commands out.
func (f *filling) Apply(commands ...migrate.Command) error {
	several := len(commands) > 1
	var err error
	if several {
		err = f.fill.Multi()
	}
	for _, c := range commands {
		if c.Database >= f.fill.Databases() {
			err = fmt.Errorf("a command is for database %d, of %d (see --databases and --db-map)", c.Database, f.fill.Databases())
		}
		if err == nil {
			err = f.fill.Apply(c.Database, c.Args)
		}
	}
	if several && err == nil {
		err = f.fill.Exec()
	}
	if err != nil {
		return failed(err)
	}
	return nil
}

// Flush has nothing to do: nothing is there before Finish.
func (f *filling) Flush() error { return nil }
