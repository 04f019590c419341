package config

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"kedis/internal/keyevent"
	"kedis/internal/number"
)

// kind says how a value of one type is read and written.
type kind[T any] struct {
	expects string // completes "expected …"
	list    bool   // a configuration file may hold several words
	// parse reads a value; old is the one in force, for values of which a text may change a part.
	parse func(text string, old T) (T, error)
	show  func(T) string   // as CONFIG GET answers
	write func(T) []string // as the configuration file has it, a line each; nil: one line, as show
}

// reason is an error in the words of a CONFIG SET's reply.
type reason string

func (r reason) Error() string { return string(r) }

// integer is a whole number. unit is its plural, or empty for a plain count.
func integer(least, most int64, unit string) kind[int64] {
	parse := func(text string, _ int64) (int64, error) {
		n, ok := number.ParseInt([]byte(text))
		if !ok {
			return 0, reason("argument couldn't be parsed into an integer")
		}
		return n, between(n >= least && n <= most, least, most)
	}
	return kind[int64]{expects: numberPhrase(least, most, unit), parse: parse, show: showInteger}
}

// limit is a whole number, or -1, which is none.
func limit(least, most int64, unit string) kind[int64] {
	k := integer(math.MinInt64, math.MaxInt64, unit)
	parse := k.parse
	k.parse = func(text string, old int64) (int64, error) {
		n, err := parse(text, old)
		if err == nil && n != -1 && (n < least || n > most) {
			err = reason(fmt.Sprintf("argument must be -1, or between %d and %d inclusive", least, most))
		}
		return n, err
	}
	k.expects = "-1, or " + numberPhrase(least, most, unit)
	return k
}

// octal is a file's permission bits.
func octal(most int64) kind[int64] {
	show := func(n int64) string { return strconv.FormatInt(n, 8) }
	parse := func(text string, _ int64) (int64, error) {
		n, err := strconv.ParseInt(text, 8, 64)
		switch {
		case err != nil:
			return 0, reason("argument couldn't be parsed as an octal number")
		case n < 0 || n > most:
			return 0, reason(fmt.Sprintf("argument must be between 0 and %o inclusive", most))
		}
		return n, nil
	}
	return kind[int64]{expects: fmt.Sprintf("permissions as an octal number such as 700, at most %o", most), parse: parse, show: show}
}

func showInteger(n int64) string { return strconv.FormatInt(n, 10) }

func between(inside bool, least, most int64) error {
	if inside {
		return nil
	}
	return reason(fmt.Sprintf("argument must be between %d and %d inclusive", least, most))
}

func numberPhrase(least, most int64, unit string) string {
	phrase := "a number"
	if unit != "" {
		phrase += " of " + unit
	}
	if most == math.MaxInt64 {
		return fmt.Sprintf("%s, %d or more", phrase, least)
	}
	return fmt.Sprintf("%s from %d to %d", phrase, least, most)
}

// clamped takes what parse takes, and brings it into the range afterwards, as Redis does with hz.
func clamped(k kind[int64], least, most int64) kind[int64] {
	parse := k.parse
	k.parse = func(text string, old int64) (int64, error) {
		n, err := parse(text, old)
		return min(max(n, least), most), err
	}
	k.expects += fmt.Sprintf("; it is brought into the range from %d to %d", least, most)
	return k
}

// size is a number of bytes.
func size(least, most int64) kind[int64] {
	phrase := "a size such as 512kb or 64mb"
	switch {
	case most != math.MaxInt64:
		phrase += fmt.Sprintf(", from %s to %s", writeSize(least), writeSize(most))
	case least > 0:
		phrase += ", at least " + writeSize(least)
	}
	parse := func(text string, _ int64) (int64, error) {
		n, ok := number.ParseSize(text)
		if !ok {
			return 0, reason("argument must be a memory value")
		}
		return int64(n), between(n >= uint64(least) && n <= uint64(most), least, most)
	}
	write := func(n int64) []string { return []string{writeSize(n)} }
	return kind[int64]{expects: phrase, parse: parse, show: showInteger, write: write}
}

func writeSize[N int64 | uint64](n N) string {
	switch {
	case n == 0:
		return "0"
	case n%(1<<30) == 0:
		return fmt.Sprint(n>>30, "gb")
	case n%(1<<20) == 0:
		return fmt.Sprint(n>>20, "mb")
	case n%(1<<10) == 0:
		return fmt.Sprint(n>>10, "kb")
	}
	return fmt.Sprint(n)
}

// Share is an amount of memory, given in bytes or as a percentage of the machine's memory.
type Share struct {
	Percent int64 // 0 when it was given in bytes
	Bytes   int64 // the amount, in either case
}

// share is a size or a percentage of total.
func share(total int64) kind[Share] {
	return kind[Share]{
		expects: "a size such as 512mb, or a percentage of the machine's memory such as 10%",
		parse:   func(text string, _ Share) (Share, error) { return parseShare(text, total) },
		show: func(s Share) string {
			if s.Percent > 0 {
				return fmt.Sprint(s.Percent, "%")
			}
			return showInteger(s.Bytes)
		},
		write: func(s Share) []string {
			if s.Percent > 0 {
				return []string{fmt.Sprint(s.Percent, "%")}
			}
			return []string{writeSize(s.Bytes)}
		},
	}
}

func parseShare(text string, total int64) (Share, error) {
	const unreadable = reason("argument must be a memory or percent value")
	if percentage, ok := strings.CutSuffix(text, "%"); ok {
		n, ok := number.ParseInt([]byte(percentage))
		switch {
		case !ok || n < 0:
			return Share{}, unreadable
		case n > 100:
			return Share{}, reason("percentage argument must be less or equal to 100")
		}
		// Divided first: n·total could overflow, and a hundredth of a percent doesn't matter.
		return Share{Percent: n, Bytes: total / 100 * n}, nil
	}
	n, ok := number.ParseSize(text)
	if !ok {
		return Share{}, unreadable
	}
	return Share{Bytes: int64(n)}, between(n <= math.MaxInt64, 0, math.MaxInt64)
}

// percentage is a number from 0 to 100; a percent sign behind it may be left out.
func percentage() kind[int64] {
	parse := func(text string, _ int64) (int64, error) {
		n, ok := number.ParseInt([]byte(strings.TrimSuffix(text, "%")))
		if !ok {
			return 0, reason("argument must be a percent value")
		}
		return n, between(n >= 0 && n <= 100, 0, 100)
	}
	show := func(n int64) string { return fmt.Sprint(n, "%") }
	return kind[int64]{expects: "a percentage from 0% to 100%", parse: parse, show: show}
}

func yesNo() kind[bool] {
	show := func(b bool) string {
		if b {
			return "yes"
		}
		return "no"
	}
	parse := func(text string, _ bool) (bool, error) {
		yes := strings.EqualFold(text, "yes")
		if !yes && !strings.EqualFold(text, "no") {
			return false, reason("argument must be 'yes' or 'no'")
		}
		return yes, nil
	}
	return kind[bool]{expects: "yes or no", parse: parse, show: show}
}

// anyText is any string; phrase says what it means.
func anyText(phrase string) kind[string] {
	return kind[string]{
		expects: phrase,
		parse:   func(text string, _ string) (string, error) { return text, nil },
		show:    func(text string) string { return text },
		write:   func(text string) []string { return []string{quote(text)} },
	}
}

// words is a list of at most most words, which are separated by spaces.
func words(most int, unit string) kind[[]string] {
	return kind[[]string]{
		expects: fmt.Sprintf("at most %d %s, separated by spaces", most, unit),
		list:    true,
		parse: func(text string, _ []string) ([]string, error) {
			list := strings.Fields(text)
			if len(list) > most {
				return nil, reason(fmt.Sprintf("Too many %s specified.", unit))
			}
			return list, nil
		},
		show: func(list []string) string { return strings.Join(list, " ") },
		write: func(list []string) []string {
			if len(list) == 0 {
				return []string{`""`}
			}
			return []string{strings.Join(list, " ")}
		},
	}
}

// untilNUL is text that, as in Redis, ends at its first zero byte.
func untilNUL(expects string) kind[string] {
	k := anyText(expects)
	parse := k.parse
	k.parse = func(text, base string) (string, error) {
		text, _, _ = strings.Cut(text, "\x00")
		return parse(text, base)
	}
	return k
}

// hostname is text that may be a host's name, as Redis looks at it.
func hostname() kind[string] {
	const most = 255
	k := untilNUL("a name of letters, digits, hyphens and dots, or nothing")
	parse := k.parse
	k.parse = func(text, base string) (string, error) {
		name, err := parse(text, base)
		switch {
		case err != nil:
			return "", err
		case len(name) > most:
			return "", reason(fmt.Sprintf("Hostnames must be less than %d characters", most+1))
		case strings.ContainsFunc(name, notInHostname):
			return "", reason("Hostnames may only contain alphanumeric characters, hyphens or dots")
		}
		return name, nil
	}
	return k
}

func notInHostname(r rune) bool {
	return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '-' || r == '.')
}

// hostAndPort is where another server is, or nothing; NO ONE is nothing, too.
func hostAndPort() kind[[]string] {
	k := words(2, "words")
	k.expects = "a host and a port, or nothing"
	parse := k.parse
	k.parse = func(text string, base []string) ([]string, error) {
		list, err := parse(text, base)
		if err != nil || len(list) == 0 {
			return nil, err
		}
		if len(list) != 2 {
			return nil, reason("a host and a port are needed")
		}
		if strings.EqualFold(list[0], "no") && strings.EqualFold(list[1], "one") {
			return nil, nil
		}
		// Redis reads the port with strtol, and takes 0, which nobody listens on.
		if port, err := strconv.ParseInt(list[1], 10, 64); err != nil || port < 0 || port > 65535 {
			return nil, reason("Invalid master port")
		}
		return list, nil
	}
	return k
}

// named is one of the names, in whatever case it was given.
func named(names ...string) kind[string] {
	last := len(names) - 1
	return kind[string]{
		expects: strings.Join(names[:last], ", ") + " or " + names[last],
		parse: func(text string, _ string) (string, error) {
			if i := slices.IndexFunc(names, func(name string) bool { return strings.EqualFold(name, text) }); i >= 0 {
				return names[i], nil
			}
			return "", reason("argument(s) must be one of the following: " + strings.Join(names, ", "))
		},
		show: func(name string) string { return name },
	}
}

// choice is named, as the name's place in the list.
func choice[T ~int](names ...string) kind[T] {
	name := named(names...)
	return kind[T]{
		expects: name.expects,
		parse: func(text string, _ T) (T, error) {
			found, err := name.parse(text, "")
			return T(slices.Index(names, found)), err
		},
		show: func(value T) string { return names[value] },
	}
}

// only takes a single value: for options that tools read or set, and that Kedis has no other way
// for.
func only(value, why string) kind[string] {
	return kind[string]{
		expects: fmt.Sprintf("%q (%s)", value, why),
		parse: func(text string, _ string) (string, error) {
			if !strings.EqualFold(text, value) {
				return "", reason(fmt.Sprintf("argument must be %q: %s", value, why))
			}
			return value, nil
		},
		show:  func(value string) string { return value },
		write: func(value string) []string { return []string{quoteEmpty(value)} },
		list:  true,
	}
}

var durationUnits = []struct {
	suffix string
	length time.Duration
}{
	{"ms", time.Millisecond}, // before m and s, which it ends like
	{"d", 24 * time.Hour},
	{"h", time.Hour},
	{"m", time.Minute},
	{"s", time.Second},
}

// duration is a number with a unit; 0 needs none.
func duration(least, most time.Duration) kind[time.Duration] {
	phrase := fmt.Sprintf("a duration such as 500ms, 90s, 15m, 12h or 7d, from %s to %s",
		showDuration(least), showDuration(most))
	parse := func(text string, _ time.Duration) (time.Duration, error) {
		d, ok := parseDuration(text)
		if !ok || d < least || d > most {
			return 0, reason("argument must be " + phrase)
		}
		return d, nil
	}
	return kind[time.Duration]{expects: phrase, parse: parse, show: showDuration}
}

func parseDuration(text string) (time.Duration, bool) {
	if text == "0" {
		return 0, true
	}
	for _, unit := range durationUnits {
		digits, found := strings.CutSuffix(strings.ToLower(text), unit.suffix)
		if !found {
			continue
		}
		n, ok := number.ParseInt([]byte(digits))
		return time.Duration(n) * unit.length, ok && n >= 0 && n <= int64(math.MaxInt64/unit.length)
	}
	return 0, false
}

func showDuration(d time.Duration) string {
	if d == 0 {
		return "0"
	}
	for _, unit := range durationUnits[1:] {
		if d%unit.length == 0 {
			return fmt.Sprint(int64(d/unit.length), unit.suffix)
		}
	}
	return fmt.Sprint(d.Milliseconds(), "ms")
}

// eventClasses are letters for classes of key events.
func eventClasses() kind[keyevent.Classes] {
	return kind[keyevent.Classes]{
		expects: "letters of Ag$lshzxeKEtmdn, or nothing",
		parse: func(text string, _ keyevent.Classes) (keyevent.Classes, error) {
			classes, ok := keyevent.ParseClasses(text)
			if !ok {
				return 0, reason(keyevent.InvalidClass)
			}
			return classes, nil
		},
		show:  keyevent.Classes.String,
		write: func(classes keyevent.Classes) []string { return []string{quote(classes.Written())} },
	}
}

// percentiles are numbers from 0 to 100, separated by single spaces.
func percentiles() kind[[]float64] {
	return kind[[]float64]{
		expects: "percentiles from 0 to 100, separated by spaces",
		list:    true,
		parse:   parsePercentiles,
		show:    showPercentiles,
		write:   func(list []float64) []string { return []string{quoteEmpty(showPercentiles(list))} },
	}
}

func parsePercentiles(text string, _ []float64) ([]float64, error) {
	if text == "" {
		return nil, nil
	}
	const name = "latency-tracking-info-percentiles"
	var list []float64
	for word := range strings.SplitSeq(text, " ") {
		percentile, ok := number.ParseDouble([]byte(word))
		if !ok {
			return nil, reason("Invalid " + name + " parameters")
		}
		if percentile < 0 || percentile > 100 {
			return nil, reason(name + " parameters should sit between [0.0,100.0]")
		}
		list = append(list, percentile)
	}
	return list, nil
}

func showPercentiles(list []float64) string {
	words := make([]string, len(list))
	for i, percentile := range list {
		words[i] = strings.TrimRight(strings.TrimRight(strconv.FormatFloat(percentile, 'f', 6, 64), "0"), ".")
	}
	return strings.Join(words, " ")
}
