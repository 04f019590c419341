package commandline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/urfave/cli/v2"

	"kedis/internal/config"
	"kedis/server"
	"kedis/server/command"
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
		return serve(c)
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
	return nil
}

// joinLists makes one word of those behind the flag of a list, which may stand there one by one as Redis takes them:
// --replicaof 127.0.0.1 6379, --client-output-buffer-limit normal 0 0 0. So the file has to stand before.
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
	}
	logger := hclog.New(&hclog.LoggerOptions{Name: "kedis", Level: levels[c.LogLevel.Get()], Output: output,
		JSONFormat: c.LogFormat.Get() == config.LogJSON})
	c.OnChange("loglevel", func() error {
		logger.SetLevel(levels[c.LogLevel.Get()])
		return nil
	})
	return logger, nil
}

// logFile is a file that is opened for each line, as Redis does: who rotates logs moves it away and tells nobody.
type logFile string

func (f logFile) Write(line []byte) (int, error) {
	file, err := os.OpenFile(string(f), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return 0, err
	}
	n, err := file.Write(line)
	return n, errors.Join(err, file.Close())
}

// serve runs a server until a signal or SHUTDOWN ends it.
func serve(c *config.Config) error {
	logger, err := newLogger(c)
	if err != nil {
		return err
	}
	logger.Info("starting", "version", version, "directory", c.Dir.Get(), "pid", os.Getpid())
	if err := server.CheckAddresses(c); err != nil {
		return err
	}
	collectOften()
	data, err := server.OpenData(c, logger)
	if err != nil {
		return err
	}
	stopProfiles, err := serveProfiles(c.PprofAddress.Get(), logger)
	if err != nil {
		return errors.Join(err, data.Close())
	}
	removePIDFile, err := writePIDFile(c.PIDFile.Get())
	if err != nil {
		return errors.Join(err, stopProfiles(), data.Close())
	}
	return errors.Join(serveData(c, data, logger), removePIDFile(), stopProfiles())
}

// collectOften has garbage collected when a quarter of the memory in use is garbage, if GOGC doesn't say something
// else. Most of the memory is records without a pointer, which cost the collector nothing, and which are what memory
// is configured for; with Go's own setting there would be as much garbage beside them.
func collectOften() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(25)
	}
}

// serveData serves what was opened, and closes it at the end.
func serveData(c *config.Config, data *server.Data, logger hclog.Logger) error {
	data.ApplyLive()
	reactors := int(c.Reactors.Get())
	if reactors == 0 {
		reactors = runtime.GOMAXPROCS(0)
	}
	engine := command.NewEngine(data.Store, c, data, logger, reactors)
	engine.Version = version
	s := server.New(engine, c, logger)
	s.UseProcessors(func(n int) { runtime.GOMAXPROCS(n) })
	stopper := &stopper{server: s, asked: make(chan struct{})}
	engine.Server = stopper
	if err := data.Recover(engine); err != nil {
		return errors.Join(err, data.Close())
	}
	node := server.NewReplication(data, engine, version)
	if err := node.Start(data.Created()); err != nil {
		return errors.Join(err, data.Close())
	}
	ctx, cancel := context.WithCancel(context.Background())
	sweeping := sweep(ctx, engine, c, logger)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go stopper.wait(signals, logger)
	err := s.Run(reactors, func() {
		logger.Info("ready to accept connections", "addresses", strings.Join(s.Addresses(), " "), "reactors", reactors)
	})
	if err == nil {
		logger.Info("stopping")
	}
	cancel()
	<-sweeping
	stopped := engine.Stop()
	node.Stop()
	if !stopped {
		return errors.Join(err, data.Abandon())
	}
	return errors.Join(err, data.Close())
}

// writePIDFile writes the process id to a file, if one is named, and returns what removes it.
func writePIDFile(name string) (remove func() error, err error) {
	if name == "" {
		return func() error { return nil }, nil
	}
	if err := os.WriteFile(name, []byte(strconv.Itoa(os.Getpid())+"\n"), 0o644); err != nil {
		return nil, fmt.Errorf("pidfile: %w", err)
	}
	return func() error {
		if err := os.Remove(name); err != nil {
			return fmt.Errorf("pidfile: %w", err)
		}
		return nil
	}, nil
}

// sweep removes expired keys in the background until the context ends.
func sweep(ctx context.Context, engine *command.Engine, c *config.Config, logger hclog.Logger) <-chan struct{} {
	expiries := engine.Expiries()
	sweeper := ttl.New(expiries, expiries, ttl.Options{
		Enabled:  c.ActiveExpire.Get,
		Interval: func() time.Duration { return time.Second / time.Duration(max(c.HZ.Get(), 1)) },
		Effort:   func() int { return int(15 + 10*c.ActiveExpireEffort.Get()) },
		Served:   engine.Statistics.Reads.Sum,
		Crowded:  engine.Store.Crowded,
		Now:      time.Now,
		Failed:   func(err error) { logger.Error("removing expired keys", "error", err) },
	})
	engine.Sweeper = sweeper
	done := make(chan struct{})
	go func() {
		defer close(done)
		sweeper.Run(ctx)
	}()
	return done
}

// stopper ends the server once, whoever asks for it.
type stopper struct {
	server *server.Server
	once   sync.Once
	asked  chan struct{}
}

// Shutdown asks for the end.
func (s *stopper) Shutdown() error {
	s.once.Do(func() { close(s.asked) })
	return nil
}

const stopTimeout = 10 * time.Second

func (s *stopper) wait(signals <-chan os.Signal, logger hclog.Logger) {
	select {
	case received := <-signals:
		logger.Info("received a signal", "signal", received.String())
	case <-s.asked:
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	if err := s.server.Stop(ctx); err != nil {
		logger.Error("stopping", "error", err)
	}
}
