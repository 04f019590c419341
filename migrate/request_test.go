package migrate

import (
	"io"
	"strings"
	"testing"

	"kedis/internal/resp"
)

// TestTransactionReplies has replies of transactions whose results take more memory than a reply
// may.
func TestTransactionReplies(t *testing.T) {
	large := "$3000000\r\n" + strings.Repeat("x", 3000000) + "\r\n"
	queued := "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n"
	many := "*200000\r\n" + strings.Repeat(":1\r\n", 199999) + "*2\r\n$-1\r\n*-1\r\n"
	for _, c := range []struct{ replies, want string }{
		{queued + "*3\r\n" + large + many + ":1\r\n", ""},
		{queued + "*3\r\n" + large + "-ERR no\r\n:1\r\n", `ERR no ("SET" "b" "2")`},
		{queued + "*3\r\n*1\r\n-ERR within\r\n+OK\r\n:1\r\n", ""},
		{queued + "*-1\r\n", "a transaction of 3 commands has -1 results"},
		{queued + "*3\r\n:1\r\n?\r\n", `"?" is no reply`},
		{queued + "-ERR no\r\n", `ERR no (EXEC)`},
		{"+OK\r\n-OOM full\r\n+QUEUED\r\n+QUEUED\r\n-EXECABORT\r\n", `OOM full ("SET" "a" "1")`},
	} {
		b := &batch{}
		b.add(0, 0, words("SET a 1")...)
		b.add(0, 0, words("SET b 2")...)
		r := &request{batch: b, entries: b.entries, mark: words("HSET marker 0 1:0")}
		replies := resp.NewReader(strings.NewReader(c.replies), 1<<20)
		err := r.take(replies)
		if err != nil && err.Error() != c.want || err == nil && c.want != "" {
			t.Errorf("%.60q: %v, expected %s", c.replies, err, c.want)
		}
		if err == nil {
			if _, err := replies.ReadLine(); err != io.EOF {
				t.Errorf("%.60q: not taken to the end: %v", c.replies, err)
			}
		}
	}
}
