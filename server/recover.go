package server

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"kedis/binlog"
	"kedis/server/command"
)

// ProgressInterval is how often the log says how far a recovery is.
const ProgressInterval = 5 * time.Second

// recovery applies the log to the store.
type recovery struct {
	data    *Data
	engine  *command.Engine
	applier *command.Applier
	records int
	told    time.Time
}

// BeginLoading has the engine refuse commands until EndLoading if there is something that the log has and RocksDB has not, and reports that.
func (d *Data) BeginLoading(engine *command.Engine) bool {
	if d.Store.Position() >= d.Log().Position() {
		return false
	}
	engine.BeginLoading(d.Log().Position())
	return true
}

// Recover applies what the log has and RocksDB has not. When the context ends before that is done the error is the context's, and the next
// Recover goes on from there.
func (d *Data) Recover(ctx context.Context, engine *command.Engine) error {
	start, from := time.Now(), d.Store.Position()
	if from > d.Log().Position() {
		return fmt.Errorf("server: the data is at position %d, but its log ends at %d", from, d.Log().Position())
	}
	r := &recovery{data: d, engine: engine, applier: engine.NewApplier(), told: start}
	if from < d.Log().Position() {
		d.logger.Info("applying the log", "from", from, "to", d.Log().Position())
		err := binlog.Walk(d.logOptions(d.Store.LogDirectory()).Directory, binlog.Range{From: from}, func(record binlog.Record) error {
			return r.apply(ctx, record)
		})
		if ctx.Err() != nil {
			d.logger.Info("stopped while the log was applied; the next start goes on", "position", d.Store.Position())
			return ctx.Err()
		}
		if err != nil {
			return fmt.Errorf("server: recovering from position %d of the log: %w", d.Store.Position(), err)
		}
	}
	d.logger.Info("recovered", "position", d.Store.Position(), "from", from, "records", r.records,
		"took", time.Since(start).Round(time.Microsecond).String(), "clean", d.recovered.Clean)
	return nil
}

func (r *recovery) apply(ctx context.Context, record binlog.Record) error {
	if err := r.delay(ctx); err != nil {
		return err
	}
	r.records++
	r.tell()
	return r.applier.Replay(record.Database, record.Payload, record.End)
}

// delay waits as long as key-load-delay says: microseconds, or one microsecond in so many times if it is negative.
func (r *recovery) delay(ctx context.Context) error {
	microseconds := r.data.config.KeyLoadDelay.Get()
	if microseconds < 0 && rand.Int64N(-microseconds) == 0 {
		microseconds = 1
	}
	if microseconds <= 0 {
		return ctx.Err()
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Duration(microseconds) * time.Microsecond):
		return nil
	}
}

// tell logs how far the recovery is, every few seconds.
func (r *recovery) tell() {
	if time.Since(r.told) < ProgressInterval {
		return
	}
	r.told = time.Now()
	if p, ok := r.engine.LoadingProgress(); ok {
		r.data.logger.Info("applying the log", "position", r.data.Store.Position(), "records", r.records,
			"done", fmt.Sprintf("%.1f%%", p.Percent()), "remaining", p.Remaining.String())
	}
}
