package commandline

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"kedis/migrate"
)

func verifyCommand() *cli.Command {
	flags := slices.Concat(serverFlags("from", "`host:port` of one server"), serverFlags("to", "`host:port` of the other one"), encryptionFlags("", " with both"), filterFlags(), []cli.Flag{
		&cli.StringFlag{Name: "sample", Value: "100%", Usage: "compare only this `share` of the keys, such as 1%"},
		&cli.DurationFlag{Name: "tolerance", Value: time.Second, Usage: "by `how much` expiries may differ"},
		&cli.DurationFlag{Name: "retry-after", Value: time.Second, Usage: "`how long` to wait until what differs is looked at again, twice"},
		&cli.IntFlag{Name: "connections", Value: migrate.DefaultConnections, Usage: "`how many` compare at the same time"},
	})
	return withOptions(&cli.Command{
		Name:  "verify",
		Usage: "compare two live servers key by key",
		Description: "Lists the keys that differ, one to a line: the database, the key, what differs.\n" +
			"Exit code 0: none differs. 1: some do. Others: docs/migration.md.",
		Flags: flags,
	}, runVerify)
}

func runVerify(ctx *cli.Context, words []string) error {
	options := migrate.VerifyOptions{Tolerance: ctx.Duration("tolerance"),
		Retry: ctx.Duration("retry-after"), Connections: ctx.Int("connections")}
	switch {
	case len(words) > 0:
		return usageError("verify: unexpected %q", words[0])
	case ctx.String("from") == "" || ctx.String("to") == "":
		return usageError("verify: expected --from host:port and --to host:port")
	case options.Connections < 1 || options.Connections > 1024:
		return usageError("--connections: expected 1 to 1024")
	}
	var err error
	if options.From, options.To, err = bothServers(ctx); err != nil {
		return err
	}
	if options.Filter, err = filterOf(ctx); err != nil {
		return err
	}
	if options.Sample, err = migrate.ParseSample(ctx.String("sample")); err != nil {
		return err
	}
	work, stop := interruptible(ctx.Context)
	defer stop()
	options.Progress = migrate.NewProgress(os.Stderr, "connecting")
	options.Report = func(d migrate.Difference) { fmt.Fprintln(ctx.App.Writer, d) }
	compared, different, err := migrate.Verify(work, options)
	options.Progress.Stop()
	switch {
	case work.Err() != nil:
		return &migrate.Error{Code: migrate.ExitInterrupted, Err: errors.New("verify: interrupted")}
	case err != nil:
		return fmt.Errorf("verify: %w", err)
	case different > 0:
		return &migrate.Error{Code: migrate.ExitDifferent, Err: fmt.Errorf("verify: %d of %d keys differ", different, compared)}
	}
	fmt.Fprintf(ctx.App.Writer, "%d keys are the same\n", compared)
	return nil
}
