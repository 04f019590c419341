package scripts

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"kedis/redis-tests/launch"
	"kedis/redis-tests/resp"
)

// patience is how long a reply may take: one to a SETRANGE of 512 MB, of a server that was built
// with the race detector, on a busy machine.
const patience = 10 * time.Minute

// Runner runs the blocks of one script on one server.
type Runner struct {
	server      *launch.Server
	connections map[int]*resp.Connection
	protocol    string
	saved       map[string]string
}

// NewRunner returns a runner that talks to server.
func NewRunner(server *launch.Server) *Runner {
	return &Runner{server: server, connections: map[int]*resp.Connection{}, protocol: "2", saved: map[string]string{}}
}

// Close closes the connections.
func (r *Runner) Close() {
	for number := range r.connections {
		r.drop(number)
	}
}

func (r *Runner) drop(number int) {
	if connection := r.connections[number]; connection != nil {
		connection.Close()
		delete(r.connections, number)
	}
}

func (r *Runner) connection(number int) (*resp.Connection, error) {
	if connection := r.connections[number]; connection != nil {
		return connection, nil
	}
	connection, err := r.server.Dial()
	if err != nil {
		return nil, err
	}
	connection.SetTimeout(patience)
	r.connections[number] = connection
	if r.protocol != "2" {
		_, err = connection.Must("hello", r.protocol)
	}
	return connection, err
}

// Shown is what a block's replies look like.
type Shown struct {
	Lines   []string
	sources []string // the request behind each line
}

// Run sends the requests of a block one after the other.
func (r *Runner) Run(block *Block) (Shown, error) {
	var all Shown
	for _, request := range block.Requests {
		text, err := r.one(request)
		if err != nil {
			return all, fmt.Errorf("%s %s: %w", request.Directive, resp.Line(request.Arguments), err)
		}
		if text == "" {
			continue
		}
		for _, line := range strings.Split(text, "\n") {
			all.Lines, all.sources = append(all.Lines, line), append(all.sources, request.Text)
		}
	}
	return all, nil
}

// Difference describes where s isn't what is wanted, naming the request; it is empty when there is
// no difference.
func (s Shown) Difference(want []string) string {
	if slices.Equal(want, s.Lines) {
		return ""
	}
	first := 0
	for first < min(len(want), len(s.Lines)) && want[first] == s.Lines[first] {
		first++
	}
	source := "nothing" // replies are missing at the end
	if first < len(s.Lines) {
		source = s.sources[first]
	}
	return fmt.Sprintf("reply line %d, to\n    %s\nwant\n    %s\ngot\n    %s", first+1, source, excerpt(want, first), excerpt(s.Lines, first))
}

func excerpt(lines []string, first int) string {
	const shown = 3
	if first >= len(lines) {
		return "(no more lines)"
	}
	return strings.Join(lines[first:min(first+shown, len(lines))], "\n    ")
}

// one carries out one line of a script and returns what it shows, which is nothing for some.
func (r *Runner) one(request Request) (string, error) {
	switch request.Directive {
	case "sleep":
		time.Sleep(request.Pause)
		return "", nil
	case "close":
		r.drop(request.Connection)
		return "", nil
	case "resp":
		return "", r.setProtocol(request.Name)
	case "raw":
		return r.raw(request)
	}
	connection, err := r.connection(request.Connection)
	if err != nil {
		return "", err
	}
	if request.Directive == "waiting" {
		return "", r.waiting(connection, r.substitute(request.Arguments))
	}
	if request.Directive != "read" {
		connection.Queue(r.substitute(request.Arguments)...)
		if err := connection.Flush(); err != nil {
			return r.closed(request, err)
		}
	}
	if request.Directive == "silent" {
		return "", nil
	}
	reply, err := connection.Read()
	if err != nil {
		return r.closed(request, err)
	}
	return r.show(request, reply), nil
}

// waiting sends a request, and returns when the server counts one more blocked client.
func (r *Runner) waiting(connection *resp.Connection, request []string) error {
	const watching = 0 // a connection that no script names
	watcher, err := r.connection(watching)
	if err != nil {
		return err
	}
	before, err := blockedClients(watcher)
	if err != nil {
		return err
	}
	connection.Queue(request...)
	if err := connection.Flush(); err != nil {
		return err
	}
	for range 10000 {
		now, err := blockedClients(watcher)
		if err != nil || now != before {
			return err
		}
		time.Sleep(time.Millisecond)
	}
	return fmt.Errorf("%q doesn't wait", request)
}

var blockedPattern = regexp.MustCompile(`blocked_clients:\d+`)

// blockedClients is what INFO says of blocked clients.
func blockedClients(connection *resp.Connection) (string, error) {
	reply, err := connection.Must("info", "clients")
	if err != nil {
		return "", err
	}
	return blockedPattern.FindString(string(reply.Text)), nil
}

func (r *Runner) setProtocol(protocol string) error {
	r.protocol = protocol
	for _, connection := range r.connections {
		if _, err := connection.Must("hello", protocol); err != nil {
			return err
		}
	}
	return nil
}

func (r *Runner) substitute(arguments []string) []string {
	substituted := make([]string, len(arguments))
	for i, argument := range arguments {
		substituted[i] = argument
		if name, found := strings.CutPrefix(argument, "$"); found {
			if value, saved := r.saved[name]; saved {
				substituted[i] = value
			}
		}
	}
	return substituted
}

// sentinel follows raw bytes, so that it is seen where the replies to them end: the server refuses
// it, or has closed the connection. An unknown command is refused in the same way before and after
// AUTH.
const sentinel = "sentinel-of-the-script-runner"

func (r *Runner) raw(request Request) (string, error) {
	connection, err := r.connection(request.Connection)
	if err != nil {
		return "", err
	}
	for _, part := range append(request.Arguments, string(resp.AppendRequest(nil, sentinel))) {
		connection.QueueRaw([]byte(part))
		if err := connection.Flush(); err != nil {
			break // the server may have closed the connection; what it said before can still be read
		}
		time.Sleep(time.Millisecond) // so that the parts arrive apart
	}
	var shown []string
	for {
		reply, err := connection.Read()
		switch {
		case err != nil:
			end, err := r.closed(request, err)
			return strings.Join(append(shown, end), "\n"), err
		case reply.IsError() && strings.Contains(string(reply.Text), sentinel):
			return strings.Join(shown, "\n"), nil
		}
		shown = append(shown, reply.String())
	}
}

// closed shows that the server has closed the connection, if that is what err says.
func (r *Runner) closed(request Request, err error) (string, error) {
	// A connection that is closed with unread bytes in it is reset, and whether a write notices is
	// a matter of chance.
	if !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
		return "", err
	}
	r.drop(request.Connection)
	return "closed", nil
}

func (r *Runner) show(request Request, reply resp.Reply) string {
	switch request.Directive {
	case "unordered":
		reply = resp.Sorted(reply, 1)
	case "unordered-pairs":
		reply = resp.Sorted(reply, 2)
	case "unordered-scan":
		reply = sortedScan(reply, 1)
	case "unordered-scan-pairs":
		reply = sortedScan(reply, 2)
	case "shape":
		return shape(reply)
	case "find", "read":
		return found(request.Pattern, reply)
	case "between":
		if n, ok := reply.Integer(); ok && n >= request.Low && n <= request.High {
			return fmt.Sprintf(":%d..%d", request.Low, request.High)
		}
	case "save":
		r.saved[request.Name] = string(reply.Text)
		return shape(reply)
	}
	return reply.String()
}

func sortedScan(reply resp.Reply, width int) resp.Reply {
	if len(reply.Elements) == 2 {
		reply.Elements = []resp.Reply{reply.Elements[0], resp.Sorted(reply.Elements[1], width)}
	}
	return reply
}

// shape shows the types in a reply: "$", ":", "[$ : [$]]"; errors are shown whole.
func shape(reply resp.Reply) string {
	switch {
	case reply.IsError() || reply.Null:
		return reply.String()
	case reply.Elements == nil:
		return string(reply.Kind)
	}
	parts := make([]string, len(reply.Elements))
	for i, element := range reply.Elements {
		parts[i] = shape(element)
	}
	return string(reply.Kind) + "[" + strings.Join(parts, " ") + "]"
}

// found shows the matches of pattern in all the texts of a reply, one to a line.
func found(pattern *regexp.Regexp, reply resp.Reply) string {
	if reply.Elements != nil {
		var parts []string
		for _, element := range reply.Elements {
			if part := found(pattern, element); part != "nothing" {
				parts = append(parts, part)
			}
		}
		if len(parts) == 0 {
			return "nothing"
		}
		return strings.Join(parts, "\n")
	}
	matches := pattern.FindAllString(string(reply.Text), -1)
	if len(matches) == 0 {
		return "nothing"
	}
	for i, match := range matches {
		matches[i] = strings.TrimRight(match, "\r\n")
	}
	return strings.Join(matches, "\n")
}
