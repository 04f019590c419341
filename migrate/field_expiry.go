package migrate

import (
	"context"
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"
)

// releaseFields gives fields of hashes the times that were meant, if any field may have one: of
// some keys, it looks at the hashes.
func (t *Target) releaseFields(client *redis.Client, keys [][]byte, w *walk) error {
	if t.fieldTimes != fieldTimesKnown {
		return nil
	}
	hashes, err := timedAmong(t.ctx, client, keys)
	if err != nil {
		return err
	}
	for _, hash := range hashes {
		err := t.releaseHash(client, hash, w)
		if err != nil && !strings.HasPrefix(err.Error(), "WRONGTYPE") { // it may have become another key
			return err
		}
	}
	return nil
}

// timedAmong lists the hashes among keys in which fields may expire. One that Redis, Kedis or
// Valkey calls a listpack has no such field.
func timedAmong(ctx context.Context, client *redis.Client, keys [][]byte) (hashes []string, err error) {
	kinds, encodings := make([]*redis.StatusCmd, len(keys)), make([]*redis.Cmd, len(keys))
	_, err = client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, key := range keys {
			kinds[i] = p.Type(ctx, string(key))
			encodings[i] = p.Do(ctx, "OBJECT", "ENCODING", key)
		}
		return nil
	})
	var refused redis.Error // a key is gone
	if err != nil && !errors.As(err, &refused) {
		return nil, err
	}
	for i, key := range keys {
		if kinds[i].Val() == "hash" && encodings[i].Val() != "listpack" {
			hashes = append(hashes, string(key))
		}
	}
	return hashes, nil
}

func (t *Target) releaseHash(client *redis.Client, key string, w *walk) error {
	for cursor := uint64(0); ; {
		pairs, times, next, err := scanTimes(t.ctx, client, key, cursor)
		if err != nil {
			return err
		}
		var fields []string
		for i, ms := range times {
			if _, held := ofFields.release(ms); held {
				fields = append(fields, pairs[2*i])
			}
		}
		if len(fields) > 0 {
			if err := t.releasePage(client, key, fields, w); err != nil {
				return err
			}
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

// releasePage tries again when a client has changed the hash in between.
func (t *Target) releasePage(client *redis.Client, key string, fields []string, w *walk) error {
	for range releaseAttempts {
		released, err := t.releaseFieldsOf(client, key, fields)
		if !errors.Is(err, redis.TxFailedErr) {
			w.fields += released
			return err
		}
	}
	w.busy = true
	return nil
}

func (t *Target) releaseFieldsOf(client *redis.Client, key string, fields []string) (released int64, err error) {
	err = client.Watch(t.ctx, func(tx *redis.Tx) error {
		times, err := timesOfFields(t.ctx, tx, key, fields)
		if err != nil {
			return err
		}
		_, err = tx.TxPipelined(t.ctx, func(p redis.Pipeliner) error {
			for i, field := range fields {
				if ms, held := ofFields.release(times[i]); held {
					released++
					p.Do(t.ctx, "HPEXPIREAT", key, ms, "FIELDS", 1, field)
				}
			}
			return nil
		})
		return err
	}, key)
	return released, err
}
