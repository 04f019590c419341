package commandline

import (
	"cmp"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"kedis/internal/secure"
	"kedis/migrate"
	"kedis/server/command"
	"kedis/server/execute"
)

// filterFlags choose keys, and their names at the target.
func filterFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringSliceFlag{Name: "db", Usage: "take only these `databases`, such as 0,1"},
		&cli.StringSliceFlag{Name: "db-map", Usage: "take only these databases, and write each to another one: `from:to`, such as 0:3,1:4"},
		&cli.StringSliceFlag{Name: "match", Usage: "take keys that fit a glob-style `pattern`; several are alternatives, --prefix included"},
		&cli.StringSliceFlag{Name: "prefix", Usage: "take keys that begin with a `prefix`; several are alternatives"},
		&cli.StringSliceFlag{Name: "exclude", Usage: "leave out keys that fit a `pattern`, whatever takes them otherwise"},
		&cli.StringSliceFlag{Name: "rewrite-prefix", Usage: "`old:new` (or old=new, where a prefix has a colon in it): replace a prefix of the keys"},
		&cli.BoolFlag{Name: "without-field-times", Usage: "fields of hashes don't expire there: for Redis before 7.4, which doesn't know that they may"},
	}
}

// filterOf reads them.
func filterOf(ctx *cli.Context) (*migrate.Filter, error) {
	options := migrate.FilterOptions{DB: ctx.StringSlice("db"), DBMap: ctx.StringSlice("db-map"), Match: ctx.StringSlice("match"),
		Prefix: ctx.StringSlice("prefix"), Exclude: ctx.StringSlice("exclude"), RewritePrefix: ctx.StringSlice("rewrite-prefix"),
		WithoutFieldTimes: ctx.Bool("without-field-times")}
	return options.Filter()
}

// serverFlags name a server: side is "from" or "to".
func serverFlags(side, usage string) []cli.Flag {
	return slices.Concat([]cli.Flag{
		&cli.StringFlag{Name: side, Usage: usage},
		&cli.StringFlag{Name: side + "-user", Usage: "`user` there, unless it is the default one"},
		&cli.StringFlag{Name: side + "-auth", Usage: "`password` there", EnvVars: []string{"KEDIS_" + strings.ToUpper(side) + "_AUTH"}},
		&cli.StringFlag{Name: side + "-auth-file", Usage: "the `file` that the password stands in"},
	}, encryptionFlags(side+"-", " there"))
}

// encryptionFlags say how connections are encrypted. Their names are redis-cli's, behind a prefix.
func encryptionFlags(prefix, where string) []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: prefix + "tls", Usage: "use TLS" + where},
		&cli.StringFlag{Name: prefix + "cacert", Usage: "`file` of the certificates that are trusted" + where + " (default: the system's)"},
		&cli.StringFlag{Name: prefix + "cacertdir", Usage: "`directory` of such files"},
		&cli.StringFlag{Name: prefix + "cert", Usage: "`file` of the certificate to show" + where},
		&cli.StringFlag{Name: prefix + "key", Usage: "`file` of its key"},
		&cli.BoolFlag{Name: prefix + "insecure", Usage: "take any certificate" + where},
		&cli.StringFlag{Name: prefix + "sni", Usage: "`name` to ask for" + where},
	}
}

// serverOf reads them. What stands without a prefix is for both servers.
func serverOf(ctx *cli.Context, side string) (migrate.Server, error) {
	s := migrate.Server{Address: ctx.String(side), User: ctx.String(side + "-user"), Password: ctx.String(side + "-auth")}
	is := func(name string) bool { return ctx.Bool(name) || ctx.Bool(side+"-"+name) }
	text := func(name string) string { return cmp.Or(ctx.String(side+"-"+name), ctx.String(name)) }
	flags := secure.Flags{Own: secure.Identity{Certificate: text("cert"), Key: text("key")},
		Trust: secure.Trust{File: text("cacert"), Directory: text("cacertdir")}, Insecure: is("insecure"), Name: text("sni")}
	if !is("tls") {
		return s, nil
	}
	var err error
	if s.TLS, err = flags.Config(); err != nil {
		return s, usageError("TLS: %w", err)
	}
	return s, nil
}

// bothServers are where data comes from and where it goes to.
func bothServers(ctx *cli.Context) (from, to migrate.Server, err error) {
	if from, err = serverOf(ctx, "from"); err == nil {
		to, err = serverOf(ctx, "to")
	}
	return from, to, err
}

// writeFlags are how data is written to a server.
func writeFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "on-conflict", Value: "replace", Usage: "what happens to a key that the target has already: `replace`, skip or fail"},
		&cli.StringFlag{Name: "rate", Usage: "take no more than so much a second: `20MB`, 5000keys, or both with a comma between them"},
		&cli.IntFlag{Name: "connections", Value: migrate.DefaultConnections, Usage: "`how many` connections write at the same time"},
	}
}

// fileFlags are what import and export share.
func fileFlags(dir, unsupported string) []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "dir", Usage: dir},
		&cli.StringFlag{Name: "databases", Usage: "with --dir: the `number` of databases that it is served with", Value: "16"},
		&cli.StringFlag{Name: "on-unsupported", Usage: unsupported + ": `fail` or skip", Value: "fail"},
	}
}

// filesOf reads what they share, and the filter.
func filesOf(ctx *cli.Context) (*migrate.Files, error) {
	filter, err := filterOf(ctx)
	if err != nil {
		return nil, err
	}
	unsupported, err := choice(ctx, "on-unsupported", "fail", "skip")
	return &migrate.Files{Filter: filter, SkipUnsupported: unsupported == "skip"}, err
}

// keyTable tells the package migrate where keys stand in commands.
type keyTable struct{ table *execute.Table }

// Keys appends the positions of a command's keys.
func (k keyTable) Keys(dst []migrate.KeyPosition, args [][]byte) ([]migrate.KeyPosition, bool, error) {
	found, _ := k.table.Lookup(args)
	switch {
	case found == nil:
		return dst, false, nil
	case !found.Accepts(len(args)):
		return nil, false, execute.WrongArity(found.FullName())
	}
	references, err := found.KeysOf(nil, args)
	for _, r := range references {
		dst = append(dst, migrate.KeyPosition{Index: r.Index, ReadOnly: r.Flags&command.RO != 0})
	}
	return dst, true, err
}
