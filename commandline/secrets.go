package commandline

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"unsafe"

	"github.com/urfave/cli/v2"

	"kedis/internal/config"
)

// HideSecrets overwrites passwords in the process's arguments, which everybody can see (ps), and
// puts copies of all arguments into their place in os.Args. It is called once, before they are
// used.
func HideSecrets() {
	shown := os.Args
	os.Args = make([]string, len(shown))
	for i, word := range shown {
		os.Args[i] = strings.Clone(word)
	}
	for _, secret := range secretsIn(shown) {
		// The runtime's strings are the memory that the kernel shows.
		for i := range len(secret) {
			unsafe.Slice(unsafe.StringData(secret), len(secret))[i] = '*'
		}
	}
}

// secretsIn finds the values of options that are passwords, or have some in them, in the memory of
// args.
func secretsIn(args []string) (secrets []string) {
	options := config.New()
	for i := 0; i < len(args); i++ {
		name, isOption := strings.CutPrefix(args[i], "--")
		name, value, given := strings.Cut(name, "=")
		if !isOption || !options.Sensitive(name) && name != "from-auth" && name != "to-auth" {
			continue
		}
		if given {
			secrets = append(secrets, value)
			continue
		}
		for i+1 < len(args) && !strings.HasPrefix(args[i+1], "--") {
			i++
			secrets = append(secrets, args[i])
			if !options.IsList(name) {
				break
			}
		}
	}
	return slices.DeleteFunc(secrets, func(secret string) bool { return secret == "" })
}

// readPasswordFiles takes the passwords for other servers from the files that are named for them.
func readPasswordFiles(ctx *cli.Context) error {
	for _, side := range []string{"from", "to"} {
		option := side + "-auth-file"
		path := ctx.String(option)
		if path == "" {
			continue
		}
		password, err := config.ReadSecret(path)
		if err == nil {
			err = ctx.Set(side+"-auth", password)
		}
		if err != nil {
			return fmt.Errorf("--%s: %w", option, err)
		}
	}
	return nil
}
