package binlog_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"kedis/binlog"
)

// A log is written, branches, and is read from a position inside its first record.
func Example() {
	directory, err := os.MkdirTemp("", "binlog")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(directory)

	options := binlog.Options{Directory: filepath.Join(directory, "log")}
	l, err := binlog.Create(options, binlog.History{ID: "1111111111111111111111111111111111111111"}, 0, 0)
	if err != nil {
		log.Fatal(err)
	}
	selectThree := []byte("*2\r\n$6\r\nSELECT\r\n$1\r\n3\r\n")
	set := []byte("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n")
	end, err := l.Append(0, 3, selectThree, set)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("appended up to", end)

	if err := l.Branch("2222222222222222222222222222222222222222"); err != nil {
		log.Fatal(err)
	}
	fmt.Println("branched:", l.History())

	r, err := l.NewReader(int64(len(selectThree)))
	if err != nil {
		log.Fatal(err)
	}
	record, err := r.Next(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d to %d in database %d: %q\n", record.Start, record.End, record.Database, record.Payload)
	if err := r.Close(); err != nil {
		log.Fatal(err)
	}
	if err := l.Close(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// appended up to 50
	// branched: {2222222222222222222222222222222222222222 [{1111111111111111111111111111111111111111 50}]}
	// 23 to 50 in database 3: "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n"
}
