package replication

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"kedis/internal/durable"
)

// Sentinels publish on the channel of hellos which server is the primary, to all that they watch:
//
//	address,port,id,epoch,name,primary's address,primary's port,epoch of the primary's configuration
//
// (sentinel.c of Redis, "hello messages".) A primary that was replaced hears of it there within a
// second or two, and only ten seconds later by REPLICAOF. With sentinel-quorum it follows as soon
// as so many Sentinels say so, with an epoch that is higher than all that it has heard of before:
// so a copy that was detached by REPLICAOF NO ONE stays one.

// epochFile remembers the highest epoch that a Sentinel has told.
const epochFile = "sentinel-epoch"

// sentinels is what Sentinels have said.
type sentinels struct {
	mu     sync.Mutex
	loaded bool
	epoch  int64                        // the highest while the server was no deposed primary
	votes  map[verdict]map[string]int64 // for each Sentinel, by its id, the client that said so
	saving sync.Mutex
}

// verdict is a server that Sentinels call the primary.
type verdict struct {
	name    string
	primary target
	epoch   int64
}

// HeardSentinel takes what an authenticated client has published on the channel of hellos. It
// doesn't wait.
func (n *Node) HeardSentinel(client int64, hello []byte) {
	quorum := int(n.Config.SentinelQuorum.Get())
	sentinel, v, err := parseHello(string(hello))
	if quorum == 0 || err != nil {
		return
	}
	n.mu.Lock()
	replica, stopped := n.link != nil, n.stopped
	n.mu.Unlock()
	if stopped {
		return
	}
	s := &n.sentinels
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.loaded {
		s.epoch, s.loaded = n.loadEpoch(), true
	}
	switch {
	case replica, n.isOwn(v.primary):
		s.votes = nil
		if v.epoch > s.epoch {
			s.epoch = v.epoch
			n.running.Go(n.saveEpoch)
		}
		return
	case v.epoch <= s.epoch:
		return
	}
	if s.votes == nil {
		s.votes = map[verdict]map[string]int64{}
	}
	if s.votes[v] == nil {
		s.votes[v] = map[string]int64{}
	}
	s.votes[v][sentinel] = client
	if differentClients(s.votes[v]) < quorum {
		return
	}
	before := s.epoch
	s.votes, s.epoch = nil, v.epoch
	n.running.Go(func() {
		if err := n.obey(v); err != nil {
			n.Logger.Error("following the primary that Sentinels name", "primary", v.primary.String(), "error", err)
			s.forget(v.epoch, before)
			return
		}
		n.saveEpoch()
	})
}

// obey follows the primary that Sentinels name, unless that is a name of the server's own host. A
// name that can't be resolved is not followed: nobody could connect to it.
func (n *Node) obey(v verdict) error {
	own, err := n.isOwnName(v.primary)
	if err != nil || own {
		return err
	}
	n.Logger.Warn("Sentinels have made another server the primary; this one follows it", "name", v.name, "primary", v.primary.String(), "epoch", v.epoch)
	_, err = n.Follow(v.primary.host, v.primary.port)
	return err
}

// forget takes back an epoch, unless a higher one was told since: what Sentinels say again is
// listened to again.
func (s *sentinels) forget(epoch, before int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.epoch == epoch {
		s.epoch = before
	}
}

func differentClients(votes map[string]int64) int {
	clients := map[int64]bool{}
	for _, client := range votes {
		clients[client] = true
	}
	return min(len(clients), len(votes))
}

func parseHello(text string) (sentinel string, v verdict, err error) {
	fields := strings.Split(text, ",")
	if len(fields) != 8 {
		return "", v, errors.New("replication: it is no hello")
	}
	port, err := strconv.ParseUint(fields[6], 10, 16)
	if err != nil {
		return "", v, err
	}
	epoch, err := strconv.ParseInt(fields[7], 10, 64)
	if err != nil {
		return "", v, err
	}
	v = verdict{fields[4], target{fields[5], int(port)}, epoch}
	if !v.primary.reachable() {
		return "", v, errors.New("replication: the primary can't be reached there")
	}
	return fields[2], v, nil
}

// isOwn reports whether the server is to be found at a place. It asks nobody, so of a host's names
// it knows the announced one only.
func (n *Node) isOwn(t target) bool {
	if !n.isOwnPort(t.port) {
		return false
	}
	if strings.EqualFold(t.host, n.Config.ReplicaAnnounceIP.Get()) {
		return true
	}
	own, err := areOwn(net.IPAddr{IP: net.ParseIP(t.host)})
	return err == nil && own // isOwnName fails again, and nobody is followed
}

// isOwnName is isOwn for a host's name, too, which it resolves: that takes its time. The error says
// that it can't be told.
func (n *Node) isOwnName(t target) (bool, error) {
	if !n.isOwnPort(t.port) {
		return false, nil
	}
	if address := net.ParseIP(t.host); address != nil {
		return areOwn(net.IPAddr{IP: address})
	}
	ctx, cancel := context.WithTimeout(context.Background(), resolveWithin)
	defer cancel()
	addresses, err := net.DefaultResolver.LookupIPAddr(ctx, t.host)
	if err != nil {
		return false, fmt.Errorf("replication: %w", err)
	}
	return areOwn(addresses...)
}

// resolveWithin is how long a name may take to be resolved.
const resolveWithin = 5 * time.Second

// isOwnPort reports whether Sentinels may know the server by a port: which one replicas tell
// depends on tls-replication, and Sentinels may have been told another one at first.
func (n *Node) isOwnPort(port int) bool {
	c := n.Config
	return slices.Contains([]int64{c.ReplicaAnnouncePort.Get(), c.Port.Get(), c.TLSPort.Get()}, int64(port))
}

// areOwn reports whether one of some addresses is the machine's.
func areOwn(addresses ...net.IPAddr) (bool, error) {
	machines, err := net.InterfaceAddrs()
	if err != nil {
		return false, fmt.Errorf("replication: %w", err)
	}
	return slices.ContainsFunc(addresses, func(address net.IPAddr) bool {
		return address.IP.IsLoopback() || slices.ContainsFunc(machines, func(a net.Addr) bool {
			network, ok := a.(*net.IPNet)
			return ok && network.IP.Equal(address.IP)
		})
	}), nil
}

func (n *Node) loadEpoch() int64 {
	text, err := os.ReadFile(filepath.Join(n.Directory, epochFile))
	if err == nil {
		var epoch int64
		if epoch, err = strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil {
			return epoch
		}
	}
	if !errors.Is(err, fs.ErrNotExist) {
		n.Logger.Warn("the epoch that Sentinels have told is not known", "error", err)
	}
	return 0
}

// saveEpoch remembers the epoch for the next start.
func (n *Node) saveEpoch() {
	s := &n.sentinels
	s.saving.Lock()
	defer s.saving.Unlock()
	s.mu.Lock()
	epoch := s.epoch
	s.mu.Unlock()
	if err := durable.Replace(filepath.Join(n.Directory, epochFile), fmt.Sprintln(epoch)); err != nil {
		n.Logger.Warn("the epoch that Sentinels have told is not remembered", "error", err)
	}
}
