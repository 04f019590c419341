package migrate

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// ExitDifferent is verify's exit code when the servers differ.
const ExitDifferent = 1

// VerifyOptions say what is compared.
type VerifyOptions struct {
	From, To    Server
	Filter      *Filter
	Sample      float64       // of the keys, above 0 and up to 1
	Tolerance   time.Duration // by which expiries may differ
	Retry       time.Duration // after which what differs is looked at again: the target may be behind
	Connections int           // how many compare at the same time
	Progress    *Progress
	Report      func(Difference) // gets every difference; for one goroutine at a time
}

// Difference is a key that isn't the same on both servers.
type Difference struct {
	Library  bool // of functions, and no key
	Database int  // of the source
	Key      []byte
	What     string
}

func (d Difference) String() string {
	if d.Library {
		return fmt.Sprintf("library %q %s", d.Key, d.What)
	}
	return fmt.Sprintf("%d %q %s", d.Database, d.Key, d.What)
}

// ParseSample reads a share, such as 1% or 0.01.
func ParseSample(text string) (float64, error) {
	digits, percent := strings.CutSuffix(text, "%")
	share, err := strconv.ParseFloat(digits, 64)
	if percent {
		share /= 100
	}
	if err != nil || !(share > 0 && share <= 1) {
		return 0, failure(ExitUsage, "--sample: expected a share such as 1%%, got %q", text)
	}
	return share, nil
}

// Verify compares two servers key by key. It returns how many keys it has compared and how many
// differ.
//
// Both are walked with SCAN: the source for what the target lacks or has otherwise, the target for
// what it has beside that. Under writes keys may differ for as long as the target is behind; so
// what differs is looked at again, twice, before it counts.
func Verify(ctx context.Context, options VerifyOptions) (compared, different int64, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	v := &verifier{VerifyOptions: options, ctx: ctx, cancel: cancel, batches: make(chan []pair, options.Connections)}
	if v.from, err = openReader(ctx, options.From, sourceSide, options.Connections); err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, v.from.close()) }()
	if v.to, err = openReader(ctx, options.To, targetSide, options.Connections); err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, v.to.close()) }()
	v.digests = v.from.mayDigest && v.to.mayDigest
	v.from.untimed, v.to.untimed = options.Filter.WithoutFieldTimes, options.Filter.WithoutFieldTimes
	for range options.Connections {
		v.workers.Add(1)
		go v.work()
	}
	v.Progress.Phase("comparing")
	if err := v.walkSource(); err == nil {
		v.Progress.Phase("looking for keys of the target alone")
		v.fail(v.walkTarget())
	} else {
		v.fail(err)
	}
	close(v.batches)
	v.workers.Wait()
	if ctx.Err() == nil {
		v.fail(v.compareLibraries())
	}
	if ctx.Err() != nil {
		return v.compared, v.different, context.Cause(ctx)
	}
	return v.compared, v.different, nil
}

// pair is a key on both sides.
type pair struct {
	from, to         []byte
	fromBase, toBase int // databases
}

type verifier struct {
	VerifyOptions
	ctx      context.Context
	cancel   context.CancelCauseFunc
	from, to *reader
	digests  bool // both servers compute them
	batches  chan []pair
	workers  sync.WaitGroup

	mu                  sync.Mutex
	compared, different int64
}

func (v *verifier) fail(err error) {
	if err != nil {
		v.cancel(err)
	}
}

const verifyBatch = 200

// chosen says whether a key is in the sample: the same keys in every run.
func (v *verifier) chosen(key []byte) bool {
	return v.Sample >= 1 || float64(crc32.ChecksumIEEE(key)) < v.Sample*(1<<32)
}

// expect lists the databases of one side, and tells the progress how many keys those have that
// count.
func (v *verifier) expect(side *reader, counts func(database int) bool) ([]int, error) {
	databases, keyspace, err := side.databases()
	v.Progress.Expected.Store(keyspace.keys(counts))
	return databases, err
}

func (v *verifier) walkSource() error {
	databases, err := v.expect(v.from, func(database int) bool { _, ok := v.Filter.Database(database); return ok })
	if err != nil {
		return err
	}
	for _, database := range databases {
		to, ok := v.Filter.Database(database)
		if !ok {
			continue
		}
		if v.to.cluster != nil && to != 0 {
			return failure(ExitUnsupported, "the source has keys in database %d: the target is a cluster, which has only database 0 (see --db and --db-map)", database)
		}
		err := v.from.scan(v.ctx, database, func(keys []string) error {
			var some []pair
			v.Progress.Seen.Add(int64(len(keys)))
			for _, name := range keys {
				key := []byte(name)
				if v.Filter.Wants(key) && v.chosen(key) && !strings.HasPrefix(name, markerPrefix) {
					some = append(some, pair{key, v.Filter.Rename(key), database, to})
				}
			}
			return v.give(some)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// give hands pairs to the workers.
func (v *verifier) give(pairs []pair) error {
	for len(pairs) > 0 {
		n := min(len(pairs), verifyBatch)
		select {
		case v.batches <- pairs[:n]:
		case <-v.ctx.Done():
			return context.Cause(v.ctx)
		}
		pairs = pairs[n:]
	}
	return nil
}

// walkTarget finds keys that nothing of the source is meant to be.
func (v *verifier) walkTarget() error {
	databases, err := v.expect(v.to, v.Filter.reaches)
	if err != nil {
		return err
	}
	for _, database := range databases {
		for _, from := range v.sourcesOf(database) {
			err := v.to.scan(v.ctx, database, func(keys []string) error {
				v.Progress.Seen.Add(int64(len(keys)))
				return v.lookForOrigins(from, database, keys)
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// sourcesOf lists the databases that are written to one of the target.
func (v *verifier) sourcesOf(database int) (list []int) {
	if len(v.Filter.Databases) == 0 {
		return []int{database}
	}
	for from, to := range v.Filter.Databases {
		if to == database {
			list = append(list, from)
		}
	}
	return list
}

// lookForOrigins gives those keys to the workers that aren't at the source under any name.
func (v *verifier) lookForOrigins(from, database int, keys []string) error {
	var candidates []pair
	for _, name := range keys {
		key := []byte(name)
		origins := v.Filter.Origins(key)
		if len(origins) == 0 || !v.chosen(origins[0]) || strings.HasPrefix(name, markerPrefix) {
			continue
		}
		for _, origin := range origins {
			candidates = append(candidates, pair{origin, key, from, database})
		}
	}
	found := map[string]bool{} // by name at the target; its origins may be in several batches
	for some := range slices.Chunk(candidates, verifyBatch) {
		states, err := v.from.exist(v.ctx, some)
		if err != nil {
			return err
		}
		for i, there := range states {
			found[string(some[i].to)] = found[string(some[i].to)] || there
		}
	}
	var missing []pair
	for _, c := range candidates {
		if !found[string(c.to)] {
			missing = append(missing, c)
			found[string(c.to)] = true // once is enough
		}
	}
	return v.give(missing)
}

func (v *verifier) work() {
	defer v.workers.Done()
	for pairs := range v.batches {
		if v.ctx.Err() != nil {
			continue
		}
		v.fail(v.compare(pairs))
	}
}

const verifyAttempts = 3

// compare compares keys, and those that differ again.
func (v *verifier) compare(pairs []pair) error {
	v.mu.Lock()
	v.compared += int64(len(pairs))
	v.mu.Unlock()
	v.Progress.Keys.Add(int64(len(pairs)))
	var what []string
	for attempt := 1; len(pairs) > 0; attempt++ {
		var err error
		if pairs, what, err = v.compareOnce(pairs); err != nil {
			return err
		}
		if len(pairs) == 0 || attempt == verifyAttempts {
			break
		}
		select {
		case <-v.ctx.Done():
			return context.Cause(v.ctx)
		case <-time.After(v.Retry):
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for i, p := range pairs {
		v.different++
		v.Report(Difference{Database: p.fromBase, Key: p.from, What: what[i]})
	}
	return nil
}

// compareOnce returns the pairs that differ, and in what.
func (v *verifier) compareOnce(pairs []pair) (left []pair, what []string, err error) {
	names := func(of func(pair) ([]byte, int)) []location {
		list := make([]location, len(pairs))
		for i, p := range pairs {
			list[i].key, list[i].database = of(p)
		}
		return list
	}
	var theirs []fingerprint
	var failed error
	done := make(chan struct{})
	go func() {
		defer close(done)
		theirs, failed = v.to.fingerprints(v.ctx, names(func(p pair) ([]byte, int) { return p.to, p.toBase }), v.digests)
	}()
	ours, err := v.from.fingerprints(v.ctx, names(func(p pair) ([]byte, int) { return p.from, p.fromBase }), v.digests)
	<-done
	if err := errors.Join(err, failed); err != nil {
		return nil, nil, err
	}
	if err := v.readScores(pairs, ours, theirs); err != nil {
		return nil, nil, err
	}
	for i, p := range pairs {
		if difference := ours[i].compare(theirs[i], v.Tolerance); difference != "" {
			left, what = append(left, p), append(what, difference)
		}
	}
	return left, what, nil
}

// readScores reads sorted sets whose digests differ: Kedis and Redis up to 7.0 digest a score with
// 17 digits, newer servers with as few as tell it.
func (v *verifier) readScores(pairs []pair, ours, theirs []fingerprint) error {
	for i := range pairs {
		if !v.digests || ours[i].kind != "zset" || theirs[i].kind != "zset" || ours[i].digest == theirs[i].digest {
			continue
		}
		for _, side := range []struct {
			reader *reader
			key    []byte
			base   int
			print  *fingerprint
		}{{v.from, pairs[i].from, pairs[i].fromBase, &ours[i]}, {v.to, pairs[i].to, pairs[i].toBase, &theirs[i]}} {
			var err error
			side.print.digest, err = valueDigest(v.ctx, side.reader.on(side.base), "zset", string(side.key), side.print.expireMs != 0)
			if err != nil {
				return side.reader.side.explain(side.reader.server.address(), fmt.Errorf("%w (key %.200q)", err, side.key))
			}
		}
	}
	return nil
}

// fingerprint is what of a key is compared.
type fingerprint struct {
	kind     string // none: there is no such key
	digest   string
	expireMs int64

	timed      bool   // fields of a hash expire
	fieldTimes string // a digest of when they do

	stream *streamPrint // of a stream
}

// compare says in what two fingerprints differ, empty if in nothing.
func (f fingerprint) compare(other fingerprint, tolerance time.Duration) string {
	apart, inGroups := f.expireMs-other.expireMs, ""
	if f.stream != nil && other.stream != nil {
		inGroups = f.stream.compare(other.stream)
	}
	switch {
	case f.kind == other.kind && f.kind == "none":
		return ""
	case other.kind == "none":
		return "is missing at the target"
	case f.kind == "none":
		return "is at the target only"
	case f.kind != other.kind:
		return fmt.Sprintf("is a %s at the source and a %s at the target", f.kind, other.kind)
	case (f.expireMs == 0) != (other.expireMs == 0):
		return fmt.Sprintf("expires at %s at the source and at %s at the target", showExpiry(f.expireMs), showExpiry(other.expireMs))
	case f.timed != other.timed:
		return "has fields that expire on one side only (hash)"
	case f.digest != other.digest:
		return fmt.Sprintf("has another value (%s)", f.kind)
	case inGroups != "":
		return inGroups
	case f.timed && f.fieldTimes != other.fieldTimes:
		return "has fields that expire at other times (hash)"
	case max(apart, -apart) > tolerance.Milliseconds():
		return fmt.Sprintf("expires at %s at the source and at %s at the target", showExpiry(f.expireMs), showExpiry(other.expireMs))
	}
	return ""
}

func showExpiry(ms int64) string {
	if ms == 0 {
		return "no time"
	}
	return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z")
}
