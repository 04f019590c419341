package datadir

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"kedis/binlog"
	"kedis/server/execute"
)

// ProgressInterval is how often the log says how far a recovery is.
const ProgressInterval = 5 * time.Second

// recovery applies the log to the store.
type recovery struct {
	data    *Directory
	engine  *execute.Engine
	applier *execute.LogApplier
	records int
	logged  time.Time
}

// BeginLoading reports whether the log has records that RocksDB lacks. If so, the engine refuses
// commands until its EndLoading.
func (d *Directory) BeginLoading(engine *execute.Engine) bool {
	if d.Store.Position() >= d.Log().Position() {
		return false
	}
	engine.BeginLoading(d.Log().Position())
	return true
}

// Recover applies the records of the log that RocksDB lacks. It returns the context's error when
// that ends first; the next Recover goes on from there.
func (d *Directory) Recover(ctx context.Context, engine *execute.Engine) error {
	start, from := time.Now(), d.Store.Position()
	if from > d.Log().Position() {
		return fmt.Errorf("datadir: the data is at position %d, but its log ends at %d", from, d.Log().Position())
	}
	if err := engine.ReloadLibraries(); err != nil {
		return fmt.Errorf("datadir: loading the libraries of functions: %w", err)
	}
	r := &recovery{data: d, engine: engine, applier: engine.NewLogApplier(), logged: start}
	if from < d.Log().Position() {
		d.logger.Info("applying the log", "from", from, "to", d.Log().Position())
		err := binlog.Scan(d.logOptions(d.Store.LogDirectory()).Directory, binlog.Range{From: from}, func(record binlog.Record) error {
			return r.apply(ctx, record)
		})
		if ctx.Err() != nil {
			d.logger.Info("stopped while the log was applied; the next start goes on", "position", d.Store.Position())
			return ctx.Err()
		}
		if err != nil {
			return fmt.Errorf("datadir: recovering from position %d of the log: %w", d.Store.Position(), err)
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
	r.logProgress()
	return r.applier.Replay(record.Database, record.Payload, record.End, record.Time)
}

// delay waits as long as key-load-delay says. A negative one, -n, waits a microsecond before one
// record in n.
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

// logProgress logs how far the recovery is, every few seconds.
func (r *recovery) logProgress() {
	if time.Since(r.logged) < ProgressInterval {
		return
	}
	r.logged = time.Now()
	if p, ok := r.engine.LoadingProgress(); ok {
		r.data.logger.Info("applying the log", "position", r.data.Store.Position(), "records", r.records,
			"done", fmt.Sprintf("%.1f%%", p.Percent()), "remaining", p.Remaining.String())
	}
}
