package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
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
	serve := &cli.Command{
		Name:      "serve",
		Usage:     "serve clients",
		ArgsUsage: "[kedis.conf]",
		Description: "Every option of the configuration file is also a flag, and flags win over the file.\n" +
			"With nothing at all, the data is in ./data and the port is 6379.",
		Action: func(ctx *cli.Context) error {
			if err := configure(c, ctx); err != nil {
				return err
			}
			return serve(c)
		},
	}
	for _, flag := range c.Flags() {
		serve.Flags = append(serve.Flags, &cli.StringFlag{Name: flag.Name, Aliases: flag.Aliases,
			Usage: flag.Usage, DefaultText: flag.Default})
	}
	return serve
}

// configure reads the file and the flags. Flags may also stand behind the file's name.
func configure(c *config.Config, ctx *cli.Context) error {
	args := ctx.Args().Slice()
	if len(args) > 0 && len(args[0]) > 0 && args[0][0] != '-' {
		if err := c.Load(args[0]); err != nil {
			return err
		}
		args = args[1:]
	}
	for _, flag := range c.Flags() {
		if ctx.IsSet(flag.Name) {
			if err := c.SetFlag(flag.Name, ctx.String(flag.Name)); err != nil {
				return err
			}
		}
	}
	for len(args) > 0 {
		if len(args) < 2 || len(args[0]) < 3 || args[0][:2] != "--" {
			return fmt.Errorf("%q: expected --option value", args[0])
		}
		if err := c.SetFlag(args[0][2:], args[1]); err != nil {
			return err
		}
		args = args[2:]
	}
	return nil
}

func newLogger(c *config.Config) (hclog.Logger, error) {
	levels := map[config.LogLevel]hclog.Level{config.LogDebug: hclog.Debug, config.LogVerbose: hclog.Debug,
		config.LogNotice: hclog.Info, config.LogWarning: hclog.Warn}
	output := os.Stdout
	if name := c.LogFile.Get(); name != "" {
		file, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			return nil, fmt.Errorf("logfile: %w", err)
		}
		output = file
	}
	logger := hclog.New(&hclog.LoggerOptions{Name: "kedis", Level: levels[c.LogLevel.Get()], Output: output,
		JSONFormat: c.LogFormat.Get() == config.LogJSON})
	c.OnChange("loglevel", func() error {
		logger.SetLevel(levels[c.LogLevel.Get()])
		return nil
	})
	return logger, nil
}

// serve runs a server until a signal or SHUTDOWN ends it.
func serve(c *config.Config) error {
	logger, err := newLogger(c)
	if err != nil {
		return err
	}
	logger.Info("starting", "version", version, "directory", c.Dir.Get(), "pid", os.Getpid())
	data, err := server.OpenData(c, logger)
	if err != nil {
		return err
	}
	reactors := int(c.Reactors.Get())
	if reactors == 0 {
		reactors = runtime.NumCPU()
	}
	engine := command.NewEngine(data.Store, c, data, logger, reactors)
	engine.Version = version
	s := server.New(engine, c, logger)
	stopper := &stopper{server: s, asked: make(chan struct{})}
	engine.Server = stopper
	if err := data.Recover(engine); err != nil {
		return errors.Join(err, data.Close())
	}
	node := server.NewReplication(data, engine, version)
	if err := node.Start(data.Clean()); err != nil {
		return errors.Join(err, data.Close())
	}
	ctx, cancel := context.WithCancel(context.Background())
	sweeping := sweep(ctx, engine, c, logger)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go stopper.wait(signals, logger)
	err = s.Run(reactors, func() {
		logger.Info("ready to accept connections", "port", c.Port.Get(), "reactors", reactors)
	})
	if err == nil {
		logger.Info("stopping")
	}
	cancel()
	<-sweeping
	node.Stop()
	return errors.Join(err, data.Close())
}

// sweep removes expired keys in the background until the context ends.
func sweep(ctx context.Context, engine *command.Engine, c *config.Config, logger hclog.Logger) <-chan struct{} {
	expiries := engine.Expiries()
	sweeper := ttl.New(expiries, expiries, ttl.Options{
		Enabled:  c.ActiveExpire.Get,
		Interval: func() time.Duration { return time.Second / time.Duration(max(c.HZ.Get(), 1)) },
		Effort:   func() int { return int(15 + 10*c.ActiveExpireEffort.Get()) },
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
