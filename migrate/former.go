package migrate

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// A batch whose answer didn't come in time may still be on its way, in the network or in a target
// that hangs, when the next attempt reads how far the target is. Carried out after that it would be
// done twice. So the connections that batches go over bear the name of their run, and before an
// attempt reads anything it has the target close those of former ones: what came over them is done
// by then, or never.

// closeEvery is how often the target is asked whether it has closed the connections that it was
// told to: a Kedis does that once their commands have ended.
const closeEvery = 10 * time.Millisecond

// EndFormer ends the connections of a run's former attempts.
func (t *Target) EndFormer(run string) error {
	name := connectionName(run)
	err := t.eachServer(func(ctx context.Context, client *redis.Client) error {
		deadline := time.Now().Add(replyTimeout)
		for {
			left, err := closeNamed(ctx, client, name)
			if left == 0 || err != nil {
				return err
			}
			if time.Now().After(deadline) {
				return fmt.Errorf("%d connections of a former attempt, %s, don't end", left, name)
			}
			time.Sleep(closeEvery)
		}
	})
	if err != nil && replyCode(err) == "NOPERM" {
		t.options.Progress.Say("the target doesn't let connections of former attempts be ended, so what they sent must not be on its way any more: %v", err)
		return nil
	}
	return targetSide.explain(t.options.address(), err)
}

// connectionName is what CLIENT LIST shows of the connections that a run's batches go over.
func connectionName(run string) string { return markerPrefix + run }

// closeNamed has a server close the connections with a name, and returns how many there were.
func closeNamed(ctx context.Context, client *redis.Client, name string) (found int, err error) {
	list, err := client.ClientList(ctx).Result()
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(list) {
		fields := strings.Fields(line)
		if len(fields) == 0 || !slices.Contains(fields, "name="+name) {
			continue
		}
		found++
		id, _ := strings.CutPrefix(fields[0], "id=")
		if err := client.ClientKillByFilter(ctx, "ID", id).Err(); err != nil {
			return found, err
		}
	}
	return found, nil
}
