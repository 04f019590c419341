package replication

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"kedis/internal/durable"
)

// The file that remembers the role that was set at run time. Its first line is the role, "replicaof
// host port" or "primary"; the second is what the configuration said then: when that has changed
// since, somebody has changed his mind, and the configuration wins.
const roleFile = "role"

// clearUp removes what a kill has left of the files that replication replaces.
func (n *Node) clearUp() {
	ours := func(name string) bool { return name == roleFile || name == epochFile }
	if err := durable.RemoveTemporary(n.Directory, ours); err != nil {
		n.Logger.Warn("what is left of a file that was being written isn't removed", "error", err)
	}
}

func (n *Node) loadRole() (*target, error) {
	configured := n.configured
	if configured == nil {
		words := n.Config.ReplicaOf.Get()
		text := strings.Join(words, " ")
		configured = &text
		n.configured = configured
	}
	b, err := os.ReadFile(filepath.Join(n.Directory, roleFile))
	if errors.Is(err, os.ErrNotExist) {
		return parseTarget(*configured)
	}
	if err != nil {
		return nil, fmt.Errorf("replication: %w", err)
	}
	role, was, _ := strings.Cut(strings.TrimSuffix(string(b), "\n"), "\n")
	if was != *configured {
		n.Logger.Info("the configured role has changed, and wins over the one set at run time", "configured", *configured, "set", role)
		return parseTarget(*configured)
	}
	if role == "primary" {
		return nil, n.Config.Remember("replicaof", "")
	}
	target, ok := strings.CutPrefix(role, "replicaof ")
	if !ok {
		return nil, fmt.Errorf("replication: %s: %q is no role", filepath.Join(n.Directory, roleFile), role)
	}
	if err := n.Config.Remember("replicaof", target); err != nil {
		return nil, err
	}
	return parseTarget(target)
}

// parseTarget reads "host port"; nothing is no primary.
func parseTarget(text string) (*target, error) {
	words := strings.Fields(text)
	if len(words) == 0 {
		return nil, nil
	}
	if len(words) != 2 {
		return nil, fmt.Errorf("replication: %q is not a host and a port", text)
	}
	port, err := strconv.ParseInt(words[1], 10, 64)
	if err != nil || port < 0 || port > 65535 {
		return nil, fmt.Errorf("replication: %q is not a port", words[1])
	}
	return &target{words[0], int(port)}, nil
}

// saveRole remembers the role; nil is a primary's.
func (n *Node) saveRole(to *target) error {
	role, target := "primary", ""
	if to != nil {
		target = fmt.Sprintf("%s %d", to.host, to.port)
		role = "replicaof " + target
		if read, err := parseTarget(target); err != nil || *read != *to {
			return fmt.Errorf("replication: the role %q would not be understood by the next start", role)
		}
	}
	if err := durable.Replace(filepath.Join(n.Directory, roleFile), role+"\n"+*n.configured+"\n"); err != nil {
		return fmt.Errorf("replication: remembering the role: %w", err)
	}
	return n.Config.Remember("replicaof", target)
}

// followFile notes what the configuration says of the role since it was written anew: the next
// start has to tell whether somebody has changed it after the role was set.
func (n *Node) followFile(written string) error {
	n.roles.Lock()
	defer n.roles.Unlock()
	n.configured = &written
	if n.link == nil {
		return n.saveRole(nil)
	}
	return n.saveRole(&n.link.target)
}
