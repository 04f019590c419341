package migrate

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"

	"kedis/binlog"
	"kedis/internal/resp"
)

// A log of Kedis is read as if its commands stood in an AOF. One that was kept of a former primary,
// in DIR/parted/HISTORY-FROM-TO, is read from FROM on: what lies before it the new primary has.

var keptLog = regexp.MustCompile(`^[0-9a-f]{40}-(\d+)-\d+$`)

// logStart is the position that a log is read from.
func logStart(directory string) binlog.Position {
	found := keptLog.FindStringSubmatch(filepath.Base(filepath.Clean(directory)))
	if found == nil {
		return 0
	}
	from, err := strconv.ParseInt(found[1], 10, 64)
	if err != nil {
		return 0
	}
	return from
}

// IsTail says that what a name has is the end of a history that the target has, too, up to there.
func IsTail(name string) bool { return logStart(name) > 0 }

// logPart returns the commands of a log.
func logPart(directory string) part {
	return part{directory, func() (io.ReadCloser, error) {
		reader, writer := io.Pipe()
		go func() { writer.CloseWithError(copyLog(writer, directory)) }()
		return reader, nil
	}}
}

func copyLog(to io.Writer, directory string) error {
	return binlog.Scan(directory, binlog.Range{From: logStart(directory)}, func(r binlog.Record) error {
		database := resp.AppendRequest(nil, []byte("SELECT"), strconv.AppendInt(nil, int64(r.Database), 10))
		_, err := to.Write(append(database, r.Payload...))
		return err
	})
}

// logBytes is what the files of a log have together.
func logBytes(directory string) (total int64) {
	files, err := os.ReadDir(directory)
	if err != nil {
		return 0
	}
	for _, file := range files {
		if status, err := file.Info(); err == nil {
			total += status.Size()
		}
	}
	return total
}

// saysNothing reports whether a command of a log moves its position and changes no data.
func saysNothing(name []byte) bool {
	for _, idle := range []string{"PING", "PUBLISH", "SPUBLISH", "REPLCONF"} {
		if bytes.EqualFold(name, []byte(idle)) {
			return true
		}
	}
	return false
}
