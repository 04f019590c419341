package migrate

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"kedis/internal/glob"
	"kedis/storage/fieldtimes"
	"kedis/storage/rdb"
)

// Filter says which keys are moved, and what they are called at the target. The zero Filter moves
// everything under its name. It is not changed while it is used.
type Filter struct {
	Databases map[int]int // of the source, and what they are at the target; empty: all, as they are
	Match     []string    // glob-style patterns; with Prefixes: a key has to fit one of them
	Prefixes  []string
	Exclude   []string // patterns; a key that fits one is not moved
	Rewrites  []Rewrite

	WithoutFieldTimes bool // no field of a hash expires at the target
}

// Rewrite replaces a prefix. Of several that fit a key the first one counts.
type Rewrite struct{ Old, New string }

// FilterOptions are a filter as it stands on a command line. Each may be given several times.
type FilterOptions struct {
	DB            []string // numbers, with commas between them
	DBMap         []string // pairs such as 0:3, with commas between them
	Match, Prefix []string
	Exclude       []string
	RewritePrefix []string // old:new, or old=new where a prefix has a colon in it

	WithoutFieldTimes bool
}

// Filter reads the options.
func (o *FilterOptions) Filter() (*Filter, error) {
	f := &Filter{Databases: map[int]int{}, Match: o.Match, Prefixes: o.Prefix, Exclude: o.Exclude, WithoutFieldTimes: o.WithoutFieldTimes}
	for _, number := range split(o.DB) {
		if err := f.mapDatabase("--db", number, number); err != nil {
			return nil, err
		}
	}
	for _, pair := range split(o.DBMap) {
		from, to, ok := strings.Cut(pair, ":")
		if !ok {
			return nil, failure(ExitUsage, "--db-map: expected two numbers such as 0:3, got %q", pair)
		}
		if err := f.mapDatabase("--db-map", from, to); err != nil {
			return nil, err
		}
	}
	for _, pair := range o.RewritePrefix {
		rewrite, err := parseRewrite(pair)
		if err != nil {
			return nil, err
		}
		f.Rewrites = append(f.Rewrites, rewrite)
	}
	return f, nil
}

// String is the filter as it stands on a command line.
func (f *Filter) String() string {
	var words []string
	for _, from := range slices.Sorted(maps.Keys(f.Databases)) {
		words = append(words, fmt.Sprintf("--db-map %d:%d", from, f.Databases[from]))
	}
	for _, option := range []struct {
		name   string
		values []string
	}{{"--match", f.Match}, {"--prefix", f.Prefixes}, {"--exclude", f.Exclude}} {
		for _, value := range option.values {
			words = append(words, fmt.Sprintf("%s %q", option.name, value))
		}
	}
	for _, r := range f.Rewrites {
		words = append(words, fmt.Sprintf("--rewrite-prefix %q", r.Old+"="+r.New))
	}
	if f.WithoutFieldTimes {
		words = append(words, "--without-field-times")
	}
	return strings.Join(words, " ")
}

// split takes lists with commas apart.
func split(lists []string) (items []string) {
	for _, list := range lists {
		items = append(items, strings.Split(list, ",")...)
	}
	return items
}

func (f *Filter) mapDatabase(option, from, to string) error {
	source, err := strconv.ParseUint(strings.TrimSpace(from), 10, 31)
	if err != nil {
		return failure(ExitUsage, "%s: %q is not the number of a database", option, from)
	}
	target, err := strconv.ParseUint(strings.TrimSpace(to), 10, 31)
	if err != nil {
		return failure(ExitUsage, "%s: %q is not the number of a database", option, to)
	}
	for other, to := range f.Databases {
		if to == int(target) && other != int(source) { // a FLUSHDB of the one would remove the other's keys
			return failure(ExitUsage, "%s: databases %d and %d would both become %d, where their keys can't be told apart", option, min(other, int(source)), max(other, int(source)), target)
		}
	}
	f.Databases[int(source)] = int(target)
	return nil
}

func parseRewrite(pair string) (Rewrite, error) {
	before, after, ok := strings.Cut(pair, "=")
	if !ok && strings.Count(pair, ":") == 1 {
		before, after, ok = strings.Cut(pair, ":")
	}
	if !ok || strings.Contains(after, "=") {
		return Rewrite{}, failure(ExitUsage, "--rewrite-prefix: expected old:new, or old=new where a prefix has a colon in it, got %q", pair)
	}
	return Rewrite{before, after}, nil
}

// Database is what a database of the source is at the target; ok is false for one that isn't moved.
func (f *Filter) Database(database int) (to int, ok bool) {
	if len(f.Databases) == 0 {
		return database, true
	}
	to, ok = f.Databases[database]
	return to, ok
}

// reaches says whether a database of the target may be written to.
func (f *Filter) reaches(database int) bool {
	if len(f.Databases) == 0 {
		return true
	}
	for _, to := range f.Databases {
		if to == database {
			return true
		}
	}
	return false
}

// AllKeys says that every key of a database that is moved is moved.
func (f *Filter) AllKeys() bool {
	return len(f.Match) == 0 && len(f.Prefixes) == 0 && len(f.Exclude) == 0
}

// Wants says whether a key is moved.
func (f *Filter) Wants(key []byte) bool {
	fits := func(pattern string) bool { return glob.Match([]byte(pattern), key) }
	begins := func(prefix string) bool { return bytes.HasPrefix(key, []byte(prefix)) }
	if slices.ContainsFunc(f.Exclude, fits) {
		return false
	}
	return len(f.Match)+len(f.Prefixes) == 0 || slices.ContainsFunc(f.Prefixes, begins) || slices.ContainsFunc(f.Match, fits)
}

// Rename is what a key is called at the target.
func (f *Filter) Rename(key []byte) []byte {
	for _, r := range f.Rewrites {
		if rest, ok := bytes.CutPrefix(key, []byte(r.Old)); ok {
			return slices.Concat([]byte(r.New), rest)
		}
	}
	return key
}

// adapt has a value be what is moved of it.
func (f *Filter) adapt(value *rdb.Value) {
	if f.WithoutFieldTimes {
		value.LeaveOutFieldTimes()
	}
}

// Origins lists the names that a key of the target may have at the source: those that are moved and
// renamed to it.
func (f *Filter) Origins(key []byte) (names [][]byte) {
	try := func(name []byte) {
		known := slices.ContainsFunc(names, func(other []byte) bool { return bytes.Equal(name, other) })
		if !known && f.Wants(name) && bytes.Equal(f.Rename(name), key) {
			names = append(names, name)
		}
	}
	try(key)
	for _, r := range f.Rewrites {
		if rest, ok := bytes.CutPrefix(key, []byte(r.New)); ok {
			try(slices.Concat([]byte(r.Old), rest))
		}
	}
	return names
}

// Command is what a command of the source is at the target. It is nil when the command has nothing
// to do with what is moved. It fails when it can't be told: the command brings values of keys that
// aren't moved to keys that are.
func (f *Filter) Command(database int, args [][]byte, keys []KeyPosition) (*Command, error) {
	to, ok := f.Database(database)
	if !ok {
		return nil, f.refuseFromOutside(args, keys)
	}
	c := &Command{Database: to, Args: args, Keys: keys, Wide: sortsBy(args)}
	if c.Wide && !(f.AllKeys() && len(f.Rewrites) == 0) {
		return nil, failure(ExitUnsupported, "%s reads keys by a pattern, which can't be carried over with a choice of keys", brief(args))
	}
	if !f.AllKeys() {
		var err error
		if c, err = c.within(f.Wants); c == nil || err != nil {
			return nil, err
		}
	}
	if f.WithoutFieldTimes && fieldtimes.Gives(c.Args) {
		rest, err := fieldtimes.Without(c.Args)
		if rest == nil || err != nil {
			return nil, err
		}
		c = &Command{Database: to, Args: rest, Keys: []KeyPosition{{Index: 1}}}
	}
	if len(f.Rewrites) > 0 {
		c.Args = slices.Clone(c.Args)
		for _, key := range c.Keys {
			c.Args[key.Index] = f.Rename(c.Args[key.Index])
		}
	}
	return c, nil
}

// refuseFromOutside fails when a command in a database that isn't moved brings a key to one that
// is.
func (f *Filter) refuseFromOutside(args [][]byte, keys []KeyPosition) error {
	at := otherDatabaseAt(args)
	if at == 0 {
		return nil
	}
	number, err := strconv.Atoi(string(args[at]))
	if err != nil {
		return fmt.Errorf("%s: %w", brief(args), err)
	}
	if _, ok := f.Database(number); !ok || !f.Wants(args[keys[len(keys)-1].Index]) {
		return nil
	}
	return failure(ExitUnsupported, "%s brings a value from a database that is not moved to one that is: choose both, or neither", brief(args))
}

// sortsBy says that a command is a SORT whose BY or GET names keys by a pattern.
func sortsBy(args [][]byte) bool {
	if !bytes.EqualFold(args[0], []byte("SORT")) {
		return false
	}
	for i := 2; i+1 < len(args); i++ {
		if (bytes.EqualFold(args[i], []byte("BY")) || bytes.EqualFold(args[i], []byte("GET"))) && bytes.IndexByte(args[i+1], '*') >= 0 {
			return true
		}
	}
	return false
}

// within is what is left of a command when only some keys are meant: nil if it changes none of
// them.
func (c *Command) within(wants func(key []byte) bool) (*Command, error) {
	wanted, changed := 0, 0
	for _, key := range c.Keys {
		if wants(c.Args[key.Index]) {
			wanted++
			if !key.ReadOnly {
				changed++
			}
		}
	}
	switch {
	case wanted == len(c.Keys):
		return c, nil
	case changed == 0:
		return nil, nil
	}
	return c.part(wants)
}

// part is what is left of a command that changes some of the keys that are meant, and has others.
func (c *Command) part(wants func(key []byte) bool) (*Command, error) {
	on := func(words ...[]byte) (*Command, error) {
		return &Command{Database: c.Database, Args: words, Keys: []KeyPosition{{Index: 1}}}, nil
	}
	args := c.Args
	switch name := strings.ToUpper(string(args[0])); {
	case name == "DEL", name == "UNLINK", name == "MSET", name == "MSETNX":
		parts := slices.DeleteFunc(c.apart(), func(one Command) bool { return !wants(one.Args[1]) })
		if len(parts) == 0 { // the key that is meant is the last word of an MSET, without a value
			return nil, failure(ExitUnsupported, "%s is no command", brief(args))
		}
		return join(parts), nil
	case strings.HasPrefix(name, "RENAME") && wants(args[1]):
		return on([]byte("DEL"), args[1])
	case name == "SMOVE" && wants(args[1]):
		return on([]byte("SREM"), args[1], args[3])
	case name == "SMOVE":
		return on([]byte("SADD"), args[2], args[3])
	case name == "RPOPLPUSH" && wants(args[1]):
		return on([]byte("RPOP"), args[1])
	case name == "LMOVE" && wants(args[1]) && strings.EqualFold(string(args[3]), "LEFT"):
		return on([]byte("LPOP"), args[1])
	case name == "LMOVE" && wants(args[1]):
		return on([]byte("RPOP"), args[1])
	}
	return nil, failure(ExitUnsupported,
		"%s brings values of keys that are not moved to keys that are: choose the keys so that such commands stay within them", brief(args))
}

// apart is a DEL, an UNLINK or an MSET as one command for each key; nil for any other command.
func (c *Command) apart() (parts []Command) {
	name, step := c.Args[0], 1
	switch strings.ToUpper(string(name)) {
	case "MSET", "MSETNX": // what stands in a stream has been done
		name, step = []byte("MSET"), 2
	case "DEL", "UNLINK":
	default:
		return nil
	}
	for i := 1; i+step <= len(c.Args); i += step {
		args := slices.Concat([][]byte{name}, c.Args[i:i+step])
		parts = append(parts, Command{Database: c.Database, Args: args, Keys: []KeyPosition{{Index: 1}}})
	}
	return parts
}

// setsOf is an MSETEX as a SET for each key, which any target knows. What stands in a stream has
// been done, so there are no conditions.
func setsOf(args [][]byte) (sets [][][]byte, err error) {
	count := 0
	if len(args) > 1 {
		count, err = strconv.Atoi(string(args[1]))
	}
	if err != nil || count < 1 || count > (len(args)-2)/2 {
		return nil, failure(ExitSource, "%s is no command", brief(args))
	}
	pairs, options := args[2:2+2*count], [][]byte(nil)
	for _, option := range args[2+2*count:] {
		if !bytes.EqualFold(option, []byte("NX")) && !bytes.EqualFold(option, []byte("XX")) {
			options = append(options, option)
		}
	}
	for pair := range slices.Chunk(pairs, 2) {
		sets = append(sets, slices.Concat([][]byte{setWord}, pair, options))
	}
	return sets, nil
}

// join undoes apart.
func join(parts []Command) *Command {
	c := parts[0]
	for _, part := range parts[1:] {
		c.Keys = append(c.Keys, KeyPosition{Index: len(c.Args)})
		c.Args = append(c.Args, part.Args[1:]...)
	}
	return &c
}

// brief shows the beginning of a command.
func brief(args [][]byte) string {
	var b strings.Builder
	for i, word := range args {
		if i == 4 {
			b.WriteString(" …")
			break
		}
		if i > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "%.60q", word)
	}
	return b.String()
}
