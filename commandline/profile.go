package commandline

import (
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/hashicorp/go-hclog"
)

// serveProfiles serves Go's profiles over HTTP at an address, if one is named, until stop is
// called.
func serveProfiles(address string, logger hclog.Logger) (stop func() error, err error) {
	if address == "" {
		return func() error { return nil }, nil
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("pprof-address: %w", err)
	}
	// A mux of its own: http.DefaultServeMux is global.
	pages := http.NewServeMux()
	pages.HandleFunc("/debug/pprof/", pprof.Index)
	pages.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	pages.HandleFunc("/debug/pprof/profile", pprof.Profile)
	pages.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	pages.HandleFunc("/debug/pprof/trace", pprof.Trace)
	profiles := &http.Server{Handler: pages, ReadHeaderTimeout: 10 * time.Second}
	logger.Info("serving profiles", "address", listener.Addr().String())
	done := make(chan error, 1)
	go func() { done <- profiles.Serve(listener) }()
	return func() error {
		if err := profiles.Close(); err != nil {
			return err
		}
		<-done
		return nil
	}, nil
}
