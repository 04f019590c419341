package config

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// A password may stand in a file or in the environment instead of in the configuration, which more
// people see: requirepass is also what the file of requirepass-file has, or the environment's
// KEDIS_REQUIREPASS. Rewrite doesn't write such a password down.
const (
	secretFileSuffix   = "-file"
	environmentPrefix  = "KEDIS_"
	longestSecretBytes = 64 << 10
)

// withSecretFiles puts behind each password the option that names its file.
func withSecretFiles(options []*option) (all []*option) {
	for _, o := range options {
		all = append(all, o)
		if o.password {
			o.file = row(o.name+secretFileSuffix, new(String), anyText("a path, or nothing"), "", atStart,
				"The file that "+o.name+" is read from at the start, without the end of its line. The environment's "+environmentOf(o.name)+" does the same.")
			all = append(all, o.file)
		}
	}
	return all
}

func environmentOf(name string) string {
	return environmentPrefix + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

// ReadSecrets takes passwords from the files that are named for them, and from the environment.
// What the configuration says itself goes before the environment; it is an error beside a file,
// unless one of both is a flag, which goes before what the configuration file says.
func (c *Config) ReadSecrets(environment func(name string) string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for o := range c.options() {
		if o.file == nil {
			continue
		}
		secret, err := o.outside(environment)
		if err != nil {
			return fmt.Errorf("%s%s: %w", o.name, secretFileSuffix, err)
		}
		if secret == "" {
			continue
		}
		if err := o.set(secret); err != nil {
			return fmt.Errorf("%s: %w", o.name, err)
		}
		o.supplied = secret
	}
	return nil
}

// outside is the password that stands outside of the configuration; empty if none does.
func (o *option) outside(environment func(name string) string) (string, error) {
	path := o.file.String()
	switch {
	case path == "" && o.given:
		return "", nil
	case path == "":
		return environment(environmentOf(o.name)), nil
	case !o.given || o.file.flagged && !o.flagged:
		return ReadSecret(path)
	case o.flagged && !o.file.flagged:
		return "", nil
	}
	return "", errors.New("the password is given, too: expected one of both")
}

// ReadSecret reads a password from a file.
func ReadSecret(path string) (string, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	secret := strings.TrimSuffix(strings.TrimSuffix(string(content), "\n"), "\r")
	switch {
	case secret == "":
		return "", fmt.Errorf("%s has no password", path)
	case strings.ContainsAny(secret, "\n\x00") || len(secret) > longestSecretBytes:
		return "", fmt.Errorf("%s has more than a password, which is one line", path)
	}
	return secret, nil
}

// isSupplied reports whether the value is a password from outside of the configuration, which
// Rewrite leaves there.
func (o *option) isSupplied() bool { return o.supplied != "" && o.String() == o.supplied }

// leaveSecretFiles names no file any more for passwords that were changed since they were read from
// there, or that a flag has said. It is called before the configuration is written, which says them
// from then on.
func (c *Config) leaveSecretFiles() error {
	for o := range c.options() {
		if o.file == nil || o.file.String() == "" || o.isSupplied() {
			continue
		}
		if err := o.file.set(""); err != nil {
			return err
		}
		o.supplied = "" // and isn't, should it become that password again
	}
	return nil
}
