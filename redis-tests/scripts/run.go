package scripts

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	"kedis/redis-tests/launch"
	"kedis/redis-tests/resp"
)

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
	r.connections[number] = connection
	if r.protocol != "2" {
		_, err = connection.Must("hello", r.protocol)
	}
	return connection, err
}

// Run sends the requests of a block one after the other and returns the replies, as lines.
func (r *Runner) Run(block *Block) ([]string, error) {
	var lines []string
	for _, request := range block.Requests {
		shown, err := r.one(request)
		if err != nil {
			return lines, fmt.Errorf("%s %s: %w", request.Directive, resp.Line(request.Arguments), err)
		}
		if shown != "" {
			lines = append(lines, strings.Split(shown, "\n")...)
		}
	}
	return lines, nil
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
	if request.Directive != "read" {
		connection.Queue(r.substitute(request.Arguments)...)
		if err := connection.Flush(); err != nil {
			return "", err
		}
	}
	if request.Directive == "silent" {
		return "", nil
	}
	reply, err := connection.Read()
	if errors.Is(err, io.EOF) {
		r.drop(request.Connection)
		return "closed", nil
	}
	if err != nil {
		return "", err
	}
	return r.show(request, reply), nil
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

// sentinel follows raw bytes, so that it is seen where the replies to them end: the server answers it, or has closed the connection.
const sentinel = "sentinel of the script runner"

func (r *Runner) raw(request Request) (string, error) {
	connection, err := r.connection(request.Connection)
	if err != nil {
		return "", err
	}
	for _, part := range append(request.Arguments, string(resp.AppendRequest(nil, "echo", sentinel))) {
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
		case err != nil && isClosed(err):
			r.drop(request.Connection)
			return strings.Join(append(shown, "closed"), "\n"), nil
		case err != nil:
			return "", err
		case reply.Kind == resp.BulkString && string(reply.Text) == sentinel:
			return strings.Join(shown, "\n"), nil
		}
		shown = append(shown, reply.String())
	}
}

// isClosed also takes a reset for the end: a server that closes a connection with unread bytes in it resets it.
func isClosed(err error) bool {
	return errors.Is(err, io.EOF) || strings.Contains(err.Error(), "reset by peer")
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
