package commandline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/urfave/cli/v2"

	"kedis/internal/config"
	"kedis/replication"
	"kedis/server"
	"kedis/server/command"
	"kedis/server/datadir"
	"kedis/server/execute"
	"kedis/ttl"
)

func serveCommand() *cli.Command {
	c := config.New()
	command := &cli.Command{
		Name:      "serve",
		Usage:     "serve clients",
		ArgsUsage: "[kedis.conf]",
		Description: "Every option of the configuration file is also a flag, and flags win over the file, which stands first.\n" +
			"With nothing at all, the data is in ./data and the port is 6379.",
	}
	for _, flag := range c.Flags() {
		command.Flags = append(command.Flags, &cli.StringFlag{Name: flag.Name, Aliases: flag.Aliases,
			Usage: flag.Usage, DefaultText: flag.Default})
	}
	command.SkipFlagParsing, command.HideHelpCommand = true, true // options are the configuration's to read
	command.Action = func(ctx *cli.Context) error {
		args := ctx.Args().Slice()
		if slices.Contains(args, "--help") || slices.Contains(args, "-h") {
			return cli.ShowSubcommandHelp(ctx)
		}
		if err := configure(c, args); err != nil {
			return err
		}
		return serveAsConfigured(c)
	}
	return command
}

// configure reads the file, if one is named, and then the options.
func configure(c *config.Config, args []string) error {
	options, words, err := splitOptions(joinLists(args, c.IsList), nil)
	switch {
	case err != nil:
		return err
	case len(words) > 1:
		return fmt.Errorf("%q: expected one configuration file, and options as --option value", words[1])
	case len(words) == 1:
		if err := c.Load(words[0]); err != nil {
			return err
		}
	}
	for _, option := range options {
		if err := c.SetFlag(option[0], option[1]); err != nil {
			return err
		}
	}
	return c.ReadSecrets(os.Getenv)
}

// joinLists makes one word of those behind the flag of a list, which may stand there one by one as
// Redis takes them: --replicaof 127.0.0.1 6379, --client-output-buffer-limit normal 0 0 0. So the
// file has to stand before.
func joinLists(args []string, isList func(name string) bool) []string {
	var joined []string
	for len(args) > 0 {
		name, isFlag := strings.CutPrefix(args[0], "--")
		joined, args = append(joined, args[0]), args[1:]
		if !isFlag || !isList(name) || len(args) == 0 {
			continue
		}
		end := 1
		for end < len(args) && !strings.HasPrefix(args[end], "--") {
			end++
		}
		joined, args = append(joined, strings.Join(args[:end], " ")), args[end:]
	}
	return joined
}

func newLogger(c *config.Config) (hclog.Logger, error) {
	levels := map[config.LogLevel]hclog.Level{config.LogDebug: hclog.Debug, config.LogVerbose: hclog.Debug,
		config.LogNotice: hclog.Info, config.LogWarning: hclog.Warn}
	var output io.Writer = os.Stdout
	if name := c.LogFile.Get(); name != "" {
		output = logFile(name)
		if _, err := output.Write(nil); err != nil {
			return nil, fmt.Errorf("logfile: %w", err)
		}
		if err := reportCrashes(name); err != nil {
			return nil, fmt.Errorf("logfile: %w", err)
		}
	}
	logger := hclog.New(&hclog.LoggerOptions{Name: "kedis", Level: levels[c.LogLevel.Get()], Output: output,
		JSONFormat: c.LogFormat.Get() == config.LogJSON})
	c.OnChange("loglevel", func() error {
		logger.SetLevel(levels[c.LogLevel.Get()])
		return nil
	})
	return logger, nil
}

// reportCrashes has Go write to a file, too, what it writes to standard error when it ends the
// process.
func reportCrashes(name string) error {
	file, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(debug.SetCrashOutput(file, debug.CrashOptions{}), file.Close())
}

// logFile is a file that is opened for each line, as Redis does: who rotates logs moves it away and
// tells nobody.
type logFile string

func (f logFile) Write(line []byte) (int, error) {
	file, err := os.OpenFile(string(f), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return 0, err
	}
	n, err := file.Write(line)
	return n, errors.Join(err, file.Close())
}

// serveAsConfigured serves in the foreground or in the background.
func serveAsConfigured(c *config.Config) error {
	logger, err := newLogger(c)
	if err != nil {
		return err
	}
	if isInBackground() {
		return serve(c, newSupervisor(config.Unsupervised, logger), logger)
	}
	supervisor := newSupervisor(c.Supervised.Get(), logger)
	if c.Daemonize.Get() && supervisor.name == "no" {
		return serveInBackground()
	}
	return serve(c, supervisor, logger)
}

// serve runs a server until a signal or SHUTDOWN ends it. An error goes to the log file, too.
func serve(c *config.Config, supervisor *supervisor, logger hclog.Logger) error {
	err := serveDirectory(c, supervisor, logger)
	if err != nil && c.LogFile.Get() != "" {
		logger.Error("the server ends", "error", err)
	}
	return err
}

// warnOfIneffective tells of options that are accepted and change nothing: of those given at the
// start at once, and of others when CONFIG SET changes them.
func warnOfIneffective(c *config.Config, logger hclog.Logger) {
	if names := c.WithoutEffect(); len(names) > 0 {
		logger.Warn("options of Redis that change nothing here were given; docs/configuration.md says why", "options", strings.Join(names, " "))
	}
	c.OnChangeWithoutEffect(func(name string) { logger.Warn("an option of Redis that changes nothing here was set", "option", name) })
}

// serveDirectory opens the data directory and serves it.
func serveDirectory(c *config.Config, supervisor *supervisor, logger hclog.Logger) error {
	stopper := newStopper()
	receiveSignals(stopper, logger)
	logger.Info("starting", "version", version, "directory", c.Dir.Get(), "pid", os.Getpid())
	warnOfIneffective(c, logger)
	if err := server.CheckAddresses(c); err != nil {
		return err
	}
	if err := server.FitDescriptors(c, reactors(c), logger); err != nil {
		return err
	}
	collectOften()
	data, err := datadir.Open(c, logger)
	if err != nil {
		return err
	}
	stopProfiles, err := serveProfiles(c.PprofAddress.Get(), logger)
	if err != nil {
		return errors.Join(err, data.Close())
	}
	removePIDFile := writePIDFile(c.PIDFile.Get(), logger)
	err = serveData(c, data, supervisor, stopper, logger)
	removePIDFile()
	return errors.Join(err, stopProfiles())
}

// collectOften has garbage collected when a quarter of the memory in use is garbage, if GOGC
// doesn't say something else. Most of the memory is records without a pointer, which cost the
// collector nothing, and which are what memory is configured for; with Go's own setting there would
// be as much garbage beside them.
func collectOften() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(25)
	}
}

// reactors is how many event loops serve clients.
func reactors(c *config.Config) int {
	if configured := int(c.Reactors.Get()); configured > 0 {
		return configured
	}
	return runtime.GOMAXPROCS(0)
}

// service is a server and what goes on beside it.
type service struct {
	config  *config.Config
	data    *datadir.Directory
	engine  *execute.Engine
	server  *server.Server
	node    *replication.Node
	sweeper *ttl.Sweeper // of keys
	fields  *ttl.Sweeper // of hashes' fields
	gone    *ttl.Sweeper // of what is left of streams' consumers
	stopper *stopper
	logger  hclog.Logger

	supervisor *supervisor

	reactors int
	sweeping sync.WaitGroup
	failed   error // why it could not begin to serve the data; valid when Run has returned
}

// newService wires the parts of a server of the data.
func newService(c *config.Config, data *datadir.Directory, stopper *stopper, logger hclog.Logger) *service {
	data.HookOptions()
	v := &service{config: c, data: data, stopper: stopper, logger: logger, reactors: reactors(c)}
	v.engine = command.NewEngine(data.Store, c, data, logger, v.reactors)
	v.engine.Version, v.engine.Server = version, stopper
	v.server = server.New(v.engine, c, logger)
	v.server.UseProcessors(func(n int) { runtime.GOMAXPROCS(n) })
	v.node = datadir.NewReplication(data, v.engine, version)
	v.sweeper = newSweeper(v.engine, v.engine.Expiries(), c.ActiveExpire.Get, c, logger)
	v.fields = newSweeper(v.engine, v.engine.FieldExpiries(), c.ActiveExpire.Get, c, logger)
	v.gone = newSweeper(v.engine, v.engine.Departures(), func() bool { return true }, c, logger)
	v.engine.Sweeper, v.engine.Fields = v.sweeper, v.fields
	return v
}

// serveData serves what was opened, and closes it at the end.
func serveData(c *config.Config, data *datadir.Directory, supervisor *supervisor, stopper *stopper, logger hclog.Logger) error {
	v := newService(c, data, stopper, logger)
	v.supervisor, v.engine.Supervisor = supervisor, supervisor.name
	sweeping, stopSweeping := context.WithCancel(context.Background())
	err := v.run(sweeping)
	stopSweeping()
	if err == nil {
		logger.Info("stopping")
	}
	supervisor.stopping()
	return errors.Join(err, v.end(errors.Is(err, server.ErrStuck)))
}

const (
	stopTimeout = 10 * time.Second
	// closeTimeout is for a store that has gigabytes to bring to a slow disk: who supervises the
	// server is the one to lose patience. Only a disk that never answers needs more.
	closeTimeout = 10 * time.Minute
)

// errLeft is the end of a server in which something still runs that uses the store.
var errLeft = errors.New("what still runs should have ended: the store is not closed, and the next start reads more of the log, as after a kill")

// end ends all but the server, and closes the data. stuck says that the server has not ended: what
// still runs may begin what the engine's Stop ends.
func (v *service) end(stuck bool) error {
	err := errLeft
	if !stuck && v.endOthers() {
		err = inTime(closeTimeout, "closing the store", v.data.Store.Close)
	}
	return errors.Join(err, inTime(stopTimeout, "closing the log", v.data.Log().Close))
}

// endOthers ends what uses the store beside the server, and reports whether nothing does any more.
func (v *service) endOthers() bool {
	stopped := v.engine.Stop()
	stopped = v.node.Stop(stopTimeout) && stopped
	return stopped && inTime(stopTimeout, "removing in the background", func() error {
		v.sweeping.Wait() // who waited for a worker was sent away
		return nil
	}) == nil
}

// inTime returns what f does, or an error when that takes too long: the disk may never answer it.
func inTime(limit time.Duration, what string, f func() error) error {
	ended := make(chan error, 1)
	go func() { ended <- f() }()
	select {
	case err := <-ended:
		return err
	case <-time.After(limit):
		return fmt.Errorf("%s has not ended within %s: the disk may not answer; the next start goes on as after a kill", what, limit)
	}
}

// run serves until the end is asked for. Clients are accepted while the log is applied, which may
// take long, and are told so.
func (v *service) run(sweeping context.Context) error {
	if err := v.engine.RenameCommands(); err != nil {
		return err
	}
	if err := v.engine.BeginUsers(); err != nil {
		return err
	}
	if err := v.engine.LoadTLS(); err != nil {
		return err
	}
	v.stopper.onHangup(v.reloadTLS)
	if err := v.engine.BeginLimits(); err != nil {
		return err
	}
	if err := v.node.TakeRole(); err != nil {
		return err
	}
	loading := v.data.BeginLoading(v.engine)
	if !loading {
		if err := v.begin(sweeping, sweeping); err != nil {
			return err
		}
	}
	go stopWhenAsked(v.server, v.stopper, v.logger)
	err := v.server.Run(v.reactors, func(ctx context.Context) {
		if v.failed = v.listening(ctx, sweeping, loading); v.failed != nil {
			v.stopper.stop()
		}
	})
	if errors.Is(err, server.ErrStuck) { // failed may be written yet
		return err
	}
	if errors.Is(v.failed, context.Canceled) { // the end was asked for
		return err
	}
	return errors.Join(err, v.failed)
}

// reloadTLS reads certificates and keys anew.
func (v *service) reloadTLS() {
	if err := v.engine.LoadTLS(); err != nil {
		v.logger.Error("the certificates stay as they were", "error", err)
	} else if v.engine.TLS.On() {
		v.logger.Info("certificates and keys of TLS were read anew")
	}
}

// listening is called when clients are accepted.
func (v *service) listening(ctx, sweeping context.Context, loading bool) error {
	if isInBackground() {
		if err := leaveStarter(); err != nil {
			return err
		}
	}
	addresses := strings.Join(v.server.Addresses(), " ")
	if loading {
		v.logger.Info("clients are told that the data is loading", "addresses", addresses)
		ended := v.extendTimeout(ctx)
		err := v.begin(ctx, sweeping)
		if ended(); err != nil {
			return err
		}
	}
	v.logger.Info("ready to accept connections", "addresses", addresses, "reactors", v.reactors)
	v.supervisor.ready()
	return nil
}

// extendTimeout tells the supervisor every few seconds how far the load is, until the function that
// it returns is called.
func (v *service) extendTimeout(ctx context.Context) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var telling sync.WaitGroup
	telling.Go(func() {
		for ctx.Err() == nil {
			if p, ok := v.engine.LoadingProgress(); ok {
				v.supervisor.loading(fmt.Sprintf("Applying the log: %.1f %%", p.Percent()))
			}
			select {
			case <-ctx.Done():
			case <-time.After(datadir.ProgressInterval):
			}
		}
	})
	return func() {
		cancel()
		telling.Wait()
	}
}

// begin brings the data to the end of the log, and everything to work that clients need. The
// context ends the former.
func (v *service) begin(ctx, sweeping context.Context) error {
	if err := v.data.Recover(ctx, v.engine); err != nil {
		return err
	}
	v.node.Start(v.data.Created())
	v.engine.EndLoading()
	v.sweeping.Go(func() { v.sweeper.Run(sweeping) })
	v.sweeping.Go(func() { v.fields.Run(sweeping) })
	v.sweeping.Go(func() { v.gone.Run(sweeping) })
	return nil
}

// writePIDFile writes the process id to a file, if one is named, and returns what removes it. As in
// Redis, a server without its file is better than none.
func writePIDFile(name string, logger hclog.Logger) (remove func()) {
	if name == "" {
		return func() {}
	}
	if err := os.WriteFile(name, []byte(strconv.Itoa(os.Getpid())+"\n"), 0o644); err != nil {
		logger.Warn("the pidfile isn't written", "error", err)
		return func() {}
	}
	return func() {
		if err := os.Remove(name); err != nil {
			logger.Warn("the pidfile isn't removed", "error", err)
		}
	}
}

// newSweeper makes what removes expired keys, fields, or what is left of consumers in the
// background.
func newSweeper(engine *execute.Engine, expiries execute.Expiring, enabled func() bool, c *config.Config, logger hclog.Logger) *ttl.Sweeper {
	return ttl.New(expiries, expiries, ttl.Options{
		Enabled:    enabled,
		Interval:   func() time.Duration { return time.Second / time.Duration(max(c.HZ.Get(), 1)) },
		Effort:     func() int { return int(15 + 10*c.ActiveExpireEffort.Get()) },
		Served:     engine.Statistics.Reads.Sum,
		Backlogged: engine.Store.Backlogged,
		Now:        engine.WallClock,
		Failed:     func(err error) { logger.Error("removing in the background", "error", err) },
	})
}

// stopWhenAsked has the server stop serving when its end is asked for.
func stopWhenAsked(s *server.Server, stopper *stopper, logger hclog.Logger) {
	<-stopper.asked
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	if err := s.Stop(ctx); err != nil {
		logger.Error("stopping", "error", err)
	}
}
