package commandline

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/urfave/cli/v2"

	"kedis/storage/rocks"
)

func versionCommand() *cli.Command {
	return &cli.Command{
		Name:  "version",
		Usage: "tell the versions of kedis and of what it is built from",
		Action: func(ctx *cli.Context) error {
			fmt.Fprintf(ctx.App.Writer, "kedis %s\nRocksDB %s, %s\n", version, rocks.Version(), rocks.BuildKind())
			if info, ok := debug.ReadBuildInfo(); ok {
				for _, module := range info.Deps {
					if module.Path == "github.com/linxGnu/grocksdb" || module.Path == "github.com/panjf2000/gnet/v2" {
						fmt.Fprintln(ctx.App.Writer, module.Path, module.Version)
					}
				}
			}
			fmt.Fprintln(ctx.App.Writer, runtime.Version())
			return nil
		},
	}
}
