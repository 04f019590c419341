package main

import (
	"fmt"
	"regexp"
	"strconv"
	"time"

	"kedis/redis-tests/launch"
)

// keepInLog has RocksDB persist nothing while the log grows: neither by the log's size, nor by
// time, nor because a memtable is full.
var keepInLog = []string{"--persist-log-size", "1024gb", "--persist-interval", "1d", "--rocksdb-write-buffer-size", "4gb", "--binlog-retention-size", "1024gb"}

// recoveredLine is what the server says of its start.
var recoveredLine = regexp.MustCompile(`recovered: position=(\d+) from=(\d+) records=(\d+) took="?([^\s"]+)`)

// recovered is that line in numbers.
type recovered struct {
	bytes, records int64 // of the log
	took           time.Duration
}

// recovery writes a long log of small SETs, kills the server, and takes the time that the next
// start needs.
func (b *bench) recovery(r *report) error {
	const small, perCommand = 100, 156 // bytes of a value, and of a SET in the log
	d := newData(2*b.memory/perCommand*(keySize+small), small)
	return b.withServer(b.program, keepInLog, func(server *launch.Server) error {
		began := time.Now()
		if err := d.load(server); err != nil {
			return err
		}
		r.line("written: %d SETs of %d bytes in %v", d.count, small, time.Since(began).Round(time.Millisecond))
		server.Kill()
		again, err := b.program.Start(server.Directory)
		if err != nil {
			return err
		}
		defer again.Kill()
		found, err := readRecovered(again.Output())
		if err != nil {
			return err
		}
		processor, err := launch.ProcessorTime(again.ProcessID())
		if err != nil {
			return err
		}
		if err := checkSize(again, d.count); err != nil {
			return err
		}
		r.text("%d SETs of %d bytes in a log of %s, of which RocksDB had nothing; kill -9; a start with the options that Kedis comes with. All keys are there.",
			d.count, small, megabytes(found.bytes))
		r.header("seconds", "of processor time", "SETs/s", "MB of log/s", "records/s")
		seconds := found.took.Seconds()
		r.row(fmt.Sprintf("%.2f", seconds), fmt.Sprintf("%.2f", processor.Seconds()), fmt.Sprintf("%.0f", float64(d.count)/seconds),
			fmt.Sprintf("%.0f", float64(found.bytes)/megabyte/seconds), fmt.Sprintf("%.0f", float64(found.records)/seconds))
		r.line("a record of the log is a commit, here of %.1f SETs", float64(d.count)/float64(found.records))
		return nil
	})
}

func readRecovered(output string) (recovered, error) {
	match := recoveredLine.FindStringSubmatch(output)
	if match == nil {
		return recovered{}, fmt.Errorf("the server doesn't say what it has recovered:\n%s", output)
	}
	var numbers [3]int64
	for i := range numbers {
		var err error
		if numbers[i], err = strconv.ParseInt(match[i+1], 10, 64); err != nil {
			return recovered{}, err
		}
	}
	took, err := time.ParseDuration(match[4])
	return recovered{bytes: numbers[0] - numbers[1], records: numbers[2], took: took}, err
}

func checkSize(server *launch.Server, wanted int) error {
	c, err := server.Dial()
	if err != nil {
		return err
	}
	defer c.Close()
	reply, err := c.Must("dbsize")
	if err != nil {
		return err
	}
	if got, _ := reply.Integer(); got != int64(wanted) {
		return fmt.Errorf("%d keys after the start, %d were written", got, wanted)
	}
	return nil
}
