package migrate

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// What a target was sent and hasn't answered in time may still be on its way, in the network or in
// a target that hangs, when the next attempt reads how far the target is. Carried out after that it
// would be done twice. So the connections of a move bear its name, and before an attempt reads
// anything it has the target close those of former ones: what came over them is done by then, or
// never.

// closeEvery is how often the target is asked whether it has closed the connections that it was
// told to: a Kedis does that once their commands have ended.
const closeEvery = 10 * time.Millisecond

// introduce connects once: what go-redis passes over, such as a password where there is none, shows
// before anything is written. It finds out whether connections can be named.
func (t *Target) introduce() error {
	s := &t.options.Server
	if t.options.Move != "" {
		attempt, err := newRun()
		if err != nil {
			return err
		}
		s.Name = namesOf(t.options.Move) + attempt
	}
	c, err := s.connect(t.ctx, s.address())
	if err != nil && s.Name != "" && refusesCommand(err) {
		t.unnamed, s.Name = err, ""
		c, err = s.connect(t.ctx, s.address())
	}
	if err == nil {
		c.close()
	}
	return err
}

// namesOf begins the names of a move's connections. Each attempt has its own.
func namesOf(move string) string { return markerPrefix + move + ":" }

// refusesCommand reports whether a server doesn't let its user have a command at all.
func refusesCommand(err error) bool {
	return replyCode(err) == "NOPERM" || strings.Contains(err.Error(), "unknown command")
}

// EndFormer ends the connections of the move's former attempts.
func (t *Target) EndFormer() error {
	err := t.unnamed
	if err == nil {
		err = t.eachServer(t.endFormerAt)
	}
	if err != nil && refusesCommand(err) {
		t.options.Progress.Say("the target doesn't let connections of former attempts be ended, so what they sent must not be on its way any more: %v", err)
		return nil
	}
	return targetSide.explain(t.options.address(), err)
}

func (t *Target) endFormerAt(ctx context.Context, client *redis.Client) error {
	deadline := time.Now().Add(replyTimeout)
	for {
		left, err := t.closeFormer(ctx, client)
		if left == 0 || err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d connections of former attempts don't end: %w", left, context.DeadlineExceeded)
		}
		time.Sleep(closeEvery)
	}
}

// closeFormer has a server close the move's connections but for this attempt's, and returns how
// many there were.
func (t *Target) closeFormer(ctx context.Context, client *redis.Client) (found int, err error) {
	list, err := client.ClientList(ctx).Result()
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(list) {
		shown := facts{}
		for _, field := range strings.Fields(line) {
			name, value, _ := strings.Cut(field, "=")
			shown[name] = value
		}
		if shown["name"] == t.options.Name || !strings.HasPrefix(shown["name"], namesOf(t.options.Move)) {
			continue
		}
		found++
		if err := client.ClientKillByFilter(ctx, "ID", shown["id"]).Err(); err != nil {
			return found, err
		}
	}
	return found, nil
}
