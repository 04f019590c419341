// Kedis is a Redis-compatible server whose data lives on disk. This file is its command line: it
// opens the parts, wires them together, and handles signals.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/urfave/cli/v2"
)

// version is set by the Makefile.
var version = "0.1.0"

func main() {
	app := &cli.App{
		Name:            "kedis",
		Usage:           "a Redis-compatible server that keeps its data on disk",
		Version:         version,
		HideHelpCommand: true,
		Commands:        []*cli.Command{serveCommand(), binlogCommand(), restoreCommand(), versionCommand()},
	}
	if err := app.RunContext(context.Background(), os.Args); err != nil {
		fmt.Fprintln(os.Stderr, "kedis:", err)
		os.Exit(1)
	}
}
