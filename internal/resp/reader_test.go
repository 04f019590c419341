package resp

import (
	"bytes"
	"errors"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

func TestReadReply(t *testing.T) {
	for _, c := range []struct{ input, want string }{
		{"+OK\r\n", "+OK"}, {"\n\r\n\n+OK\r\n", "+OK"}, {"+\r\n", "+"}, {"-ERR no\r\n", "-ERR no"},
		{":-12\r\n", ":-12"}, {"$0\r\n\r\n", "$"}, {"$4\r\na\r\nb\r\n", "$a\r\nb"}, {"$-1\r\n", "$null"}, {"*-1\r\n", "*null"}, {"*0\r\n", "*()"},
		{"*2\r\n*1\r\n:1\r\n$-1\r\n", "*(*(:1) $null)"}, {",1.5\r\n", ",1.5"}, {",inf\r\n", ",+Inf"}, {",-inf\r\n", ",-Inf"}, {",nan\r\n", ",NaN"}, {",-nan\r\n", ",NaN"},
		{"#t\r\n", "#1"}, {"#f\r\n", "#0"}, {"_\r\n", "_null"}, {"(123456789012345678901234567890\r\n", "(123456789012345678901234567890"},
		{"!5\r\nERR a\r\n", "!ERR a"}, {"=7\r\nmkd:a:b\r\n", "=mkd:a:b"}, {"%1\r\n+a\r\n:1\r\n", "%(+a :1)"}, {"~1\r\n:1\r\n", "~(:1)"}, {">1\r\n:1\r\n", ">(:1)"},
		{"|1\r\n+a\r\n:1\r\n|1\r\n+b\r\n:2\r\n+OK\r\n", "[+a :1 +b :2]+OK"}, {"*1\r\n|1\r\n+a\r\n:1\r\n:2\r\n", "*([+a :1]:2)"},
	} {
		for name, source := range map[string]io.Reader{
			"whole": strings.NewReader(c.input), "byte by byte": iotest.OneByteReader(strings.NewReader(c.input)), "with its end": iotest.DataErrReader(strings.NewReader(c.input)),
		} {
			r := NewReader(source, 10000)
			if reply, err := r.ReadReply(); err != nil || describe(reply) != c.want {
				t.Errorf("%q %s: %s, %v; want %s", c.input, name, describe(reply), err, c.want)
			}
			if _, err := r.ReadReply(); err != io.EOF {
				t.Errorf("%q %s: %v instead of the end", c.input, name, err)
			}
		}
		for cut := range c.input {
			if _, err := NewReader(strings.NewReader(c.input[:cut]), 10000).ReadReply(); err != io.ErrUnexpectedEOF && strings.Trim(c.input[:cut], "\r\n") != "" {
				t.Errorf("%q: %v", c.input[:cut], err)
			}
		}
	}
}

func TestReadReplyRefuses(t *testing.T) {
	for _, c := range []struct {
		input string
		want  error
	}{
		{"x\r\n", ErrMalformed}, {":\r\n", ErrMalformed}, {":1a\r\n", ErrMalformed}, {":9223372036854775808\r\n", ErrMalformed}, {"$a\r\n", ErrMalformed}, {"$-2\r\n", ErrMalformed}, {"$1\r\nabc", ErrMalformed},
		{"*-2\r\n", ErrMalformed}, {"*?\r\n", ErrMalformed}, {"#x\r\n", ErrMalformed}, {"#\r\n", ErrMalformed}, {"_x\r\n", ErrMalformed}, {",x\r\n", ErrMalformed}, {"=3\r\nabc\r\n", ErrMalformed},
		{"*1\r\n\r\n", ErrMalformed}, {"*1\r\nx\r\n", ErrMalformed}, {"+" + strings.Repeat("x", 2*maxLine), ErrMalformed},
		{"$9223372036854775807\r\n", ErrTooLarge}, {"$1000000\r\n", ErrTooLarge}, {"*9223372036854775807\r\n", ErrTooLarge}, {"%9223372036854775807\r\n", ErrTooLarge}, {"*4000000000000000000\r\n", ErrTooLarge},
		{"*100000\r\n", ErrTooLarge}, {strings.Repeat("*1\r\n", maxDepth+1), ErrTooLarge}, {strings.Repeat("|0\r\n", maxDepth+1), ErrTooLarge},
		{"*900\r\n" + strings.Repeat("$100\r\n"+strings.Repeat("x", 100)+"\r\n", 900), ErrTooLarge}, {"*900\r\n" + strings.Repeat("+"+strings.Repeat("x", 1000)+"\r\n", 900), ErrTooLarge},
	} {
		if reply, err := NewReader(strings.NewReader(c.input), 160000).ReadReply(); !errors.Is(err, c.want) {
			t.Errorf("%.40q: %v, %s; want %v", c.input, err, describe(reply), c.want)
		}
	}
}

// TestReplyLimitIsPerReply also checks that elements count as what they take in memory.
func TestReplyLimitIsPerReply(t *testing.T) {
	reply := "*10\r\n" + strings.Repeat(":1\r\n", 10)
	r := NewReader(strings.NewReader(strings.Repeat(reply, 100)), 11*replySize)
	for range 100 {
		next(t, r)
	}
	if _, err := NewReader(strings.NewReader(reply), 11*replySize-1).ReadReply(); !errors.Is(err, ErrTooLarge) {
		t.Error(err)
	}
}

func TestReplyErr(t *testing.T) {
	r := NewReader(strings.NewReader("-ERR no\r\n!4\r\nA\r\nb\r\n+OK\r\n$2\r\nno\r\n"), 1000)
	for _, want := range []string{"ERR no", "A\r\nb", "", ""} {
		reply := next(t, r)
		var failure *ReplyError
		if errors.As(reply.Err(), &failure) != (want != "") || want != "" && failure.Text != want {
			t.Errorf("%v, want %q", reply.Err(), want)
		}
	}
}

// TestReadSnapshot reads what a primary answers to PSYNC: a line, line ends while it prepares, and
// a snapshot of raw bytes, and then requests.
func TestReadSnapshot(t *testing.T) {
	snapshot := strings.Repeat("REDIS0010\r\n\x00", 10000)
	input := "+FULLRESYNC 8c2a 17\r\n\n\n$EOF:40\r\n" + snapshot + request("SET", "a", "b")
	r := NewReader(iotest.HalfReader(strings.NewReader(input)), 1<<20)
	if reply := next(t, r); string(reply.Text) != "FULLRESYNC 8c2a 17" {
		t.Fatalf("%s", reply.Text)
	}
	for _, want := range []string{"", "", "$EOF:40"} {
		if line, err := r.ReadLine(); err != nil || string(line) != want {
			t.Fatalf("%q, %v; want %q", line, err, want)
		}
	}
	got := make([]byte, len(snapshot))
	if _, err := io.ReadFull(r, got); err != nil || string(got) != snapshot {
		t.Fatalf("the snapshot isn't what was sent, %v", err)
	}
	if arguments, n, err := r.ReadRequest(); err != nil || n != len(request("SET", "a", "b")) || len(arguments) != 3 {
		t.Fatalf("%q, %d bytes, %v", arguments, n, err)
	}
	if _, err := r.ReadLine(); err != io.EOF {
		t.Error(err)
	}
}

// stumbling is a source that times out before every read.
type stumbling struct {
	source io.Reader
	ready  bool
}

func (s *stumbling) Read(p []byte) (int, error) {
	if s.ready = !s.ready; s.ready {
		return 0, os.ErrDeadlineExceeded
	}
	return s.source.Read(p)
}

// TestReadRequest checks that the bytes taken add up to the stream, however it comes.
func TestReadRequest(t *testing.T) {
	large := strings.Repeat("x", 300000)
	pieces := []string{
		request("SELECT", "0"), "\n" + request("SET", "key", "a\r\nb"), "ping 'a b' \"\\x41\"\r\n", "*0\r\n\r\n*-1\r\n" + request("", ""),
		request("SET", "key", large), request("DEL", "key"), "PING\n",
	}
	want := [][]string{{"SELECT", "0"}, {"SET", "key", "a\r\nb"}, {"ping", "a b", "A"}, {"", ""}, {"SET", "key", large}, {"DEL", "key"}, {"PING"}}
	stream := strings.Join(pieces, "")
	for name, source := range map[string]io.Reader{
		"whole": strings.NewReader(stream), "byte by byte": iotest.OneByteReader(strings.NewReader(stream)), "halves": iotest.HalfReader(strings.NewReader(stream)),
		"with time-outs": &stumbling{source: iotest.HalfReader(strings.NewReader(stream))}, "with its end": iotest.DataErrReader(strings.NewReader(stream)),
	} {
		r := NewReader(source, 1<<20)
		for i, piece := range pieces {
			arguments, n, err := r.ReadRequest()
			for errors.Is(err, os.ErrDeadlineExceeded) {
				arguments, n, err = r.ReadRequest()
			}
			if err != nil || n != len(piece) || string(r.Raw()) != piece || !slices.Equal(texts(arguments), want[i]) {
				t.Fatalf("%s, request %d: %.60q, %d of %d bytes, %v", name, i, arguments, n, len(piece), err)
			}
		}
		_, _, err := r.ReadRequest()
		for errors.Is(err, os.ErrDeadlineExceeded) {
			_, _, err = r.ReadRequest()
		}
		if err != io.EOF {
			t.Errorf("%s: %v instead of the end", name, err)
		}
		if kept := cap(r.buffer); kept > 4*len(large) {
			t.Errorf("%s: %d bytes of memory", name, kept)
		}
	}
}

func TestReadRequestEnds(t *testing.T) {
	input := request("SET", "key", "value")
	for cut := range input {
		want := io.ErrUnexpectedEOF
		if cut == 0 {
			want = io.EOF
		}
		if _, _, err := NewReader(strings.NewReader(input[:cut]), 1000).ReadRequest(); err != want {
			t.Errorf("%q: %v", input[:cut], err)
		}
	}
	if _, _, err := NewReader(strings.NewReader("\r\n*0\r\n"), 1000).ReadRequest(); err != io.EOF {
		t.Error(err)
	}
	if _, _, err := NewReader(idle{}, 1000).ReadRequest(); err != io.ErrNoProgress {
		t.Error(err)
	}
	if _, err := NewReader(io.MultiReader(strings.NewReader("$5\r\n"), idle{}), 1000).ReadReply(); err != io.ErrNoProgress {
		t.Error(err)
	}
}

// idle is a source that never returns anything.
type idle struct{}

func (idle) Read([]byte) (int, error) { return 0, nil }

func TestReadRequestRefuses(t *testing.T) {
	for _, c := range []struct {
		input string
		want  error
	}{
		{"*x\r\n", ErrMalformed}, {"*1\r\n+a\r\n", ErrMalformed}, {"*1\r\n$x\r\n", ErrMalformed}, {"*1\r\n$-1\r\n", ErrMalformed}, {"*1\r\n$1\r\nabc", ErrMalformed}, {"\"a\r\n", ErrMalformed},
		{"*2147483648\r\n", ErrMalformed}, {"*1\r\n$" + strings.Repeat("1", 2*maxLine), ErrMalformed},
		{"*1\r\n$9223372036854775807\r\n", ErrTooLarge}, {"*1\r\n$1000000\r\n", ErrTooLarge}, {"*100000\r\n" + strings.Repeat("$0\r\n\r\n", 100000), ErrTooLarge},
		{strings.Repeat("\n", 1000000), ErrTooLarge},
	} {
		if _, _, err := NewReader(strings.NewReader(c.input), 200000).ReadRequest(); !errors.Is(err, c.want) {
			t.Errorf("%.40q: %v, want %v", c.input, err, c.want)
		}
	}
}

// TestReaderShrinks checks that neither buffer nor lists stay large when nothing large is left.
func TestReaderShrinks(t *testing.T) {
	many := make([]string, 100000)
	stream := request("SET", "key", strings.Repeat("x", 4<<20)) + request(many...) + strings.Repeat(request("SET", "key", "value"), 1000000)
	r := NewReader(strings.NewReader(stream), 64<<20)
	for range 1000002 {
		if _, _, err := r.ReadRequest(); err != nil {
			t.Fatal(err)
		}
	}
	if cap(r.buffer) > retainedRead || cap(r.spans) > retainedArguments || cap(r.arguments) > retainedArguments {
		t.Errorf("%d bytes, %d spans, %d arguments are kept", cap(r.buffer), cap(r.spans), cap(r.arguments))
	}
}

func TestReadRequestAllocations(t *testing.T) {
	stream := strings.NewReader(strings.Repeat(request("SET", "key", "value"), 100000))
	r := NewReader(stream, 1<<20)
	n := testing.AllocsPerRun(10000, func() {
		if _, _, err := r.ReadRequest(); err != nil {
			t.Fatal(err)
		}
	})
	if n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestUnlimitedReader(t *testing.T) {
	r := NewReader(strings.NewReader(request("PING")+"*1\r\n$9223372036854775807\r\n"), math.MaxInt64)
	if _, _, err := r.ReadRequest(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.ReadRequest(); !errors.Is(err, ErrTooLarge) {
		t.Error(err)
	}
}

// FuzzReader reads requests and replies from anything: without a panic, and in pieces as in whole.
func FuzzReader(f *testing.F) {
	for _, input := range protocolInputs() {
		f.Add([]byte(input))
	}
	f.Add([]byte("*2\r\n%1\r\n+a\r\n,1.5\r\n|1\r\n:1\r\n#t\r\n=5\r\ntxt:a\r\n~1\r\n_\r\n!3\r\nERR\r\n"))
	const limit = 1 << 20
	f.Fuzz(func(t *testing.T, input []byte) {
		read := func(source io.Reader, replies bool) (read []string, failure string) {
			for r := NewReader(source, limit); ; {
				if replies {
					reply, err := r.ReadReply()
					if err != nil {
						return read, err.Error()
					}
					read = append(read, describe(reply))
					continue
				}
				arguments, _, err := r.ReadRequest()
				if err != nil {
					return read, err.Error()
				}
				read = append(read, strings.Join(texts(arguments), " "), string(r.Raw()))
			}
		}
		for _, replies := range []bool{false, true} {
			want, failure := read(bytes.NewReader(input), replies)
			got, err := read(iotest.OneByteReader(bytes.NewReader(input)), replies)
			if !slices.Equal(got, want) || err != failure {
				t.Errorf("byte by byte %q, %s; as a whole %q, %s", got, err, want, failure)
			}
		}
	})
}

func BenchmarkReadRequest(b *testing.B) {
	stream := []byte(strings.Repeat(request("SET", "key:000012345", strings.Repeat("x", 100)), 1000))
	b.SetBytes(int64(len(stream)) / 1000)
	b.ReportAllocs()
	source := bytes.NewReader(stream)
	r := NewReader(source, 1<<20)
	for i := 0; i < b.N; i++ {
		if i%1000 == 0 {
			source.Reset(stream)
		}
		if _, _, err := r.ReadRequest(); err != nil {
			b.Fatal(err)
		}
	}
}
