package commandline

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"

	"github.com/hashicorp/go-hclog"
	"github.com/urfave/cli/v2"

	"kedis/internal/config"
	"kedis/internal/durable"
	"kedis/migrate"
	"kedis/server/datadir"
)

func exportCommand() *cli.Command {
	flags := slices.Concat(serverFlags("from", "`host:port` of the Redis or Kedis that has the data"), encryptionFlags("", ""), filterFlags(), []cli.Flag{
		&cli.StringFlag{Name: "format", Usage: "`rdb`, resp (commands, for redis-cli --pipe) or json (a line for each key)", Value: "rdb"},
	}, fileFlags("instead of --from: the data `directory` of a Kedis that doesn't run", "what happens to a key whose value the format doesn't have"))
	return withOptions(&cli.Command{
		Name:        "export",
		Usage:       "write what a server has, as of one moment, to a file",
		ArgsUsage:   "FILE",
		Description: "FILE is - for the standard output. A running server is asked as a replica asks it. Exit codes: docs/migration.md.",
		Flags:       flags,
	}, exportFile)
}

func exportFile(ctx *cli.Context, words []string) error {
	if len(words) != 1 {
		return usageError("export: expected one file")
	}
	if (ctx.String("from") == "") == (ctx.String("dir") == "") {
		return usageError("export: expected --from host:port, or --dir directory")
	}
	files, err := filesOf(ctx)
	if err != nil {
		return err
	}
	work, stop := interruptible(ctx.Context)
	defer stop()
	progress := migrate.NewProgress(os.Stderr, "export")
	files.Progress = progress
	err = writeWhole(words[0], ctx.App.Writer, func(w io.Writer) error {
		out, err := migrate.NewOutput(ctx.String("format"), w, version, progress)
		if err != nil {
			return err
		}
		if ctx.String("dir") != "" {
			err = exportDirectory(work, ctx, files, out)
		} else {
			err = readServer(work, ctx, files, out)
		}
		return errors.Join(err, out.Close())
	})
	progress.Stop()
	if errors.Is(err, context.Canceled) {
		return &migrate.Error{Code: migrate.ExitInterrupted, Err: errors.New("export: interrupted; no file was written")}
	}
	if err != nil {
		return fmt.Errorf("export: %w", err)
	}
	fmt.Fprint(os.Stderr, progress.Summary())
	return nil
}

// readServer reads what a running server has.
func readServer(work context.Context, ctx *cli.Context, files *migrate.Files, to migrate.Sink) error {
	from, err := serverOf(ctx, "from")
	if err != nil {
		return err
	}
	return files.ReadServer(work, from, to)
}

// exportDirectory reads the data directory of a server that doesn't run.
func exportDirectory(work context.Context, ctx *cli.Context, files *migrate.Files, to migrate.Sink) error {
	c := config.New()
	if err := errors.Join(c.SetFlag("dir", ctx.String("dir")), c.SetFlag("databases", ctx.String("databases"))); err != nil {
		return usageError("%w", err)
	}
	if _, err := os.Stat(filepath.Join(ctx.String("dir"), "db", "CURRENT")); err != nil {
		return &migrate.Error{Code: migrate.ExitSource, Err: fmt.Errorf("%s is no data directory: %w", ctx.String("dir"), err)}
	}
	logger := hclog.New(&hclog.LoggerOptions{Name: "kedis", Level: hclog.Warn, Output: ctx.App.ErrWriter})
	snapshot, w := io.Pipe()
	written := make(chan error, 1)
	go func() {
		buffered := bufio.NewWriterSize(w, 256<<10)
		err := datadir.WriteSnapshot(work, c, buffered, version, logger)
		if err == nil {
			err = buffered.Flush()
		}
		w.CloseWithError(err)
		written <- err
	}()
	err := files.ReadSnapshot(work, ctx.String("dir"), snapshot, 0, to)
	snapshot.CloseWithError(err) // what is still being written ends
	return cmp.Or(err, <-written)
}

// writeWhole writes a file that has its name only when it is complete and on the disk; "-" is out.
// Who may read it is who might read the one that it replaces, or whom the umask lets.
func writeWhole(name string, out io.Writer, write func(w io.Writer) error) (err error) {
	if name == "-" {
		return write(out)
	}
	unfinished := filepath.Join(filepath.Dir(name), fmt.Sprintf(".%s.%x", filepath.Base(name), rand.Uint64()))
	file, err := os.OpenFile(unfinished, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(file.Name()))
		}
	}()
	if replaced, failed := os.Stat(name); failed == nil {
		err = file.Chmod(replaced.Mode().Perm())
	}
	if err == nil {
		err = write(file)
	}
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	if err = os.Rename(file.Name(), name); err != nil {
		return err
	}
	return durable.SyncDirectory(filepath.Dir(name))
}
