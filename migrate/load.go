package migrate

import (
	"errors"
	"fmt"
	"io"
	"strconv"

	"kedis/internal/psync"
	"kedis/storage/rdb"
)

// loader reads a snapshot into a sink.
type loader struct {
	sink        Sink
	filter      *Filter
	progress    *Progress
	interrupted func() error
	sized       func(kind rdb.Kind, bytes int64) // nil, or gets the size of each key in the snapshot
	selected    int                              // database that the stream behind it has selected
}

func (l *loader) load(body io.Reader) error {
	file, err := rdb.NewReader(counted{body, l.progress}, 0)
	if err != nil {
		return err
	}
	file.InParts()
	for {
		if err := l.interrupted(); err != nil {
			return err
		}
		before := file.Offset()
		record, err := file.Next()
		if err == io.EOF {
			return psync.Drained(body)
		}
		if err != nil {
			return refusal(err)
		}
		if err := l.take(record); err != nil {
			if record.Kind == rdb.RecordKey && record.Value.Err() != nil {
				return refusal(err)
			}
			return err
		}
		if l.sized != nil && record.Kind == rdb.RecordKey {
			l.sized(record.Value.Kind, file.Offset()-before)
		}
	}
}

// counted counts what is read.
type counted struct {
	source   io.Reader
	progress *Progress
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.source.Read(p)
	c.progress.Bytes.Add(int64(n))
	return n, err
}

func (l *loader) take(record *rdb.Record) error {
	switch record.Kind {
	case rdb.RecordKey:
		return l.takeKey(record)
	case rdb.RecordAux:
		if string(record.Name) == "repl-stream-db" {
			selected, err := strconv.Atoi(string(record.Data))
			if err != nil || selected < 0 {
				return fmt.Errorf("the stream is in database %.20q", record.Data)
			}
			l.selected = selected
		}
	case rdb.RecordFunction:
		if l.filter.Libraries() {
			return l.sink.LoadLibrary(record.Data)
		}
		l.progress.Skip(skippedLibraries)
	case rdb.RecordModuleAux:
		l.progress.Skip("data of modules outside of keys")
	}
	return nil
}

func (l *loader) takeKey(record *rdb.Record) error {
	l.progress.Seen.Add(1)
	database, ok := l.filter.Database(int(record.Database))
	if !ok {
		l.progress.Skip("keys in databases that were not chosen")
		return nil
	}
	if !l.filter.Wants(record.Key) {
		l.progress.Skip("keys that were not chosen")
		return nil
	}
	l.filter.adapt(record.Value)
	return l.sink.Load(Key{Database: database, Name: l.filter.Rename(record.Key), ExpireMs: record.ExpireMs}, record.Value)
}

// refusal names the key that can't be read, or says that the rest hasn't come.
func refusal(err error) error {
	var unsupported *rdb.UnsupportedError
	if errors.As(err, &unsupported) {
		return failure(ExitUnsupported, "key %.200q has a value of a type that can't be moved (%w); leave it out with --exclude", unsupported.Key, err)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("the connection ended in the middle of the snapshot: %w", io.ErrUnexpectedEOF)
	}
	return fmt.Errorf("the snapshot: %w", err)
}
