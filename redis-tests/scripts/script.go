// Package scripts runs the readable scripts of requests and expected replies beside it (*.txt)
// against redis-server, whose replies are the expectation, and against the server under test.
//
// A script is a sequence of blocks with blank lines between them. A block is a number of requests,
// a line "----", and the replies:
//
//	# A comment.
//	set greeting "hello world" px 100000
//	[2] get greeting
//	@unordered smembers tags
//	----
//	+OK
//	"hello world"
//	["blue" "green"]
//	---- known difference: why Kedis, which follows Redis 7.2, answers something else
//	…the replies of the whole block from Kedis
//
// Requests are quoted as redis-cli takes them, with "x"*N for N times x; $name stands for a value
// that @save has kept. Replies are shown as resp.Reply's String says: exactly, type and bytes. [n]
// names the connection, 1 when it is left out; each is opened when it is first used. Lines that
// begin with @ give directions:
//
//	@oracle redis8|valkey9    the server whose replies these are, when 7.0 is too old; it comes first. KEDIS_ORACLE_REDIS8 and
//	                          KEDIS_ORACLE_VALKEY9 name them; without that only the replies that were recorded are compared
//	@options --name value …   options for the server, before the first request of the script
//	@resp 2|3                 the protocol, from here on, of all connections
//	@sleep 20ms               waits
//	@close                    closes the connection; when it is used again, it is a new one
//	@raw "bytes" "bytes" …    sends the strings as they are, each as a write of its own, and shows all replies, and "closed" if it was
//	@silent REQUEST           sends a request that is answered with nothing
//	@waiting REQUEST          sends a request that waits for other clients, and goes on when INFO counts one more that is blocked
//	@read REGEXP              shows what the regular expression matches in one more reply, to no request of its own
//	@unordered REQUEST        shows the elements sorted; @unordered-pairs REQUEST: pairs of elements sorted
//	@unordered-scan REQUEST   the same for the array in a SCAN's reply; @unordered-scan-pairs REQUEST
//	@shape REQUEST            shows only the types in the reply
//	@find REGEXP REQUEST      shows only what in the reply's text the regular expression matches
//	@between LOW HIGH REQUEST shows LOW..HIGH when the reply is an integer between the two
//	@save NAME REQUEST        keeps the reply's text under the name, and shows its type
//
// Every script runs on a server of its own, so it starts with no data and the default options.
// The package imports the standard library and its neighbours in redis-tests, nothing of Kedis.
package scripts

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"kedis/redis-tests/resp"
)

const (
	separator       = "----"
	knownDifference = "---- known difference: "
)

// Script is a parsed script. Its lines stay what they were, so that rewriting it changes nothing
// but replies.
type Script struct {
	Oracle  string   // the name of a newer oracle; empty: Redis 7.0
	Options []string // for the server
	Blocks  []Block
	trailer []string // the lines after the last block
}

// Block is a number of requests and the replies that are expected.
type Block struct {
	Line     int       // of its first line, from 1
	leading  []string  // comments and blank lines before it
	requests []string  // the lines above ----
	Requests []Request // what they say
	replies  []string
	// The second set of replies, where Kedis is meant to differ from the oracle, and why. nil when
	// it isn't.
	known       []string
	KnownReason string
	hasReplies  bool
}

// Request is one line above "----".
type Request struct {
	Text       string
	Connection int
	Directive  string // without the @; "" for a plain request
	Pattern    *regexp.Regexp
	Low, High  int64
	Name       string
	Pause      time.Duration
	Arguments  []string
}

// Parse reads a script.
func Parse(text string) (*Script, error) {
	s := new(Script)
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for i := 0; i < len(lines); {
		if isFiller(lines[i]) {
			s.trailer = append(s.trailer, lines[i])
			i++
			continue
		}
		block := Block{Line: i + 1, leading: s.trailer}
		s.trailer = nil
		end := i
		for end < len(lines) && strings.TrimSpace(lines[end]) != "" {
			end++
		}
		if err := block.parse(lines[i:end]); err != nil {
			return nil, fmt.Errorf("line %d: %w", block.Line, err)
		}
		s.Blocks = append(s.Blocks, block)
		i = end
	}
	return s, s.takeSettings()
}

func isFiller(line string) bool {
	return strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#")
}

func (b *Block) parse(lines []string) error {
	end := slices.Index(lines, separator)
	b.hasReplies = end >= 0
	if !b.hasReplies {
		end = len(lines)
	} else {
		b.replies = lines[end+1:]
	}
	b.requests = lines[:end]
	for i, line := range b.replies {
		if reason, found := strings.CutPrefix(line, knownDifference); found {
			b.known, b.KnownReason = append([]string{}, b.replies[i+1:]...), reason
			b.replies = b.replies[:i]
			break
		}
	}
	for _, line := range b.requests {
		if strings.HasPrefix(line, "#") {
			continue
		}
		request, err := parseRequest(line)
		if err != nil {
			return fmt.Errorf("%s: %w", line, err)
		}
		b.Requests = append(b.Requests, request)
	}
	return nil
}

func parseRequest(line string) (Request, error) {
	r := Request{Text: line, Connection: 1}
	if strings.HasPrefix(line, "[") {
		number, rest, found := strings.Cut(line[1:], "] ")
		connection, err := strconv.Atoi(number)
		if !found || err != nil {
			return r, fmt.Errorf("scripts: bad connection number")
		}
		r.Connection, line = connection, rest
	}
	words, err := resp.SplitLine(line)
	if err != nil {
		return r, err
	}
	if directive, found := strings.CutPrefix(words[0], "@"); found {
		r.Directive = directive
		words, err = r.takeDirective(words[1:])
	}
	r.Arguments = words
	return r, err
}

// parameters says how many words a directive takes before its request, and whether a request
// follows.
var parameters = map[string]struct {
	count   int
	request bool
}{
	"oracle": {1, false}, "options": {0, true}, "resp": {1, false}, "sleep": {1, false}, "close": {0, false}, "raw": {0, true}, "silent": {0, true}, "waiting": {0, true}, "read": {1, false},
	"unordered": {0, true}, "unordered-pairs": {0, true}, "unordered-scan": {0, true}, "unordered-scan-pairs": {0, true},
	"shape": {0, true}, "find": {1, true}, "between": {2, true}, "save": {1, true},
}

func (r *Request) takeDirective(words []string) ([]string, error) {
	form, known := parameters[r.Directive]
	if !known {
		return nil, fmt.Errorf("scripts: unknown directive @%s", r.Directive)
	}
	if len(words) < form.count || form.request != (len(words) > form.count) {
		return nil, fmt.Errorf("scripts: wrong number of words after @%s", r.Directive)
	}
	var err error
	switch r.Directive {
	case "sleep":
		r.Pause, err = time.ParseDuration(words[0])
	case "find", "read":
		r.Pattern, err = regexp.Compile(words[0])
	case "resp", "save", "oracle":
		r.Name = words[0]
	case "between":
		if r.Low, err = strconv.ParseInt(words[0], 10, 64); err == nil {
			r.High, err = strconv.ParseInt(words[1], 10, 64)
		}
	}
	return words[form.count:], err
}

// takeSettings moves @oracle and @options, which may come first, out of the first block.
func (s *Script) takeSettings() error {
	if len(s.Blocks) == 0 {
		return nil
	}
	first := &s.Blocks[0]
	if len(first.Requests) > 0 && first.Requests[0].Directive == "oracle" {
		s.Oracle, first.Requests = first.Requests[0].Name, first.Requests[1:]
	}
	if len(first.Requests) > 0 && first.Requests[0].Directive == "options" {
		s.Options, first.Requests = first.Requests[0].Arguments, first.Requests[1:]
	}
	for i := range s.Blocks {
		for _, request := range s.Blocks[i].Requests {
			if request.Directive == "oracle" || request.Directive == "options" {
				return fmt.Errorf("line %d: scripts: @%s must come first", s.Blocks[i].Line, request.Directive)
			}
		}
	}
	return nil
}

// String is the script's text, with the replies that its blocks now have.
func (s *Script) String() string {
	var b strings.Builder
	write := func(lines []string) {
		for _, line := range lines {
			b.WriteString(line + "\n")
		}
	}
	for _, block := range s.Blocks {
		write(block.leading)
		write(block.requests)
		if block.hasReplies {
			write([]string{separator})
			write(block.replies)
		}
		if block.known != nil {
			write([]string{knownDifference + block.KnownReason})
			write(block.known)
		}
	}
	write(s.trailer)
	return b.String()
}

// Expected returns the lines that the block's replies have to be.
func (b *Block) Expected(isRedis bool) []string {
	if b.known != nil && !isRedis {
		return b.known
	}
	return b.replies
}

// SetReplies replaces the oracle's replies.
func (b *Block) SetReplies(replies []string) {
	b.replies, b.hasReplies = replies, b.hasReplies || len(replies) > 0
}

// SetKnown replaces the replies that Kedis is to give; a block that had none gets a reason that has
// to be written.
func (b *Block) SetKnown(replies []string) {
	b.known = replies
	if b.KnownReason == "" {
		b.KnownReason = missingReason
	}
}

// missingReason stands where a person has to write why Kedis differs; a test refuses scripts that
// hold it.
const missingReason = "(write the reason)"
