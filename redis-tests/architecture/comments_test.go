package architecture

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

const (
	commentWidth = 100 // columns
	tabWidth     = 4
)

// prose is a line of a comment that stands alone and isn't drawn: layouts, lists and directives are
// as wide as they have to be.
var prose = regexp.MustCompile(`^\t*// [^ \t]`)

// tooWide returns the numbers of the lines of prose that are wider than comments are. What an
// example prints is none.
func tooWide(source string) (lines []int) {
	output := false
	for i, line := range strings.Split(source, "\n") {
		output = strings.HasPrefix(line, "\t// Output:") || output && prose.MatchString(line)
		width := utf8.RuneCountInString(line) + (tabWidth-1)*strings.Count(line, "\t")
		if prose.MatchString(line) && !output && width > commentWidth && !strings.Contains(line, "://") {
			lines = append(lines, i+1)
		}
	}
	return lines
}

func TestCommentsHaveOneWidth(t *testing.T) {
	eachFile(t, func(_, file string) {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range tooWide(string(source)) {
			t.Errorf("%s:%d: the comment is wider than %d columns", file, line, commentWidth)
		}
	})
}

func TestTooWide(t *testing.T) {
	long := strings.Repeat("word ", 20)
	source := "// " + long + "\n\t// short\n//  drawn " + long + "\nx := 1 // " + long + "\n\t//lint:ignore " + long + "\n\t// " + long[:94] + "\n"
	if got := tooWide(source); len(got) != 2 || got[0] != 1 || got[1] != 6 {
		t.Errorf("lines %v are too wide, want 1 and 6", got)
	}
}
