package differential

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"kedis/redis-tests/resp"
)

// exchange is one request and what the two servers answered.
type exchange struct {
	line      []string
	want, got resp.Reply
	// ask sends a further request to both servers on the same connection. It is nil where that
	// isn't possible: in a pipeline or a transaction.
	ask    func(arguments ...string) (want, got resp.Reply, err error)
	driver *Driver
}

// name is the command's name in lower case, with its subcommand where it has some.
func (x *exchange) name() string {
	name := strings.ToLower(x.line[0])
	switch name {
	case "object", "client", "config", "command", "debug", "memory", "function":
		if len(x.line) > 1 {
			return name + "|" + strings.ToLower(x.line[1])
		}
	}
	return name
}

// compare returns why the replies aren't as equal as they can be; nothing if they are.
func (x *exchange) compare() string {
	if string(x.want.Raw) == string(x.got.Raw) {
		return ""
	}
	name := x.name()
	for _, known := range knownDifferences {
		if slices.Contains(known.commands, name) && known.equal(x) {
			x.driver.Hits[known.reason]++
			return ""
		}
	}
	return "replies differ"
}

// compareTransaction compares what EXEC answered, reply by reply.
func (x *exchange) compareTransaction(queued [][]string) string {
	if len(x.want.Elements) != len(queued) || len(x.got.Elements) != len(queued) || x.want.Null || x.got.Null {
		return x.compare()
	}
	for i, line := range queued {
		one := &exchange{line: line, want: x.want.Elements[i], got: x.got.Elements[i], driver: x.driver}
		if reason := one.compare(); reason != "" {
			return fmt.Sprintf("%s in reply %d of EXEC, to\n  %s", reason, i+1, resp.Line(line))
		}
	}
	return ""
}

// Comparisons that the table of known differences is made of.

// unordered compares groups of elements regardless of their order.
func unordered(width int) func(x *exchange) bool {
	return func(x *exchange) bool {
		return string(resp.Sorted(x.want, width).Raw) == string(resp.Sorted(x.got, width).Raw)
	}
}

// sameShape compares types, nesting and numbers of elements, but no values.
func sameShape(x *exchange) bool { return sameShapes(x.want, x.got) }

func sameShapes(want, got resp.Reply) bool {
	return want.Kind == got.Kind && want.Null == got.Null && !want.IsError() &&
		slices.EqualFunc(want.Elements, got.Elements, sameShapes)
}

// sameScores compares replies in which only the digits of floating-point numbers differ, and not
// their values.
func sameScores(x *exchange) bool { return scoresEqual(x.want, x.got) }

func scoresEqual(want, got resp.Reply) bool {
	if string(want.Raw) == string(got.Raw) {
		return true
	}
	if want.Kind != got.Kind || want.Null != got.Null || len(want.Elements) != len(got.Elements) {
		return false
	}
	if want.Elements != nil {
		return slices.EqualFunc(want.Elements, got.Elements, scoresEqual)
	}
	if want.Kind != resp.BulkString && want.Kind != resp.Double {
		return false
	}
	wanted, err := strconv.ParseFloat(string(want.Text), 64)
	given, alsoErr := strconv.ParseFloat(string(got.Text), 64)
	return err == nil && alsoErr == nil && math.Float64bits(wanted) == math.Float64bits(given)
}

// canonicalScore makes one text of all that mean the same number.
func canonicalScore(text string) string {
	number, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return text
	}
	return strconv.FormatFloat(number, 'g', -1, 64)
}

// within compares integers that are times.
func within(tolerance int64) func(x *exchange) bool {
	return func(x *exchange) bool {
		want, ok := x.want.Integer()
		got, alsoOK := x.got.Integer()
		return ok && alsoOK && want > 0 && got > 0 && want-got <= tolerance && got-want <= tolerance
	}
}

// beyond refuses times after the year 2103: those were given as such and have to come back as they
// were.
func beyond(limit int64, otherwise func(x *exchange) bool) func(x *exchange) bool {
	return func(x *exchange) bool {
		want, _ := x.want.Integer()
		return want < limit && otherwise(x)
	}
}

// integers compares only that both replies are integers.
func integers(x *exchange) bool { return x.want.Kind == resp.Integer && x.got.Kind == resp.Integer }

// hasOption reports whether one of the arguments is the word, in any case.
func (x *exchange) hasOption(option string) bool {
	return has(x.line[1:], option)
}

// pickedFrom compares random picks: as many elements on both sides and, where it can be asked, none
// that isn't in the collection.
func pickedFrom(x *exchange) bool {
	if !sameShape(x) {
		return false
	}
	if x.ask == nil {
		return true
	}
	request := map[string][]string{"srandmember": {"smembers"}, "hrandfield": {"hgetall"}, "zrandmember": {"zrange", "0", "-1", "withscores"}, "randomkey": {"keys", "*"}}[x.name()]
	if x.name() != "randomkey" {
		request = slices.Insert(slices.Clone(request), 1, x.line[1])
	}
	all, _, err := x.ask(request...)
	if err != nil {
		return false
	}
	kept, taken := x.pairing()
	allowed := map[string]bool{}
	for one := range slices.Chunk(canonical(all), kept) {
		allowed[strings.Join(one[:min(taken, len(one))], "\x00")] = true
	}
	for one := range slices.Chunk(canonical(x.got), taken) {
		if !allowed[strings.Join(one, "\x00")] {
			return false
		}
	}
	return x.repeats() || !repeated(x.got, x.pickWidth())
}

// pairing is how many texts an element has in its collection, and how many of them a pick has: the
// name alone, or what stands with it.
func (x *exchange) pairing() (kept, taken int) {
	switch name := x.name(); {
	case name != "hrandfield" && name != "zrandmember":
		return 1, 1
	case x.hasOption("withvalues"), x.hasOption("withscores"):
		return 2, 2
	}
	return 2, 1
}

// canonical are the texts of a reply's elements; the scores of the two servers differ in their
// digits.
func canonical(reply resp.Reply) []string {
	texts := flatten(reply)
	for i, text := range texts {
		texts[i] = canonicalScore(text)
	}
	return texts
}

// repeats reports whether a pick may hold an element twice: that is what a negative count asks for.
func (x *exchange) repeats() bool { return len(x.line) > 2 && strings.HasPrefix(x.line[2], "-") }

// pickWidth is how many elements of the reply make one pick: two when values or scores stand
// between them, as in RESP2.
func (x *exchange) pickWidth() int {
	nested := len(x.got.Elements) > 0 && x.got.Elements[0].Elements != nil
	if !nested && (x.hasOption("withvalues") || x.hasOption("withscores")) {
		return 2
	}
	return 1
}

func repeated(reply resp.Reply, width int) bool {
	seen := map[string]bool{}
	for group := range slices.Chunk(reply.Elements, width) {
		if seen[string(group[0].Raw)] {
			return true
		}
		seen[string(group[0].Raw)] = true
	}
	return false
}

func flatten(reply resp.Reply) []string {
	if reply.Elements == nil {
		return []string{canonicalText(reply)}
	}
	var texts []string
	for _, element := range reply.Elements {
		texts = append(texts, flatten(element)...)
	}
	return texts
}

// canonicalText makes the double of RESP3 and the string of RESP2 the same text.
func canonicalText(reply resp.Reply) string {
	if reply.Kind == resp.Double {
		return canonicalScore(string(reply.Text))
	}
	return string(reply.Text)
}
