package migrate

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Position is a place in a source's stream, behind a whole command or transaction.
type Position struct {
	Offset   int64 // bytes since the stream began
	Database int   // that the stream has selected there
}

func (p Position) String() string { return fmt.Sprintf("%d:%d", p.Offset, p.Database) }

func parsePosition(text string) (p Position, err error) {
	offset, database, _ := strings.Cut(text, ":")
	if p.Offset, err = strconv.ParseInt(offset, 10, 64); err == nil {
		p.Database, err = strconv.Atoi(database)
	}
	if err != nil || p.Offset < 0 || p.Database < 0 {
		return p, fmt.Errorf("%.60q is not a position", text)
	}
	return p, nil
}

// markerPrefix begins the names of the keys in which a target keeps how far it is.
const markerPrefix = "kedis:port:"

// marker is how far each part of the target is. It stands at the target itself and changes in the
// same transaction as the data: commands such as INCR must not be repeated, and what a killed
// program or a killed target has done last nobody else knows.
//
// On one server it is a hash: for each lane the position up to which it has what is meant for it.
// In a cluster, where a transaction is within a slot, each slot that was written to has a key of
// its own.
type marker struct {
	id       string
	done     map[int]int64 // for each lane or slot: the position that it had in an earlier run
	furthest int64         // of done
}

// applied says whether what the stream has up to a position was done in an earlier run.
func (m *marker) applied(part int, spans bool, position Position) bool {
	if m == nil {
		return false
	}
	// What spans several lanes moves all of them. A lane that is behind had nothing to do since.
	if spans {
		return position.Offset <= m.furthest
	}
	return position.Offset <= m.done[part]
}

func (m *marker) key() string { return markerPrefix + m.id }

func (m *marker) slotKey(slot int) string { return m.key() + ":{" + slotTags()[slot] + "}" }

// markWords is the command that moves the marker of a batch's lane, or of all, or of a slot; nil if
// no positions are kept. A lane that an earlier run had brought further stays there.
func (t *Target) markWords(l *lane, b *batch, slot int) [][]byte {
	if t.marker == nil {
		return nil
	}
	position := []byte(b.position.String())
	if t.cluster != nil {
		return [][]byte{[]byte("SET"), []byte(t.marker.slotKey(slot)), position}
	}
	words := [][]byte{[]byte("HSET"), []byte(t.marker.key())}
	for i := range t.lanes {
		if (b.all || i == l.index) && b.position.Offset >= t.marker.done[i] {
			words = append(words, strconv.AppendInt(nil, int64(i), 10), position)
		}
	}
	return words
}

// Track begins to keep positions, at one that everything up to is written.
func (t *Target) Track(id string, at Position) error {
	t.marker = &marker{id: id}
	return t.Checkpoint(at)
}

// Checkpoint waits until everything is written, and says so.
func (t *Target) Checkpoint(at Position) error {
	if err := t.Flush(); err != nil {
		return err
	}
	if t.cluster != nil {
		return nil
	}
	// Over a lane's connection, as data go: none comes when a later attempt has begun.
	if err := t.enqueue(t.lanes[0], &batch{all: true, position: at}); err != nil {
		return err
	}
	t.inFlight.Wait()
	return t.failed()
}

// Resume reads how far an earlier run was. known is what that run has noted of itself last. The
// result is where the stream has to be gone on with; ok is false when the target doesn't know of
// that run.
func (t *Target) Resume(id string, known Position) (from Position, ok bool, err error) {
	t.marker = &marker{id: id, done: map[int]int64{}}
	if t.cluster != nil {
		return known, true, t.resumeCluster(known)
	}
	fields, err := t.client.HGetAll(t.ctx, t.marker.key()).Result()
	if err != nil {
		return from, false, targetSide.explain(t.options.address(), err)
	}
	if len(fields) != len(t.lanes) {
		return from, false, nil
	}
	first := true
	for name, text := range fields {
		lane, err := strconv.Atoi(name)
		if err != nil {
			return from, false, fmt.Errorf("the marker %s: lane %.60q: %w", t.marker.key(), name, err)
		}
		position, err := parsePosition(text)
		if err != nil {
			return from, false, fmt.Errorf("the marker %s: %w", t.marker.key(), err)
		}
		t.marker.done[lane] = position.Offset
		t.marker.furthest = max(t.marker.furthest, position.Offset)
		if first || position.Offset < from.Offset {
			from, first = position, false
		}
	}
	return from, true, nil
}

func (t *Target) resumeCluster(known Position) error {
	return t.scan(0, t.marker.key()+":*", func(client *redis.Client, keys []string) error {
		for _, key := range keys {
			text, err := client.Get(t.ctx, key).Result()
			if err != nil {
				return targetSide.explain(t.options.address(), err)
			}
			position, err := parsePosition(text)
			if err != nil {
				return fmt.Errorf("the marker %s: %w", key, err)
			}
			t.marker.done[slotOf([]byte(key))] = position.Offset
			t.marker.furthest = max(t.marker.furthest, position.Offset)
		}
		return nil
	})
}

// Forget removes the marker of a run, when it has ended or its data is to be written anew.
func (t *Target) Forget(id string) error {
	m := &marker{id: id}
	t.marker = nil // what is written from now on has no position
	if t.cluster == nil {
		return targetSide.explain(t.options.address(), t.client.Del(t.ctx, m.key()).Err())
	}
	return t.scan(0, m.key()+":*", func(client *redis.Client, keys []string) error {
		for _, key := range keys {
			if err := client.Del(t.ctx, key).Err(); err != nil {
				return targetSide.explain(t.options.address(), err)
			}
		}
		return nil
	})
}
