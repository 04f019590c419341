package crash

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"kedis/redis-tests/launch"
)

// What kills meet, as what they leave on the disk tells, and a start's log.
const (
	meetsTables   = "table files that were being written" // by a flush or a compaction, or for an ingestion
	meetsSave     = "a checkpoint that was being made"
	meetsRecovery = "a log that was being applied"
	meetsRestored = "a checkpoint that was restored"
)

var meetings = []string{meetsTables, meetsSave, meetsRecovery, meetsRestored}

const (
	// longRounds is how many rounds are enough for kills to meet everything.
	longRounds = 100
	longest    = 600 * time.Millisecond // of a round
)

// beginSaving has checkpoints made, one after the other, in some rounds. What it returns has the
// error of that, once the server is killed.
func (l *load) beginSaving() (<-chan error, error) {
	ended := make(chan error, 1)
	if l.server.Program.IsRedis || l.random.IntN(2) == 0 {
		ended <- nil
		return ended, nil
	}
	connection, err := l.server.Dial()
	if err != nil {
		return nil, err
	}
	pause := time.Duration(l.random.IntN(20)) * time.Millisecond
	go func() {
		defer connection.Close()
		for {
			reply, err := connection.Do("bgsave")
			if err != nil && l.killed.Load() {
				ended <- nil
				return
			}
			if err != nil || reply.IsError() && !strings.Contains(reply.String(), "already in progress") {
				ended <- fmt.Errorf("BGSAVE: %s (%w)", reply, err)
				return
			}
			time.Sleep(pause)
		}
	}()
	return ended, nil
}

// awaitMoment waits until the server is to be killed: at any moment, or, in every other round, in
// the middle of something.
func (l *load) awaitMoment() {
	moment := time.Duration(l.random.Int64N(int64(longest)))
	looked := []func(string) bool{nil, nil, makesTables, makesCheckpoint}[l.random.IntN(4)]
	time.Sleep(moment / 2)
	for deadline := time.Now().Add(moment / 2); time.Now().Before(deadline); time.Sleep(100 * time.Microsecond) {
		if looked != nil && looked(l.server.Directory) {
			return
		}
	}
}

// noteMet counts what a kill has met.
func (l *load) noteMet() {
	if makesTables(l.server.Directory) {
		l.met[meetsTables]++
	}
	if makesCheckpoint(l.server.Directory) {
		l.met[meetsSave]++
	}
}

// makesTables reports whether table files are being written, or were when the server was killed. Of
// a flush or a compaction they have no end yet; those that are to be ingested stand in db/tables.
func makesTables(directory string) bool {
	ingested, _ := filepath.Glob(filepath.Join(directory, "db", "tables", "*"))
	written, _ := filepath.Glob(filepath.Join(directory, "db", "*.sst"))
	return len(ingested) > 0 || slices.ContainsFunc(written, isIncomplete)
}

// isIncomplete reports whether a table file lacks its end, the magic number of RocksDB's block
// based tables.
func isIncomplete(path string) bool {
	file, err := os.Open(path)
	if err != nil {
		return false // it was deleted
	}
	defer file.Close()
	var end [8]byte
	_, err = file.Seek(-int64(len(end)), io.SeekEnd)
	if err == nil {
		_, err = io.ReadFull(file, end[:])
	}
	return err != nil || !bytes.Equal(end[:], binary.LittleEndian.AppendUint64(nil, 0x88e241b785f4cff7))
}

func makesCheckpoint(directory string) bool {
	unfinished, _ := filepath.Glob(filepath.Join(directory, "backup", "checkpoint-*.tmp"))
	return len(unfinished) > 0
}

// killWhileStarting starts the server and kills it at any moment, or, every other time, soon after
// it has begun to apply the log.
func (l *load) killWhileStarting() error {
	moment := time.Duration(l.random.Int64N(int64(80 * time.Millisecond)))
	waits := l.random.IntN(2) == 0
	starting, err := l.server.Program.Begin(l.server.Directory, l.server.Options...)
	if err != nil {
		return err
	}
	if waits {
		for deadline := time.Now().Add(longest); !applies(starting) && starting.Running() && time.Now().Before(deadline); {
			time.Sleep(100 * time.Microsecond)
		}
		moment /= 16
	}
	time.Sleep(moment)
	starting.Kill()
	if applies(starting) {
		l.met[meetsRecovery]++
	}
	return nil
}

// applies reports whether a server applies its log, or did when it was killed.
func applies(server *launch.Server) bool {
	output := server.Output()
	return strings.Contains(output, "applying the log") && !strings.Contains(output, "recovered")
}

// restoreCheckpoint restores the last checkpoint, which was made while the load ran, with the log
// into a directory of its own, and compares what a server has there with what this one has.
func (l *load) restoreCheckpoint() error {
	checkpoints, err := filepath.Glob(filepath.Join(l.server.Directory, "backup", "checkpoint-*Z"))
	if err != nil || len(checkpoints) == 0 {
		return err
	}
	logs, err := filepath.Glob(filepath.Join(l.server.Directory, "binlog", "*"))
	if err != nil || len(logs) != 1 {
		return fmt.Errorf("the logs are %q (%w)", logs, err)
	}
	kedis, err := launch.Binary()
	if err != nil {
		return err
	}
	want := ask(l.t, l.server, "DEBUG", "DIGEST")
	directory := filepath.Join(l.t.TempDir(), "restored")
	restored := runToEnd(l.t, launch.Program{Line: []string{kedis}}, nil, "restore", "--checkpoint", slices.Max(checkpoints), "--binlog", logs[0], directory)
	if strings.Contains(restored.stderr, "position is purged") {
		return nil // the log doesn't reach back to it
	}
	if restored.exitCode != 0 {
		return fmt.Errorf("kedis restore of %s: %s", slices.Max(checkpoints), restored.stderr)
	}
	server, err := l.server.Program.Start(directory, l.server.Options...)
	if err != nil {
		return err
	}
	defer launch.End(l.t, server)
	if got := ask(l.t, server, "DEBUG", "DIGEST"); got != want {
		return fmt.Errorf("what was restored of %s has the digest %s, want %s", slices.Max(checkpoints), got, want)
	}
	l.met[meetsRestored]++
	return nil
}
