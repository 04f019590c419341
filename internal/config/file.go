package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const mostFiles = 100 // more are taken for files that include each other

// Load reads the configuration file at path, and remembers it for Rewrite. The error names every
// line that is wrong and what was expected, such as:
//
//	kedis.conf:12: maxclients: expected a number from 1 to 4294967295, got "abc"
func (c *Config) Load(path string) error {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return fmt.Errorf("config: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.file = absolute
	l := loader{config: c}
	if err := l.load(path); err != nil {
		return fmt.Errorf("config: %w", err)
	}
	return errors.Join(l.problems...)
}

// loader reads a file and those that it includes. It goes on after an error, so that all mistakes
// are found at once.
type loader struct {
	config   *Config
	files    int
	place    string // of the line that is being read
	problems []error
}

// load reads a file, and collects what is wrong in it. The error says that it can't be read.
func (l *loader) load(path string) error {
	l.files++
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	number := 0
	for line := range strings.Lines(string(content)) {
		number++
		place := fmt.Sprintf("%s:%d", path, number)
		l.place = place
		if err := l.line(strings.TrimRight(line, "\r\n"), path); err != nil {
			l.problems = append(l.problems, fmt.Errorf("%s: %w", place, err))
		}
	}
	return nil
}

func (l *loader) line(line, path string) error {
	words, err := directive(line)
	if err != nil || len(words) == 0 {
		return err
	}
	if strings.EqualFold(words[0], "include") {
		return l.include(words[1:], path)
	}
	o := l.config.lookup(words[0])
	if o == nil {
		return errors.New(l.config.unknown(words[0]))
	}
	if o.addLine != nil {
		err = o.addLine(l.place, words[1:])
	} else {
		err = o.setWords(words[1:])
	}
	if err != nil {
		return fmt.Errorf("%s: %w", words[0], err)
	}
	return nil
}

// directive returns the words of a line: none for an empty one and for a comment.
func directive(line string) ([]string, error) {
	line = strings.TrimSpace(line)
	if strings.HasPrefix(line, "#") {
		return nil, nil
	}
	return splitWords(line)
}

// include loads the files that a pattern names, relative to the including file's directory. As in
// Redis, a pattern may match no file, but a plain name must.
func (l *loader) include(words []string, from string) error {
	if len(words) != 1 {
		return fmt.Errorf("include: expected a file name or pattern, got %d words", len(words))
	}
	pattern, directory := words[0], filepath.Dir(from)
	isPattern := strings.ContainsAny(pattern, "*?[")
	if isPattern { // the directory isn't, whatever its name
		directory = literally.Replace(directory)
	}
	if !filepath.IsAbs(pattern) {
		pattern = filepath.Join(directory, pattern)
	}
	paths := []string{pattern}
	if isPattern {
		var err error
		if paths, err = filepath.Glob(pattern); err != nil {
			return fmt.Errorf("include: %w", err)
		}
		paths = slices.DeleteFunc(paths, func(path string) bool { return hidden(path) && !hidden(pattern) })
	}
	defer l.config.renames.include(len(l.config.renames.given))
	defer l.config.users.include(len(l.config.users.given))
	for _, path := range paths {
		if l.files == mostFiles {
			return fmt.Errorf("include: more than %d files; do they include each other?", mostFiles)
		}
		if err := l.load(path); err != nil {
			return fmt.Errorf("include: %w", err)
		}
	}
	return nil
}

// literally makes a pattern that only a name itself matches.
var literally = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`)

// hidden reports whether a file is one that glob(3) takes only where the pattern begins so, too.
func hidden(path string) bool { return strings.HasPrefix(filepath.Base(path), ".") }

// setWords sets the option from the words of a line. As in Redis, none are the end of what former
// lines have gathered: save is save "".
func (o *option) setWords(words []string) error {
	switch {
	case len(words) == 0 && !o.gathers:
		return fmt.Errorf("expected %s, got nothing", o.expects())
	case len(words) > 1 && !o.isList():
		return fmt.Errorf("expected one value, got %d words: quote a value that holds spaces", len(words))
	}
	return o.give(strings.Join(words, " "))
}

// give sets the option from a line of a file or a flag.
func (o *option) give(text string) error {
	if before := o.String(); o.gathers && o.given && before != "" && text != "" {
		text = before + " " + text
	}
	o.given = true
	return o.set(text)
}

// set sets the option outside of CONFIG SET.
func (o *option) set(text string) error {
	change, err := o.prepare(text)
	if err != nil {
		return fmt.Errorf("expected %s, got %q", o.expects(), text)
	}
	change.store()
	return nil
}

// unknown says that there is no such option, and why, or which one may have been meant.
func (c *Config) unknown(name string) string {
	if why := whyWithout(name); why != "" {
		return fmt.Sprintf("Kedis is without Redis's option %q: %s", name, why)
	}
	best, nearest := "", 1+len(name)/4
	for _, entry := range c.names {
		if d := distance(strings.ToLower(name), entry.name); d <= nearest {
			best, nearest = entry.name, d-1
		}
	}
	if best == "" {
		return fmt.Sprintf("unknown option %q", name)
	}
	return fmt.Sprintf("unknown option %q: did you mean %s?", name, best)
}

// distance is how many bytes must be inserted, removed or replaced to make b from a.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
