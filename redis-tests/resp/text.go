package resp

import (
	"crypto/sha1"
	"fmt"
	"strconv"
	"strings"
)

const (
	lineWidth    = 110 // a reply that is longer is spread over several lines
	longestShown = 400 // a string that is longer is shown as its beginning, its length and its hash
	shortestRun  = 48  // a string of at least so many equal bytes is shown as "x"*length
)

// String renders r so that it can be read, and so that two replies look the same only if they are
// the same, type and bytes (except for strings of more than 400 bytes, of which a SHA-1 stands for
// the rest):
//
//	+OK   -ERR text   :1   "bulk"   nil ($-1)   nil-array (*-1)   null (_)   #t   ,1.5   (123   =txt"verbatim"
//	["array" :1]   {"map": :1}   ~["set"]   >["push"]   |{"attribute": :1}
func (r Reply) String() string { return r.render("") }

func (r Reply) render(indent string) string {
	switch r.Kind {
	case Array, Set, Push, Map, Attribute:
		return r.renderAggregate(indent)
	case BulkString:
		if r.Null {
			return "nil"
		}
		return shown(r.Text)
	case VerbatimString:
		return "=" + shown(r.Text)
	case BulkError:
		return "!" + shown(r.Text)
	case Null:
		return "null"
	}
	return string(r.Kind) + escape(string(r.Text), false)
}

func (r Reply) renderAggregate(indent string) string {
	if r.Null {
		return "nil-array"
	}
	opening, closing, step := "[", "]", 1
	if r.Kind == Map || r.Kind == Attribute {
		opening, closing, step = "{", "}", 2
	}
	if r.Kind != Array && r.Kind != Map {
		opening = string(r.Kind) + opening
	}
	deeper := indent + "  "
	var parts []string
	width := len(indent) + len(opening) + len(closing)
	for i := 0; i < len(r.Elements); i += step {
		part := r.Elements[i].render(deeper)
		if step == 2 {
			part += ": " + r.Elements[i+1].render(deeper)
		}
		width += len(part) + 1
		parts = append(parts, part)
	}
	if width <= lineWidth {
		return opening + strings.Join(parts, " ") + closing
	}
	return opening + "\n" + deeper + strings.Join(parts, "\n"+deeper) + "\n" + indent + closing
}

func shown(text []byte) string {
	if len(text) <= longestShown || isRun(string(text)) {
		return quote(string(text))
	}
	return fmt.Sprintf("%s...(%d bytes, sha1 %x)", quote(string(text[:32])), len(text), sha1.Sum(text))
}

func isRun(text string) bool {
	return len(text) >= shortestRun && strings.Count(text, text[:1]) == len(text)
}

// quote writes text between double quotes; a long run of one byte becomes "x"*length.
func quote(text string) string {
	if isRun(text) {
		return `"` + escape(text[:1], true) + `"*` + strconv.Itoa(len(text))
	}
	return `"` + escape(text, true) + `"`
}

func escape(text string, quoted bool) string {
	var b strings.Builder
	for i := range len(text) {
		switch c := text[i]; {
		case c == '\\' || c == '"' && quoted:
			b.WriteByte('\\')
			b.WriteByte(c)
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\r':
			b.WriteString(`\r`)
		case c == '\t':
			b.WriteString(`\t`)
		case c < ' ' || c > '~':
			fmt.Fprintf(&b, `\x%02x`, c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// Line renders a request as a line that SplitLine reads back, quoted as redis-cli takes it.
func Line(arguments []string) string {
	words := make([]string, len(arguments))
	for i, argument := range arguments {
		words[i] = argument
		if !isPlain(argument) {
			words[i] = quote(argument)
		}
	}
	return strings.Join(words, " ")
}

func isPlain(argument string) bool {
	for i := range len(argument) {
		if c := argument[i]; c <= ' ' || c > '~' || c == '"' || c == '\'' || c == '\\' {
			return false
		}
	}
	return argument != "" && !strings.ContainsRune("#@$", rune(argument[0])) && !isRun(argument)
}

// SplitLine splits a line into arguments as redis-cli does: words between spaces; "double quotes"
// with \n \r \t \b \a \xHH and \ before any other character; 'single quotes' with only \'. One
// thing more than redis-cli: a closing double quote may be followed by *N, which repeats the string
// N times.
func SplitLine(line string) ([]string, error) {
	var arguments []string
	for {
		line = strings.TrimLeft(line, " \t")
		if line == "" {
			return arguments, nil
		}
		argument, rest, err := nextArgument(line)
		if err != nil {
			return nil, err
		}
		arguments, line = append(arguments, argument), rest
	}
}

func nextArgument(line string) (argument, rest string, err error) {
	switch line[0] {
	case '"':
		argument, rest, err = doubleQuoted(line[1:])
	case '\'':
		argument, rest, err = singleQuoted(line[1:])
	default:
		end := strings.IndexAny(line, " \t")
		if end < 0 {
			end = len(line)
		}
		return line[:end], line[end:], nil
	}
	if err == nil && rest != "" && rest[0] != ' ' && rest[0] != '\t' {
		err = fmt.Errorf("resp: %q follows a closing quote", rest)
	}
	return argument, rest, err
}

func doubleQuoted(line string) (argument, rest string, err error) {
	var b strings.Builder
	for i := 0; i < len(line); i++ {
		switch {
		case line[i] == '"':
			return repeated(b.String(), line[i+1:])
		case line[i] != '\\':
			b.WriteByte(line[i])
		case i+3 < len(line) && line[i+1] == 'x':
			value, err := strconv.ParseUint(line[i+2:i+4], 16, 8)
			if err != nil {
				return "", "", fmt.Errorf("resp: bad escape in %q", line)
			}
			b.WriteByte(byte(value))
			i += 3
		case i+1 < len(line):
			i++
			b.WriteByte(unescape(line[i]))
		}
	}
	return "", "", fmt.Errorf("resp: no closing quote in %q", line)
}

func unescape(c byte) byte {
	if i := strings.IndexByte("nrtba", c); i >= 0 {
		return "\n\r\t\b\a"[i]
	}
	return c
}

func repeated(text, rest string) (string, string, error) {
	if !strings.HasPrefix(rest, "*") {
		return text, rest, nil
	}
	end := 1
	for end < len(rest) && rest[end] >= '0' && rest[end] <= '9' {
		end++
	}
	times, err := strconv.Atoi(rest[1:end])
	if err != nil || times*len(text) > maximalBulk {
		return "", "", fmt.Errorf("resp: bad repetition %q", rest)
	}
	return strings.Repeat(text, times), rest[end:], nil
}

func singleQuoted(line string) (argument, rest string, err error) {
	var b strings.Builder
	for i := 0; i < len(line); i++ {
		switch {
		case line[i] == '\'':
			return b.String(), line[i+1:], nil
		case line[i] == '\\' && i+1 < len(line) && line[i+1] == '\'':
			i++
			b.WriteByte('\'')
		default:
			b.WriteByte(line[i])
		}
	}
	return "", "", fmt.Errorf("resp: no closing quote in %q", line)
}
