package commandline

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"kedis/binlog"
	"kedis/migrate"
	"kedis/server/command"
)

func portCommand() *cli.Command {
	flags := slices.Concat(serverFlags("from", "`host:port` of the Redis or Kedis that has the data, or the directory of a log (DIR/parted/…)"),
		serverFlags("to", "`host:port` of the Kedis, Redis or Redis Cluster that gets it"), encryptionFlags("", " with both"), filterFlags(), writeFlags(), []cli.Flag{
			&cli.StringFlag{Name: "until", Value: "caught-up", Usage: "when to end: `caught-up`, or forever (until it is interrupted)"},
			&cli.StringFlag{Name: "position", Usage: "the `file` that an interrupted move goes on from (default: kedis-port-FROM-TO.position)"},
			&cli.StringFlag{Name: "resync", Value: "refuse", Usage: "what to do when it can't go on and has to take everything anew: `refuse`, delete (what was moved, first) or keep"},
			&cli.DurationFlag{Name: "retry-for", Value: time.Minute, Usage: "`how long` a server may be away once the move has begun"},
			&cli.BoolFlag{Name: "dry-run", Usage: "only count what would be moved; --to isn't needed"},
		})
	return withOptions(&cli.Command{Name: "port", Usage: "move a live data set to another server, and keep up until the switch", Flags: flags}, runPort)
}

func runPort(ctx *cli.Context, words []string) error {
	options, err := portOptions(ctx, words)
	if err != nil {
		return err
	}
	dry := ctx.Bool("dry-run")
	if kept, err := binlog.HasSegments(options.From.Address); err == nil && kept && !dry {
		return portLog(ctx, options.From.Address)
	}
	options.Progress = migrate.NewProgress(os.Stderr, "connecting")
	if dry {
		census, err := migrate.DryRun(ctx.Context, options)
		options.Progress.Stop()
		if err == nil {
			fmt.Fprint(ctx.App.Writer, census)
		}
		return err
	}
	stop := make(chan migrate.StopRequest, 2)
	options.Stop = stop
	work, cancel := context.WithCancel(ctx.Context)
	defer cancel()
	defer requestStop(stop, cancel)()
	err = migrate.Port(work, options)
	options.Progress.Stop()
	fmt.Fprint(ctx.App.Writer, options.Progress.Summary())
	return err
}

// portLog moves what a log has, such as one that was kept of a former primary.
func portLog(ctx *cli.Context, directory string) error {
	work, stop := interruptible(ctx.Context)
	defer stop()
	filter, err := filterOf(ctx)
	if err != nil {
		return err
	}
	files := &migrate.Files{Filter: filter, Commands: keyTable{command.NewTable()}, Progress: migrate.NewProgress(os.Stderr, "port"), Flush: "apply"}
	err = importTo(work, ctx, files, directory)
	files.Progress.Stop()
	fmt.Fprint(ctx.App.Writer, files.Progress.Summary())
	return err
}

// requestStop turns signals into requests: Ctrl-C finishes a move, SIGTERM or a second Ctrl-C
// interrupts it. What two haven't ended, a third one does at once.
func requestStop(stop chan<- migrate.StopRequest, atOnce func()) (end func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		for s := range signals {
			request := migrate.Interrupt
			if s == syscall.SIGINT {
				request = migrate.Finish
			}
			select {
			case stop <- request:
			default:
				atOnce()
			}
		}
	}()
	return func() {
		signal.Stop(signals)
		close(signals)
	}
}

func portOptions(ctx *cli.Context, words []string) (options migrate.PortOptions, err error) {
	options = migrate.PortOptions{Conflicts: ctx.String("on-conflict"), Connections: ctx.Int("connections"),
		Resync: ctx.String("resync"), RetryFor: ctx.Duration("retry-for"), State: ctx.String("position"), Commands: keyTable{command.NewTable()}}
	if options.From, options.To, err = bothServers(ctx); err != nil {
		return options, err
	}
	switch until := ctx.String("until"); {
	case len(words) > 0:
		return options, usageError("port: unexpected %q", words[0])
	case options.From.Address == "":
		return options, usageError("port: --from host:port is missing")
	case options.To.Address == "" && !ctx.Bool("dry-run"):
		return options, usageError("port: --to host:port is missing")
	case until != "caught-up" && until != "forever":
		return options, usageError("--until: expected caught-up or forever, got %q", until)
	case options.Connections < 1 || options.Connections > 1024:
		return options, usageError("--connections: expected 1 to 1024")
	default:
		options.Forever = until == "forever"
	}
	if options.State == "" {
		options.State = strings.NewReplacer(":", "-", "/", "-").Replace(fmt.Sprintf("kedis-port-%s-%s.position", options.From.Address, options.To.Address))
	}
	if options.Filter, err = filterOf(ctx); err != nil {
		return options, err
	}
	options.Limit, err = migrate.ParseLimit(ctx.String("rate"))
	return options, err
}
