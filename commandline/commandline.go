// Package commandline is the program: a file for each subcommand, which opens the parts, wires them
// together and handles signals. It may import everything; only main imports it.
package commandline

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	_ "kedis/internal/timerslack"
	"kedis/migrate"
)

// version is the release that `kedis version` and INFO name.
var version = "0.1.0"

// Run runs the program with the words of its command line and returns the exit code.
func Run(args []string) int {
	app := &cli.App{
		Name:            "kedis",
		Usage:           "a Redis-compatible server that keeps its data on disk",
		Version:         version,
		HideHelpCommand: true,
		// Prefixes and patterns may have commas in them.
		DisableSliceFlagSeparator: true,
		Commands:                  []*cli.Command{serveCommand(), portCommand(), verifyCommand(), importCommand(), exportCommand(), binlogCommand(), restoreCommand(), versionCommand()},
		Action:                    refuseUnknown,
		OnUsageError:              func(_ *cli.Context, err error, _ bool) error { return err },
	}
	if err := app.RunContext(context.Background(), args); err != nil {
		// Several failures that were joined would be several lines.
		fmt.Fprintln(os.Stderr, "kedis:", strings.ReplaceAll(err.Error(), "\n", "; "))
		return migrate.ExitCode(err)
	}
	return 0
}

// refuseUnknown is what a command with subcommands does when none of them is named.
func refuseUnknown(ctx *cli.Context) error {
	if ctx.NArg() > 0 {
		return fmt.Errorf("unknown command %q: --help lists the commands", ctx.Args().First())
	}
	if ctx.Command.Name == ctx.App.Name {
		return cli.ShowAppHelp(ctx)
	}
	return cli.ShowSubcommandHelp(ctx)
}

// withOptions is a command whose options stand before or behind its other words, as --name value or
// --name=value. The library would look for them before only, and answer a mistake with a page of
// help.
func withOptions(c *cli.Command, run func(ctx *cli.Context, words []string) error) *cli.Command {
	c.SkipFlagParsing, c.HideHelpCommand = true, true
	c.Action = func(ctx *cli.Context) error {
		args := ctx.Args().Slice()
		if slices.Contains(args, "--help") || slices.Contains(args, "-h") {
			return cli.ShowSubcommandHelp(ctx)
		}
		options, words, err := splitOptions(args, switches(c))
		if err != nil {
			return err
		}
		for _, option := range options {
			if err := ctx.Set(option[0], option[1]); err != nil {
				return fmt.Errorf("unknown option --%s: --help lists the options", option[0])
			}
		}
		if err := readPasswordFiles(ctx); err != nil {
			return err
		}
		return run(ctx, words)
	}
	return c
}

// switches are the options of a command that need no value.
func switches(c *cli.Command) (names []string) {
	for _, flag := range c.Flags {
		if _, ok := flag.(*cli.BoolFlag); ok {
			names = append(names, flag.Names()...)
		}
	}
	return names
}

// splitOptions takes the options out of a command line. All but switches have a value.
func splitOptions(args, switches []string) (options [][2]string, words []string, err error) {
	for i := 0; i < len(args); i++ {
		name, isOption := strings.CutPrefix(args[i], "--")
		switch {
		case !isOption && strings.HasPrefix(args[i], "-") && args[i] != "-":
			return nil, nil, fmt.Errorf("%q: expected --option value", args[i])
		case !isOption:
			words = append(words, args[i])
			continue
		}
		name, value, given := strings.Cut(name, "=")
		if !given && slices.Contains(switches, name) {
			value, given = "true", true
		}
		if !given {
			if i++; i == len(args) {
				return nil, nil, fmt.Errorf("--%s: expected a value", name)
			}
			value = args[i]
		}
		options = append(options, [2]string{name, value})
	}
	return options, words, nil
}
