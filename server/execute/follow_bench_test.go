package execute

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"testing"

	"kedis/internal/resp"
)

// BenchmarkFollower applies a primary's stream of SETs, parsing included, with a commit for each
// megabyte.
func BenchmarkFollower(b *testing.B) {
	e, log := newTestEngine(b)
	log.Discard = true
	e.SetReplica(true, false)
	var stream []byte
	random := rand.New(rand.NewPCG(1, 2))
	const count = 200_000
	for range count {
		stream = resp.AppendRequest(stream, words("SET", fmt.Sprintf("key:%012d", random.IntN(1_000_000)), "vvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvv")...)
	}
	here, there := net.Pipe()
	defer there.Close()
	f := e.NewStreamApplier(here, 0)
	defer f.Close()
	b.SetBytes(int64(len(stream) / count))
	b.ResetTimer()
	b.ReportAllocs()
	requests := resp.NewReader(bytes.NewReader(stream), math.MaxInt64)
	for range b.N {
		args, _, err := requests.ReadRequest()
		if err == io.EOF {
			requests = resp.NewReader(bytes.NewReader(stream), math.MaxInt64)
			continue
		}
		if err == nil {
			err = f.Apply(args, requests.Raw())
		}
		if err == nil && f.Pending() > 1<<20 {
			err = f.Commit()
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}
