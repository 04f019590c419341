// Package launch starts the servers that the tests drive: the one under test and the oracle, each
// on a port that the kernel gave, with a directory of its own, and ends them.
//
// It imports only the standard library and redis-tests/resp, and knows nothing of Kedis but its
// command line.
package launch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"kedis/redis-tests/resp"
)

// The environment variables that choose the servers.
const (
	// ServerVariable holds a whole command line, quoted as in redis-cli:
	// KEDIS_SERVER="redis-server" puts the oracle on both sides.
	ServerVariable = "KEDIS_SERVER"
	// BinaryVariable names a kedis binary to test, instead of building one.
	BinaryVariable = "KEDIS_BINARY"
	// BuildVariable holds flags for go build, such as "-race".
	BuildVariable = "KEDIS_BUILD"
	// OracleVariable names the redis-server to compare with, if it isn't the one in PATH. Behind it
	// and _ stands the name of a newer one: KEDIS_ORACLE_REDIS8 is a Redis 8.0,
	// KEDIS_ORACLE_VALKEY9 a Valkey 9.
	OracleVariable = "KEDIS_ORACLE"
)

// Program is a server that can be started: kedis, or a redis-server.
type Program struct {
	Line    []string // what to run; options follow
	IsRedis bool     // a redis-server or a descendant of it, and not Kedis
	Host    string   // where it listens; empty: 127.0.0.1
}

// debugOptions make a server answer DEBUG, as the tests need it.
var debugOptions = []string{"--enable-debug-command", "yes"}

// redisOptions make a redis-server keep nothing.
var redisOptions = []string{"--save", "", "--appendonly", "no", "--loglevel", "warning"}

// Oracle returns the redis-server whose replies are the expectation.
func Oracle() (Program, error) {
	name := os.Getenv(OracleVariable)
	if name == "" {
		name = "redis-server"
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return Program{}, fmt.Errorf("launch: the oracle is missing (scripts/install-dependencies.sh build test gets it, and KEDIS_ORACLE names it; make test does both): %w", err)
	}
	return Program{Line: []string{path}, IsRedis: true}, nil
}

// The names of newer oracles. Tests that want one are skipped without it, so what CI needs of them
// is recorded.
const (
	Redis8  = "redis8"
	Valkey9 = "valkey9"
)

// NewerOracle returns a newer server than Oracle, by its name; false when the environment doesn't
// name one.
func NewerOracle(name string) (program Program, given bool, err error) {
	variable := OracleVariable + "_" + strings.ToUpper(name)
	path := os.Getenv(variable)
	if path == "" {
		return Program{}, false, nil
	}
	if path, err = exec.LookPath(path); err != nil {
		return Program{}, true, fmt.Errorf("launch: %s: %w", variable, err)
	}
	return Program{Line: []string{path}, IsRedis: true}, true, nil
}

// UnderTest returns the server under test: what the environment names, or else a kedis built from
// this tree.
func UnderTest() (Program, error) {
	if line := os.Getenv(ServerVariable); line != "" {
		words, err := resp.SplitLine(line)
		if err != nil || len(words) == 0 {
			return Program{}, fmt.Errorf("launch: %s=%q isn't a command line: %w", ServerVariable, line, err)
		}
		return Program{Line: words, IsRedis: isRedis(words)}, nil
	}
	binary, err := Binary()
	if err != nil {
		return Program{}, err
	}
	return Program{Line: []string{binary, "serve"}}, nil
}

// isRedis goes by the name of the executable, which may follow env and its settings.
func isRedis(line []string) bool {
	return slices.ContainsFunc(line, func(word string) bool {
		switch filepath.Base(word) {
		case "redis-server", "redict-server", "valkey-server":
			return true
		}
		return false
	})
}

// Binary returns the path of the kedis binary: the one that KEDIS_BINARY names, or one built from
// this tree.
func Binary() (string, error) {
	if path := os.Getenv(BinaryVariable); path != "" {
		if _, err := os.Stat(path); err != nil {
			return "", fmt.Errorf("launch: %s: %w", BinaryVariable, err)
		}
		return filepath.Abs(path)
	}
	return build()
}

// build makes bin/kedis-for-tests once for each process. Test binaries run side by side, so a lock
// on the directory makes them take turns; go build leaves a binary alone that is up to date.
var build = sync.OnceValues(func() (string, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	if err := dependOnSources(root); err != nil {
		return "", err
	}
	flags := strings.Fields(os.Getenv(BuildVariable))
	path := filepath.Join(root, "bin", "kedis-for-tests"+strings.Join(flags, ""))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", fmt.Errorf("launch: %w", err)
	}
	unlock, err := lockDirectory(filepath.Dir(path))
	if err != nil {
		return "", err
	}
	defer unlock()
	command := exec.Command("go", slices.Concat([]string{"build", "-pgo=off", "-o", path}, flags, []string{"."})...)
	command.Dir = root
	if output, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("launch: building kedis: %w\n%s", err, output)
	}
	return path, nil
})

func moduleRoot() (string, error) {
	directory, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("launch: %w", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(directory, "go.mod")); err == nil {
			return directory, nil
		}
		parent := filepath.Dir(directory)
		if parent == directory {
			return "", errors.New("launch: no go.mod above the working directory")
		}
		directory = parent
	}
}

// dependOnSources opens every Go file. The go command notes which files a test opened, so a result
// that it has cached is used again only while the sources of the server are as they were.
func dependOnSources(root string) error {
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && path != root && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "node_modules" || entry.Name() == "data") {
			return fs.SkipDir
		}
		if filepath.Ext(path) == ".go" {
			file, err := os.Open(path)
			if err != nil {
				return err
			}
			return file.Close()
		}
		return nil
	})
}

func lockDirectory(directory string) (unlock func(), err error) {
	file, err := os.Open(directory)
	if err != nil {
		return nil, fmt.Errorf("launch: %w", err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("launch: locking %s: %w", directory, err), file.Close())
	}
	// Closing the only descriptor releases the lock.
	return func() { _ = file.Close() }, nil
}
