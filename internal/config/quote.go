package config

import (
	"errors"
	"fmt"

	"kedis/internal/quotes"
)

var errQuotes = errors.New("unbalanced quotes, or text right behind a closing quote")

// splitWords splits a line of a configuration file.
func splitWords(line string) (words []string, err error) {
	split, ok := quotes.Split(nil, []byte(line))
	if !ok {
		return nil, errQuotes
	}
	for _, word := range split {
		words = append(words, string(word))
	}
	return words, nil
}

var unescapes = map[byte]byte{'\n': 'n', '\r': 'r', '\t': 't', '\b': 'b', '\a': 'a', '\\': '\\', '"': '"'}

// quote writes a text so that splitWords reads it as one word.
func quote(text string) string {
	quoted := []byte{'"'}
	for _, c := range []byte(text) {
		if letter, ok := unescapes[c]; ok {
			quoted = append(quoted, '\\', letter)
		} else if c < ' ' || c > '~' {
			quoted = fmt.Appendf(quoted, `\x%02x`, c)
		} else {
			quoted = append(quoted, c)
		}
	}
	return string(append(quoted, '"'))
}

// quoteEmpty quotes only what would otherwise be no word at all.
func quoteEmpty(text string) string {
	if text == "" {
		return `""`
	}
	return text
}
