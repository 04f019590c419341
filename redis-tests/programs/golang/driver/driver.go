// Package driver is what the drivers in Go share: the address of the server, the crash, and
// waiting.
package driver

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"time"
)

const patience = 2 * time.Minute

// Address returns the address of the server that the driver was given.
func Address() string {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: DRIVER host:port")
		os.Exit(2)
	}
	return os.Args[1]
}

// Run runs the parts of a driver, and ends the process with 1 at the first that fails.
func Run(name string, parts ...func(ctx context.Context) error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for number, part := range parts {
		if err := part(ctx); err != nil {
			fmt.Fprintf(os.Stderr, "%s, part %d: %v\n", name, number+1, err)
			os.Exit(1)
		}
	}
	fmt.Println(name + ": all results are right")
}

// Crash has the server killed and started again, and ends when it serves.
func Crash() error {
	fmt.Println("crash")
	_, err := bufio.NewReader(os.Stdin).ReadString('\n')
	return err
}

// Until waits for a condition.
func Until(ctx context.Context, what string, reached func() (bool, error)) error {
	for {
		is, err := reached()
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", what, err)
		case is:
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, ctx.Err())
		case <-time.After(time.Millisecond):
		}
	}
}
