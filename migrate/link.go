package migrate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"kedis/internal/psync"
	"kedis/internal/resp"
)

// link is a connection to a source, which takes it for a replica.
type link struct {
	server   Server
	conn     net.Conn
	requests *resp.Reader
	closed   func() bool // ends the watch over the context

	patience time.Duration // how long a read waits
	heard    time.Time     // when something came last

	sending sync.Mutex
	reached atomic.Int64 // the position that the source is told; -1 while a snapshot is taken
	stop    chan struct{}
	stopped sync.WaitGroup
}

const (
	// longestCommand bounds what one command of a stream or an AOF may take. Memory is taken as it
	// comes.
	longestCommand = 8 << 30
	// sourceTimeout is how long a source may be silent: twice what servers send their replicas'
	// PINGs after, and more.
	sourceTimeout = 60 * time.Second
	acknowledge   = time.Second
)

// attach asks a source for what follows a position of a history, or with an empty id for
// everything.
func attach(ctx context.Context, server Server, id string, from Position) (l *link, answer psync.Answer, err error) {
	conn, err := server.dial(ctx, "tcp", server.address())
	if err != nil {
		return nil, answer, sourceSide.explain(server.address(), err)
	}
	l = &link{server: server, conn: conn, patience: sourceTimeout, heard: time.Now(), stop: make(chan struct{})}
	l.reached.Store(-1)
	l.requests = resp.NewReader(l, longestCommand)
	// A read that waits ends with the context.
	l.closed = context.AfterFunc(ctx, func() { _ = conn.Close() })
	if answer, err = l.introduce(id, from); err != nil {
		return nil, answer, errors.Join(sourceSide.explain(server.address(), err), l.close())
	}
	l.stopped.Add(1)
	go l.showLife()
	return l, answer, nil
}

func (l *link) introduce(id string, from Position) (answer psync.Answer, err error) {
	if password := l.server.password(); password != "" {
		words := []string{"AUTH", l.server.User, password}
		if l.server.User == "" {
			words = []string{"AUTH", password}
		}
		if _, err := l.do(words...); err != nil {
			return answer, err
		}
	}
	if err := l.tell("capa", "eof", "capa", "psync2"); err != nil { // a Redis 2.8 doesn't know
		return answer, err
	}
	// A Valkey, or a Kedis, sends times of fields to who tells that. A Redis doesn't know the
	// option.
	if err := l.tell("version", "9.0.0"); err != nil {
		return answer, err
	}
	offset := from.Offset + 1
	if id == "" {
		id, offset = "?", -1
	}
	text, err := l.do("PSYNC", id, strconv.FormatInt(offset, 10))
	if err != nil {
		return answer, err
	}
	return psync.ParseAnswer(text)
}

// tell tells the source options, which it may not know.
func (l *link) tell(options ...string) error {
	_, err := l.do(append([]string{"REPLCONF"}, options...)...)
	if err != nil && replyCode(err) == "ERR" {
		return nil
	}
	return err
}

// do sends a request and waits for its reply.
func (l *link) do(words ...string) ([]byte, error) {
	args := make([][]byte, len(words))
	for i, word := range words {
		args[i] = []byte(word)
	}
	if err := l.send(resp.AppendRequest(nil, args...)); err != nil {
		return nil, err
	}
	reply, err := l.requests.ReadReply()
	if err == nil {
		err = refused(&reply)
	}
	return reply.Text, err
}

func (l *link) send(b []byte) error {
	l.sending.Lock()
	defer l.sending.Unlock()
	if err := l.conn.SetWriteDeadline(time.Now().Add(sourceTimeout)); err != nil {
		return err
	}
	_, err := l.conn.Write(b)
	return err
}

// showLife tells the source each second how far the target is, or that the snapshot is being taken.
func (l *link) showLife() {
	defer l.stopped.Done()
	ticker := time.NewTicker(acknowledge)
	defer ticker.Stop()
	for {
		select {
		case <-l.stop:
			return
		case <-ticker.C:
		}
		if err := l.acknowledge(); err != nil {
			return // whoever reads finds out
		}
	}
}

func (l *link) acknowledge() error {
	position := l.reached.Load()
	if position < 0 {
		return l.send([]byte("\n"))
	}
	return l.send(resp.AppendRequest(nil, []byte("REPLCONF"), []byte("ACK"), strconv.AppendInt(nil, position, 10)))
}

// Read reads what the source sends, and waits for as long as patience says.
func (l *link) Read(p []byte) (int, error) {
	if err := l.conn.SetReadDeadline(time.Now().Add(l.patience)); err != nil {
		return 0, err
	}
	n, err := l.conn.Read(p)
	if n > 0 {
		l.heard = time.Now()
	}
	return n, err
}

var errNothing = errors.New("migrate: nothing has come")

// next reads the next command of the stream; errNothing says that none has come within a time.
func (l *link) next(wait time.Duration) (args [][]byte, bytes int, err error) {
	l.patience = wait
	args, bytes, err = l.requests.ReadRequest()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		if time.Since(l.heard) > sourceTimeout {
			return nil, 0, fmt.Errorf("nothing has come for %v: %w", sourceTimeout, io.ErrUnexpectedEOF)
		}
		return nil, 0, errNothing
	}
	return args, bytes, err
}

// snapshot returns what ends where the snapshot does, and its length; -1 is unknown.
func (l *link) snapshot() (io.Reader, int64, error) {
	length, mark, err := psync.ReadHeader(l.requests)
	if err != nil {
		return nil, 0, err
	}
	return psync.Body(l.requests, length, mark), length, nil
}

func (l *link) close() error {
	close(l.stop)
	l.closed()
	err := l.conn.Close()
	l.stopped.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
