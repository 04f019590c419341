package secure

import (
	"crypto/tls"
	"errors"
	"sync/atomic"
)

// Keeper keeps the configurations in force. They are read for each new connection, from anywhere;
// those that exist stay as they are.
type Keeper struct {
	settings func() (Settings, bool)
	now      atomic.Pointer[configurations]
}

type configurations struct{ server, client *tls.Config }

// NewKeeper makes a keeper of what the settings say at each Load; false: there is no TLS.
func NewKeeper(settings func() (Settings, bool)) *Keeper {
	k := &Keeper{settings: settings}
	k.now.Store(&configurations{})
	return k
}

// Load reads the settings and the files that they name. After an error everything stays as it is.
func (k *Keeper) Load() error {
	settings, on := k.settings()
	if !on {
		k.now.Store(&configurations{})
		return nil
	}
	server, err := settings.ServerConfig()
	if err != nil {
		return err
	}
	loaded := &configurations{server: server}
	if !settings.Trust.empty() {
		if loaded.client, err = settings.ClientConfig(); err != nil {
			return err
		}
	}
	k.now.Store(loaded)
	return nil
}

// On reports whether there is a configuration for a server's connections.
func (k *Keeper) On() bool { return k.now.Load().server != nil }

// Server is the configuration for a new connection of a client; nil: there is none.
func (k *Keeper) Server() *tls.Config { return k.now.Load().server }

var errNoClient = errors.New("there is no configuration of TLS for connections to other servers: tls-replication needs tls-ca-cert-file or tls-ca-cert-dir")

// Client is the configuration for a new connection to a server.
func (k *Keeper) Client() (*tls.Config, error) {
	if c := k.now.Load().client; c != nil {
		return c, nil
	}
	return nil, errNoClient
}
