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
			o.file = new(String)
			all = append(all, row(o.name+secretFileSuffix, o.file, anyText("a path, or nothing"), "", atStart,
				"The file that "+o.name+" is read from at the start, without the end of its line. The environment's "+environmentOf(o.name)+" does the same."))
		}
	}
	return all
}

func environmentOf(name string) string {
	return environmentPrefix + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

// ReadSecrets takes passwords from the files that are named for them, and from the environment.
// What the configuration says itself goes before the environment; it is an error beside a file.
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
	path := o.file.Get()
	switch {
	case path == "" && o.given:
		return "", nil
	case path == "":
		return environment(environmentOf(o.name)), nil
	case o.given:
		return "", errors.New("the password is given, too: expected one of both")
	}
	return ReadSecret(path)
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
// there. It is called before the configuration is written, which says them from then on.
func (c *Config) leaveSecretFiles() error {
	for o := range c.options() {
		if o.file == nil || o.supplied == "" || o.isSupplied() {
			continue
		}
		if err := c.lookup(o.name + secretFileSuffix).set(""); err != nil {
			return err
		}
	}
	return nil
}
