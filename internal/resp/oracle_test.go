package resp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"kedis/internal/oracle"
)

// protocolInputs are streams at the borders of what is a request.
func protocolInputs() []string {
	ping := request("PING")
	return []string{
		"", "\r\n", "\n", "\r", "*", "*1", "*1\r", "*1\r\n", "*1\r\n$", "*1\r\n$4\r\nPING", "*1\r\n$4\r\nPING\r", ping,
		"*0\r\n" + ping, "*-1\r\n" + ping, "*-5\r\n" + ping, "*-0\r\n", "\r\n\n \r\n\t\n" + ping,
		"*\r\n" + ping, "*1a\r\n", "* 1\r\n", "*+1\r\n", "*01\r\n", "*-\r\n", "*1 \r\n", "**\r\n", "*1\n\r\n",
		"*2147483647\r\n", "*2147483648\r\n", "*9223372036854775807\r\n", "*9223372036854775808\r\n", "*-9223372036854775808\r\n" + ping, "*-9223372036854775809\r\n", "*99999999999999999999\r\n",
		"*1\r\nX3\r\n", "*1\r\n\r\n", "*1\r\n\n\r\n", "*1\r\n\r\r\n", "*1\r\n\xff\r\n", "*1\r\n*\r\n", "*1\r\nPING\r\n", "*1\r\n'\r\n", "*1\r\nabc",
		"*1\r\n$\r\n", "*1\r\n$-1\r\n", "*1\r\n$x\r\n", "*1\r\n$4xPING\r\n", "*1\r\n$+4\r\n", "*1\r\n$04\r\n", "*1\r\n$ 4\r\n", "*1\r\n$-0\r\n",
		"*1\r\n$536870912\r\n", "*1\r\n$536870913\r\n", "*1\r\n$9223372036854775807\r\n", "*1\r\n$9223372036854775808\r\n",
		"*1xx$4xxPING\r\n", "*1\rx$4\rxPINGyy" + ping, "*2\r\n$4\r\nECHO\r\n$0\r\n\r\n" + ping, "*2\r\n$4\r\nECHO\r\n$2\r\n\r\n\r\n",
		"*1\r\n$5\r\nfo\r\no\r\n", "*3\r\n$3\r\nfoo\r\n$5\r\nfo\r\no\r\n$1\r\n\x00\r\n",
		"ping\n", "ping\r\n", "PING a\r\r\n", " \v\f\t ping \v\f\t a \v\r\n", "ping a b\r\n", "foo\r\n", "foo bar 'b c'\r\n", "\x80\xff \x01\r\n",
		"\"abc\r\n", "ping \"a\r\n", "ping 'a\r\n", "ping \"a\"b\r\n", "ping 'a'b\r\n", "ping \"a\"\"b\"\r\n", "ping \"\r\n", "ping '\r\n", ping + "ping '\r\n" + ping,
		`echo "a\x41\n\t\b\a\r\q\"\'\\"` + "\r\n", `echo 'a\'b\x41\n\\'` + "\r\n", `echo a"b c"` + "\r\n", `echo a'b c'` + "\r\n", `echo ""` + "\r\n", "echo ''\r\n", `echo "\x4"` + "\r\n",
		`echo "\x4g\xg4\x"` + "\r\n", `echo "\xfF\x00"` + "\r\n", "echo \"a\\\r\n", "echo 'a\\\r\n", "echo 'a\\'\r\n", "echo a\\\n", `echo \x41\"` + "\r\n", `echo \\ ` + "\n",
		"echo a\vb\r\n", "echo \"a\"\vb\r\n", "echo \"a\"\vb c\r\n", "echo a\rb\r\n", "echo 'a\rb'\r\n",
		"pi\x00ng\r\n" + ping, "\x00\r\n" + ping, "*1\x00\r\n$4\r\nPING\r\n", "*1\r\n$\x004\r\nPING\r\n", "*1\r\n\x00\r\n",
		strings.Repeat("a", maxLine), strings.Repeat("a", maxLine+1), strings.Repeat("a", maxLine-1) + "\n", strings.Repeat("a", maxLine) + "\n",
		"*" + strings.Repeat("1", maxLine-1), "*" + strings.Repeat("1", maxLine), "*1\r\n$" + strings.Repeat("1", maxLine-1), "*1\r\n$" + strings.Repeat("1", maxLine),
		"*1\x00\r\n" + strings.Repeat("1", maxLine), "*1\r\n\x00\r\n" + strings.Repeat("1", maxLine), "\x00\n" + strings.Repeat("1", maxLine), "\x00\n" + strings.Repeat("1", maxLine-2),
		request(strings.Split("echo a b c d e f g h i", " ")...), request(strings.Split("echo a b c d e f g h i j", " ")...),
		request("ECHO", strings.Repeat("x", 16384)), request("ECHO", strings.Repeat("x", 16385)),
		"*11\r\n", "*10\r\n", "*1\r\n$16384\r\n", "*1\r\n$16385\r\n", "echo " + strings.Repeat("x", 20000) + "\r\n", "echo a b c d e f g h i j k\r\n",
	}
}

// exchange sends bytes on a connection of their own and returns all that the server answers. That
// has to fit into the socket's buffer: Redis drops what is left when it has read the end.
func exchange(t *testing.T, socket string, input []byte) []byte {
	t.Helper()
	connection, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	if err := connection.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	_, writeErr := connection.Write(input)
	if writeErr == nil {
		writeErr = connection.(*net.UnixConn).CloseWrite()
	}
	output, err := io.ReadAll(connection)
	// A server that has refused a request closes without reading the rest.
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(writeErr, os.ErrDeadlineExceeded) {
		t.Fatalf("redis-server hangs on %.100q", input)
	}
	return output
}

// start returns the oracle and its socket.
func start(t *testing.T, options ...string) (*oracle.Server, string) {
	t.Helper()
	server := oracle.Start(t, append(options, "--enable-debug-command", "yes")...)
	setting, ok := server.Do("CONFIG", "GET", "unixsocket").([]any)
	if !ok || len(setting) != 2 {
		t.Fatal("redis-server doesn't say where it listens")
	}
	return server, setting[1].(string)
}

// answer says what redis-server says to a stream that consists of ECHO, PING and unknown commands.
func answer(t *testing.T, input []byte, unauthenticated bool, ends []int) []byte {
	t.Helper()
	p, w := NewParser(nil), NewWriter(2)
	p.Unauthenticated = unauthenticated
	requests, err := parse(t, p, input, ends, always)
	for _, words := range requests {
		name := strings.ToLower(words[0])
		switch {
		case name != "ping" && name != "echo":
			w.Error(unknownCommand(words))
		case name == "echo" && len(words) != 2, name == "ping" && len(words) > 2 && !unauthenticated:
			w.Error("ERR wrong number of arguments for '" + name + "' command")
		case unauthenticated:
			w.Error("NOAUTH Authentication required.")
		case len(words) == 1:
			w.SimpleString("PONG")
		default:
			w.BulkString(words[1])
		}
	}
	if err != nil {
		w.Error(err.Error())
	}
	return w.Bytes()
}

// unknownCommand is Redis's text: C strings of at most 128 bytes.
func unknownCommand(words []string) string {
	cut := func(text string, limit int) string {
		text, _, _ = strings.Cut(text, "\x00")
		return text[:min(len(text), limit)]
	}
	var arguments string
	for _, word := range words[1:] {
		if len(arguments) < 128 {
			arguments += "'" + cut(word, 128-len(arguments)) + "' "
		}
	}
	return "ERR unknown command '" + cut(words[0], 128) + "', with args beginning with: " + arguments
}

func TestParserAsRedis(t *testing.T) {
	server, socket := start(t)
	for _, password := range []string{"", "secret"} {
		server.Do("CONFIG", "SET", "requirepass", password)
		for _, input := range protocolInputs() {
			want := exchange(t, socket, []byte(input))
			if got := answer(t, []byte(input), password != "", nil); !bytes.Equal(got, want) {
				t.Errorf("password %q: %.80q (%d bytes) is answered %.200q, by Redis %.200q", password, input, len(input), got, want)
			}
		}
	}
}

// TestParserAsRedisOnDamage damages streams of requests here and there.
func TestParserAsRedisOnDamage(t *testing.T) {
	const seed = 11
	random := rand.New(rand.NewPCG(seed, 0))
	_, socket := start(t)
	refused := 0
	for range 1500 {
		input := damage(random, randomStream(random))
		want := exchange(t, socket, input)
		if bytes.Contains(want, []byte("Protocol error")) {
			refused++
		}
		if got := answer(t, input, false, randomEnds(random, len(input))); !bytes.Equal(got, want) {
			t.Errorf("seed %d: %q is answered %q, by Redis %q", seed, input, got, want)
		}
	}
	if refused < 100 {
		t.Errorf("seed %d: only %d streams were bad", seed, refused)
	}
}

func randomStream(random *rand.Rand) []byte {
	var stream []byte
	for range 1 + random.IntN(4) {
		switch random.IntN(4) {
		case 0:
			stream = append(stream, "echo \"a\\x41 b\" \r\n"...)
		case 1:
			stream = append(stream, "no 'such' thing\n"...)
		case 2:
			stream = append(stream, request("PING", randomText(random, 20))...)
		case 3:
			stream = append(stream, request("ECHO", "some\r\nthing")...)
		}
	}
	return stream
}

func damage(random *rand.Rand, stream []byte) []byte {
	for range random.IntN(4) {
		i := random.IntN(len(stream))
		switch c := "*$\r\n\x00 '\"\\x19-a"[random.IntN(14)]; random.IntN(3) {
		case 0:
			stream[i] = c
		case 1:
			stream = append(stream[:i:i], append([]byte{c}, stream[i:]...)...)
		case 2:
			stream = append(stream[:i:i], stream[min(i+1, len(stream)-1):]...)
		}
	}
	return stream
}

// TestWriterAsRedis lets both say everything that there is, in both protocols.
func TestWriterAsRedis(t *testing.T) {
	_, socket := start(t)
	for _, protocol := range []int{2, 3} {
		w := NewWriter(protocol)
		for _, c := range []struct {
			kind  string
			write func()
		}{
			{"string", func() { w.BulkString("Hello World") }},
			{"integer", func() { w.Integer(12345) }},
			{"double", func() { w.Double(3.141) }},
			{"null", func() { w.Null() }},
			{"array", func() { w.Array(3); w.Integer(0); w.Integer(1); w.Integer(2) }},
			{"set", func() { w.Set(3); w.Integer(0); w.Integer(1); w.Integer(2) }},
			{"map", func() {
				w.Map(3)
				for i := range int64(3) {
					w.Integer(i)
					w.Bool(i == 1)
				}
			}},
			{"attrib", func() {
				if protocol == 3 {
					w.Attribute(1)
					w.BulkString("key-popularity")
					w.Array(2)
					w.Bulk([]byte("key:123"))
					w.Integer(90)
				}
				w.BulkString("Some real reply following the attribute")
			}},
			{"verbatim", func() { w.Verbatim("txt", "This is a verbatim\nstring") }},
			{"true", func() { w.Bool(true) }},
			{"false", func() { w.Bool(false) }},
			{"bignum", func() { w.BigNumber("1234567999999999999999999999999999999") }},
		} {
			want := replyTo(t, socket, protocol, "DEBUG", "PROTOCOL", c.kind)
			w.Reset()
			if c.write(); string(w.Bytes()) != want {
				t.Errorf("RESP%d %s: %q, from Redis %q", protocol, c.kind, w.Bytes(), want)
			}
		}
	}
}

// replyTo returns the bytes of the reply to one request.
func replyTo(t *testing.T, socket string, protocol int, words ...string) string {
	t.Helper()
	output := exchange(t, socket, []byte(request("HELLO", strconv.Itoa(protocol))+request("ECHO", "here")+request(words...)))
	_, reply, found := bytes.Cut(output, []byte("here\r\n"))
	if !found {
		t.Fatalf("RESP%d: %q", protocol, output)
	}
	return string(reply)
}

func TestPushAsRedis(t *testing.T) {
	_, socket := start(t)
	for _, protocol := range []int{2, 3} {
		w := NewWriter(protocol)
		w.Push(3)
		w.BulkString("subscribe")
		w.BulkString("channel")
		w.Integer(1)
		if want := replyTo(t, socket, protocol, "SUBSCRIBE", "channel"); string(w.Bytes()) != want {
			t.Errorf("RESP%d: %q, from Redis %q", protocol, w.Bytes(), want)
		}
	}
	w := NewWriter(2)
	w.NullArray()
	if want := replyTo(t, socket, 2, "LPOP", "none", "1"); string(w.Bytes()) != want {
		t.Errorf("%q, from Redis %q", w.Bytes(), want)
	}
}

// TestTextsAsRedis writes errors and simple strings with line ends in them.
func TestTextsAsRedis(t *testing.T) {
	_, socket := start(t)
	for _, text := range []string{"MY text", "MY\r text\r\n\nhere", "MY text\r\n", "\r\nMY text", "MY text\r \n\n", "MY \xff\r\x80"} {
		w := NewWriter(2)
		w.Error(text)
		w.SimpleString(text)
		script := "return redis.%s_reply(ARGV[1])"
		want := replyTo(t, socket, 2, "EVAL", fmt.Sprintf(script, "error"), "0", text) + replyTo(t, socket, 2, "EVAL", fmt.Sprintf(script, "status"), "0", text)
		if string(w.Bytes()) != want {
			t.Errorf("%q: %q, from Redis %q", text, w.Bytes(), want)
		}
	}
}

func TestDoubleAsRedis(t *testing.T) {
	const seed = 13
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	_, socket := start(t)
	values := []float64{0, math.Copysign(0, -1), 1, -1, 0.1, 1.5, 3.141, 1e15, 1e16, 1e17, 1e21, 1 << 53, 1e-4, 1e-5, math.Inf(1), math.Inf(-1),
		math.MaxFloat64, math.SmallestNonzeroFloat64, 123456789012345678, 1.0 / 3}
	for range 5000 {
		if f := math.Float64frombits(random.Uint64()); !math.IsNaN(f) {
			values = append(values, f, random.NormFloat64(), float64(random.IntN(1e9))/1000)
		}
	}
	for chunk := range slices.Chunk(values, 1000) {
		for _, protocol := range []int{2, 3} {
			compareDoubles(t, socket, protocol, chunk)
		}
	}
}

func compareDoubles(t *testing.T, socket string, protocol int, values []float64) {
	t.Helper()
	input := request("HELLO", strconv.Itoa(protocol)) + request("DEL", "z") + request("ECHO", "here")
	w := NewWriter(protocol)
	for i, f := range values {
		w.Double(f)
		input += request("ZADD", "z", "INCR", strconv.FormatFloat(f, 'x', -1, 64), strconv.Itoa(i))
	}
	_, output, _ := bytes.Cut(exchange(t, socket, []byte(input)), []byte("here\r\n"))
	got, want := numbersIn(w.Bytes()), numbersIn(output)
	if len(got) != len(want) {
		t.Fatalf("RESP%d: %d doubles, from Redis %d", protocol, len(got), len(want))
	}
	for i := range want {
		x, failed := strconv.ParseFloat(got[i], 64)
		y, alsoFailed := strconv.ParseFloat(want[i], 64)
		if failed != nil || alsoFailed != nil || math.Float64bits(x) != math.Float64bits(y) {
			t.Fatalf("RESP%d: %q, from Redis %q", protocol, got[i], want[i])
		}
	}
}

// numbersIn lists the doubles of replies. Redis 7.0 writes them with more digits than 7.2 does, so
// their lengths differ.
func numbersIn(replies []byte) []string {
	var numbers []string
	for line := range strings.SplitSeq(string(replies), "\r\n") {
		if line = strings.TrimPrefix(line, ","); line != "" && line[0] != '$' {
			numbers = append(numbers, line)
		}
	}
	return numbers
}

// TestReaderAsRedis reads everything that Redis can say.
func TestReaderAsRedis(t *testing.T) {
	_, socket := start(t)
	input := request("HELLO", "3")
	for _, kind := range strings.Fields("string integer double null array set map attrib push verbatim true false bignum") {
		input += request("DEBUG", "PROTOCOL", kind)
	}
	input += request("NO") + request("PING") + request("HELLO", "2") + request("GET", "none") + request("LPOP", "none", "1")
	r := NewReader(bytes.NewReader(exchange(t, socket, []byte(input))), 1<<20)
	hello := next(t, r)
	if hello.Kind != KindMap || string(hello.Elements[0].Text) != "server" {
		t.Fatalf("HELLO is %+v", hello)
	}
	var got []string
	for {
		reply, err := r.ReadReply()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != 16 { // HELLO 2
			got = append(got, describe(reply))
		} else {
			got = append(got, string(reply.Kind))
		}
	}
	want := []string{
		"$Hello World", ":12345", ",3.141", "_null", "*(:0 :1 :2)", "~(:0 :1 :2)", "%(:0 #0 :1 #1 :2 #0)",
		"[$key-popularity *($key:123 :90)]$Some real reply following the attribute", ">($server-cpu-usage :42)", "$Some real reply following the push reply",
		"=txt:This is a verbatim\nstring", "#1", "#0", "(1234567999999999999999999999999999999", "-ERR unknown command 'NO', with args beginning with: ",
		"+PONG", "*", "$null", "*null",
	}
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			t.Fatalf("reply %d: got %q, want %q", i, got, want)
		}
	}
}

func next(t *testing.T, r *Reader) Reply {
	t.Helper()
	reply, err := r.ReadReply()
	if err != nil {
		t.Fatal(err)
	}
	return reply
}

// describe writes a reply so that tests can compare it.
func describe(r Reply) string {
	all := func(replies []Reply) string {
		words := make([]string, len(replies))
		for i, reply := range replies {
			words[i] = describe(reply)
		}
		return strings.Join(words, " ")
	}
	text := string(r.Kind)
	if r.Attributes != nil {
		text = "[" + all(r.Attributes) + "]" + text
	}
	switch {
	case r.Null:
		return text + "null"
	case r.Kind == KindInteger || r.Kind == KindBool:
		return text + strconv.FormatInt(r.Integer, 10)
	case r.Kind == KindDouble:
		return text + strconv.FormatFloat(r.Double, 'g', -1, 64)
	case r.Kind == KindVerbatim:
		return text + r.Format + ":" + string(r.Text)
	case r.Elements != nil: // an empty array too
		return text + "(" + all(r.Elements) + ")"
	}
	return text + string(r.Text)
}
