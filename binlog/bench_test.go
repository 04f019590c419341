package binlog

import (
	"fmt"
	"testing"
	"time"
)

func BenchmarkAppend(b *testing.B) {
	for _, size := range []int{64, 4 << 10, 256 << 10} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			o := Options{Directory: b.TempDir(), Sync: func() SyncPolicy { return Never }}
			l, err := Create(o, History{ID: idA}, 0, 0)
			if err != nil {
				b.Fatal(err)
			}
			payload := make([]byte, size)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				if _, err := l.Append(0, 0, payload); err != nil {
					b.Fatal(err)
				}
			}
			b.StopTimer()
			if err := l.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// BenchmarkAlways is one writer that waits for the disk each time.
func BenchmarkAlways(b *testing.B) {
	o := Options{Directory: b.TempDir(), Sync: func() SyncPolicy { return Always }}
	l, err := Create(o, History{ID: idA}, 0, 0)
	if err != nil {
		b.Fatal(err)
	}
	payload := make([]byte, 128)
	for range b.N {
		position, err := l.Append(0, 0, payload)
		if err == nil {
			err = l.Sync(position)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	if err := l.Close(); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkRecover is what the opening of a log that was killed costs for each byte that was not
// yet known to be durable.
func BenchmarkRecover(b *testing.B) {
	const bytes = 256 << 20
	for _, size := range []int{128, 4 << 10} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			o := Options{Directory: b.TempDir(), Sync: func() SyncPolicy { return Never }}
			l, err := Create(o, History{ID: idA}, 0, 0)
			if err != nil {
				b.Fatal(err)
			}
			payload := make([]byte, size)
			for l.Position() < bytes {
				if _, err := l.Append(0, 0, payload); err != nil {
					b.Fatal(err)
				}
			}
			if err := l.Sync(l.Position()); err != nil {
				b.Fatal(err)
			}
			abandon(b, l)
			b.SetBytes(bytes)
			b.ResetTimer()
			for range b.N {
				began := time.Now()
				l, recovered, err := Open(o)
				if err != nil {
					b.Fatal(err)
				}
				b.Logf("%v for %d bytes, %d records, took %v", time.Since(began), recovered.Bytes, recovered.Records, recovered.Took)
				abandon(b, l)
			}
		})
	}
}
