// Kedis is a Redis-compatible server whose data lives on disk.
package main

import (
	"os"

	"kedis/commandline"
)

func main() {
	commandline.HideSecrets()
	os.Exit(commandline.Run(os.Args))
}
