package binlog

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"kedis/redis-tests/seed"
)

// killedDirectory names the variable that makes the test binary a process that writes to the log
// there.
const killedDirectory = "BINLOG_TEST_WRITE_TO"

func TestMain(m *testing.M) {
	if directory := os.Getenv(killedDirectory); directory != "" {
		fmt.Println(writeUntilKilled(directory))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// writeUntilKilled writes the positions it has reached to standard output, each once its record was
// appended.
func writeUntilKilled(directory string) error {
	l, _, err := Open(Options{Directory: directory, SegmentBytes: 8 * leastSegmentBytes})
	for i := 0; err == nil; i++ {
		var end Position
		if end, err = l.Append(0, 0, command("SET", fmt.Sprint(l.Position()), strings.Repeat("v", i*37%3000))); err == nil {
			_, err = fmt.Println(end)
		}
	}
	return err
}

// A killed process loses nothing that Append has returned for, and leaves nothing that can't be
// read.
func TestKilled(t *testing.T) {
	seed := seed.Of(t)
	random := rand.New(rand.NewPCG(seed, 0))
	o := Options{Directory: t.TempDir()}
	l, err := Create(o, History{ID: idA}, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	closeLog(t, l)
	for range 5 {
		reached := writeAndKill(t, o.Directory, 1+random.IntN(500))
		l, recovered, err := Open(o)
		if err != nil {
			t.Fatal(err)
		}
		if l.Position() < reached {
			t.Fatalf("the log ends at %d, and %d was reached: %+v", l.Position(), reached, recovered)
		}
		at := Position(0)
		for _, payload := range readAll(t, l, 0) {
			if want := string(command("SET", fmt.Sprint(at))[4:]); !strings.HasPrefix(payload[4:], want) {
				t.Fatalf("at %d: %.50q", at, payload)
			}
			at += int64(len(payload))
		}
		closeLog(t, l)
	}
}

// writeAndKill returns the position that a process had reached when it was killed.
func writeAndKill(t *testing.T, directory string, lines int) Position {
	t.Helper()
	writer := exec.Command(os.Args[0])
	writer.Env = append(os.Environ(), killedDirectory+"="+directory)
	output, err := writer.StdoutPipe()
	if err == nil {
		err = writer.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	var reached Position
	lineReader := bufio.NewScanner(output)
	for range lines {
		if !lineReader.Scan() {
			break
		}
		if reached, err = strconv.ParseInt(lineReader.Text(), 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	killed := writer.Process.Kill()
	for lineReader.Scan() { // what it had said before it was killed
		if position, err := strconv.ParseInt(lineReader.Text(), 10, 64); err == nil {
			reached = position
		}
	}
	var exit *exec.ExitError
	if err := writer.Wait(); killed != nil || !errors.As(err, &exit) || exit.Success() || exit.ExitCode() != -1 {
		t.Fatalf("the writer was to be killed: %v, %v", killed, err)
	}
	return reached
}
