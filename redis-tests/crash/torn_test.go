package crash

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"kedis/redis-tests/launch"
)

const (
	tornRecords = 30
	cutMessage  = "cut off a torn tail"
)

// tornOptions keep all data in the log.
var tornOptions = []string{"--binlog-segment-size", "1mb", "--persist-interval", "1d"}

func tornKey(i int) string { return "key" + strconv.Itoa(i) }

func tornValue(i int) string { return "value" + strings.Repeat(strconv.Itoa(i), 3) }

// written returns a data directory in whose log each of tornRecords keys has a record of its own;
// the server was killed, or stopped cleanly.
func written(t *testing.T, fsync string, cleanly bool) string {
	t.Helper()
	server, err := launch.MustUnderTest(t).Start(t.TempDir(), append([]string{"--appendfsync", fsync}, tornOptions...)...)
	if err != nil {
		t.Fatal(err)
	}
	defer launch.End(t, server)
	connection := server.MustDial(t)
	for i := range tornRecords {
		if _, err := connection.Must("set", tornKey(i), tornValue(i)); err != nil {
			t.Fatal(err)
		}
	}
	if !cleanly {
		server.Kill()
	} else if err := server.Shutdown(); err != nil {
		t.Fatal(err)
	}
	return server.Directory
}

// damaged copies a data directory, lets damage change the copy's last segment file, and returns the
// copy and the path of that file.
func damaged(t *testing.T, directory string, damage func(path string) error) (copied, path string) {
	t.Helper()
	copied = filepath.Join(t.TempDir(), "data")
	if err := os.CopyFS(copied, os.DirFS(directory)); err != nil {
		t.Fatal(err)
	}
	path, _, err := lastSegment(copied)
	if err != nil {
		t.Fatal(err)
	}
	if err := damage(path); err != nil {
		t.Fatal(err)
	}
	return copied, path
}

func recordsOf(t *testing.T, directory string) []record {
	t.Helper()
	_, records, err := lastSegment(directory)
	if err != nil {
		t.Fatal(err)
	}
	if len(records) != tornRecords {
		t.Fatalf("%d requests made %d records", tornRecords, len(records))
	}
	return records
}

// startsWith starts a server and checks that it has the first count keys, and no others. It is
// killed and started again after one more write.
func startsWith(t *testing.T, directory string, count int, cut bool) {
	t.Helper()
	server, err := launch.MustUnderTest(t).Start(directory, tornOptions...)
	if err != nil {
		t.Fatal(err)
	}
	if said := strings.Contains(server.Output(), cutMessage); said != cut {
		t.Errorf("%q in the log: %v, want %v", cutMessage, said, cut)
	}
	holds(t, server, count)
	if _, err := server.MustDial(t).Must("set", "more", "x"); err != nil {
		t.Error(err)
	}
	launch.End(t, server)
	if server, err = server.Restart(); err != nil {
		t.Fatal(err)
	}
	defer launch.End(t, server)
	if strings.Contains(server.Output(), cutMessage) {
		t.Error("there was something to cut off again")
	}
	if _, err := server.MustDial(t).Must("del", "more"); err != nil {
		t.Error(err)
	}
	holds(t, server, count)
}

func holds(t *testing.T, server *launch.Server, count int) {
	t.Helper()
	data, err := ReadData(server.MustDial(t), []int{0})
	if err != nil {
		t.Fatal(err)
	}
	want := NewState([]int{0})
	for i := range count {
		want.Execute([]string{"set", tornKey(i), tornValue(i)})
	}
	if differences := want.differences(data); len(differences) > 0 {
		t.Errorf("of %d keys: %s", count, strings.Join(differences, "\n"))
	}
}

// TestTornTail cuts the log of a killed server within its last records: what stands whole in front
// of the cut is there.
func TestTornTail(t *testing.T) {
	directory := written(t, "no", false)
	records := recordsOf(t, directory)
	path, _, err := lastSegment(directory)
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const last = 3
	from, to := records[tornRecords-last].offset, records[tornRecords-1].end
	step := int64(47)
	if *rounds > 0 {
		step = 1
	}
	for size := from; size <= to; size += step {
		whole, end := 0, int64(0)
		for _, r := range records {
			if r.end <= size {
				whole, end = whole+1, r.end
			}
		}
		// Zeros stand behind the records of any segment: the first bytes of a small length can't be
		// told from them.
		torn := len(bytes.Trim(log[end:size], "\x00")) > 0
		t.Run(fmt.Sprintf("at %d", size-from), func(t *testing.T) {
			copied, _ := damaged(t, directory, func(path string) error { return os.Truncate(path, size) })
			startsWith(t, copied, whole, torn)
		})
	}
}

// recordParts are places in a record: its length, checksum, position, time, databases, durable
// position and payload.
var recordParts = []int64{3, 5, 14, 20, 27, 31, 39, recordHeader, recordHeader + 20}

// TestFlippedWhereNothingWasDurable changes a byte of a record that no one had synced: a power cut
// may leave that, so the log ends there.
func TestFlippedWhereNothingWasDurable(t *testing.T) {
	directory := written(t, "no", false)
	const middle = tornRecords / 2
	at := recordsOf(t, directory)[middle].offset
	for i, part := range recordParts {
		if *rounds == 0 && i%8 != 0 {
			continue
		}
		t.Run(fmt.Sprintf("at %d", part), func(t *testing.T) {
			copied, _ := damaged(t, directory, func(path string) error { return flip(path, at+part) })
			startsWith(t, copied, middle, true)
		})
	}
}

// TestFlippedBelowTheDurablePosition changes a byte that had been on disk: no crash does that, so
// the server refuses to start, changes nothing, and starts when the byte is as it was.
func TestFlippedBelowTheDurablePosition(t *testing.T) {
	for name, directory := range map[string]string{"killed": written(t, "always", false), "stopped": written(t, "no", true)} {
		const middle = tornRecords / 2
		at := recordsOf(t, directory)[middle].offset
		for i, part := range recordParts {
			if *rounds == 0 && i%8 != 0 {
				continue
			}
			t.Run(fmt.Sprintf("%s, at %d", name, part), func(t *testing.T) {
				copied, path := damaged(t, directory, func(path string) error { return flip(path, at+part) })
				refusesDamage(t, copied, path, at, "kedis binlog repair")
				if err := flip(path, at+part); err != nil {
					t.Fatal(err)
				}
				startsWith(t, copied, tornRecords, false)
			})
		}
	}
}

// TestCutBelowTheDurablePosition: the file of a clean stop tells how long the log had been.
func TestCutBelowTheDurablePosition(t *testing.T) {
	directory := written(t, "no", true)
	last := recordsOf(t, directory)[tornRecords-1]
	for _, size := range []int64{last.offset, last.offset + 1, last.end - 1} {
		t.Run(fmt.Sprintf("at %d", size-last.offset), func(t *testing.T) {
			copied, path := damaged(t, directory, func(path string) error { return os.Truncate(path, size) })
			remedy := "kedis binlog repair"
			if size <= last.offset+1 { // a record's first byte is 0, as where there is none
				remedy = "no repair brings back"
			}
			refusesDamage(t, copied, path, last.offset, remedy)
		})
	}
}

// refusesDamage checks that a server says where its log is damaged, and what can be done, instead
// of starting, and that it says so again.
func refusesDamage(t *testing.T, directory, path string, offset int64, remedy string) {
	t.Helper()
	for range 2 {
		program := launch.MustUnderTest(t)
		arguments := append([]string{"--bind", "127.0.0.1", "--port", "0", "--dir", directory}, tornOptions...)
		runToEnd(t, program, nil, arguments...).refuses(t, path, fmt.Sprintf("offset %d", offset), remedy)
	}
}
