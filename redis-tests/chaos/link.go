package chaos

import (
	"net"
	"sync"
	"time"
)

// Link is a proxy on a port of its own that passes connections on to a server, and can be cut,
// slowed down and frozen. Its methods may be called from any goroutine.
type Link struct {
	Port int

	listener net.Listener
	mu       sync.Mutex
	changed  *sync.Cond // to wake what a frozen link holds up
	target   string
	open     map[net.Conn]struct{}
	frozen   [2]bool // by direction
	rate     int     // bytes per second that pass in each direction; 0 is no limit
	left     int64   // bytes that may pass before the link breaks; negative is no limit
	closed   bool
}

// The directions of a link.
const (
	toTarget   = 0
	fromTarget = 1
)

// NewLink makes a link to a server at an address.
func NewLink(target string) (*Link, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	l := &Link{Port: listener.Addr().(*net.TCPAddr).Port, listener: listener, target: target, open: map[net.Conn]struct{}{}, left: -1}
	l.changed = sync.NewCond(&l.mu)
	go l.accept()
	return l, nil
}

// Close ends the link and all its connections.
func (l *Link) Close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	// Nothing is to be told of a listener that is thrown away.
	_ = l.listener.Close()
	l.Cut()
}

func (l *Link) accept() {
	for {
		near, err := l.listener.Accept()
		if err != nil {
			return
		}
		go l.connect(near)
	}
}

func (l *Link) connect(near net.Conn) {
	l.mu.Lock()
	target := l.target
	l.mu.Unlock()
	far, err := net.Dial("tcp", target)
	if err != nil {
		_ = near.Close() // which tells that nobody is there
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open[near], l.open[far] = struct{}{}, struct{}{}
	if target != l.target || l.closed {
		l.end(near)
		l.end(far)
		return
	}
	go l.pass(near, far, toTarget)
	go l.pass(far, near, fromTarget)
}

// pass copies in one direction until either end is closed.
func (l *Link) pass(from, to net.Conn, direction int) {
	buffer := make([]byte, 16<<10)
	for {
		n, err := from.Read(buffer)
		for sent := 0; sent < n && err == nil; {
			piece, broken := l.admit(direction, to, n-sent)
			_, err = to.Write(buffer[sent : sent+piece])
			sent += piece
			if broken {
				l.Cut()
			}
		}
		if err != nil {
			break
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end(from)
	l.end(to)
}

// admit waits until up to wanted bytes may pass, and tells how many, and whether the link breaks
// behind them.
func (l *Link) admit(direction int, to net.Conn, wanted int) (piece int, broken bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if rate := l.rate; rate > 0 {
		const perSecond = 20
		wanted = min(wanted, max(1, rate/perSecond))
		l.mu.Unlock()
		time.Sleep(time.Second * time.Duration(wanted) / time.Duration(rate))
		l.mu.Lock()
	}
	for l.frozen[direction] {
		if _, open := l.open[to]; !open {
			return wanted, false
		}
		l.changed.Wait()
	}
	if l.left < 0 {
		return wanted, false
	}
	wanted = min(wanted, int(l.left))
	l.left -= int64(wanted)
	broken = l.left == 0
	if broken {
		l.left = -1
	}
	return wanted, broken
}

// end closes a connection; l.mu is held.
func (l *Link) end(conn net.Conn) {
	if _, open := l.open[conn]; !open {
		return
	}
	delete(l.open, conn)
	_ = conn.Close() // whatever becomes of it, it is cut
	l.changed.Broadcast()
}

// Cut ends all connections.
func (l *Link) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for conn := range l.open {
		l.end(conn)
	}
}

// CutAfter ends all connections when so many bytes more have passed, in both directions together.
func (l *Link) CutAfter(bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.left = bytes
}

// Redirect has connections from now on go to another server, and ends those that there are.
func (l *Link) Redirect(target string) {
	l.mu.Lock()
	l.target = target
	l.mu.Unlock()
	l.Cut()
}

// Freeze holds up everything that goes in one direction, without ending connections.
func (l *Link) Freeze(direction int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.frozen[direction] = true
}

// Slow lets only so many bytes pass in a second, in each direction of each connection.
func (l *Link) Slow(rate int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rate = rate
}

// Heal takes back Freeze, Slow and CutAfter.
func (l *Link) Heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.frozen, l.rate, l.left = [2]bool{}, 0, -1
	l.changed.Broadcast()
}
