package engine

import (
	"time"

	"github.com/hashicorp/go-hclog"
)

// trouble is a failure of something that is retried. It is logged when it begins, once a minute
// while it lasts, and when it is over.
type trouble struct {
	logger hclog.Logger
	doing  string
	begun  time.Time // zero: there is none
	told   time.Time
}

const tellEvery = time.Minute

// note takes the outcome of an attempt.
func (t *trouble) note(err error, now time.Time) {
	switch {
	case err == nil && !t.begun.IsZero():
		t.logger.Info(t.doing+" works again", "after", now.Sub(t.begun).Round(time.Millisecond).String())
		t.begun = time.Time{}
	case err == nil:
	case t.begun.IsZero():
		t.logger.Error(t.doing+" failed, and is tried again until it works", "error", err)
		t.begun, t.told = now, now
	case now.Sub(t.told) >= tellEvery:
		t.logger.Error(t.doing+" still fails", "for", now.Sub(t.begun).Round(time.Second).String(), "error", err)
		t.told = now
	}
}
