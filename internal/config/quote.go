package config

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

var errQuotes = errors.New("unbalanced quotes, or text right behind a closing quote")

// splitWords splits a line as Redis splits those of its configuration file: words are separated by
// blanks; between double quotes \n \r \t \b \a \xHH and \" are escapes, between single quotes \' is
// the only one; a closing quote ends its word.
func splitWords(line string) ([]string, error) {
	var words []string
	for {
		line = strings.TrimLeft(line, " \t\r\n\v\f")
		if line == "" {
			return words, nil
		}
		word, rest, err := takeWord(line)
		if err != nil {
			return nil, err
		}
		words, line = append(words, word), rest
	}
}

func takeWord(line string) (word, rest string, err error) {
	var plain strings.Builder
	for i := 0; i < len(line); i++ {
		switch c := line[i]; c {
		case ' ', '\t', '\r', '\n':
			return plain.String(), line[i:], nil
		case '"', '\'':
			rest, err = takeQuoted(&plain, line[i+1:], c)
			return plain.String(), rest, err
		default:
			plain.WriteByte(c)
		}
	}
	return plain.String(), "", nil
}

// takeQuoted takes what follows an opening quote, and the closing one.
func takeQuoted(plain *strings.Builder, line string, quote byte) (rest string, err error) {
	for line != "" {
		if line[0] == quote {
			line = line[1:]
			if line != "" && !strings.ContainsRune(" \t\r\n\v\f", rune(line[0])) {
				return "", errQuotes
			}
			return line, nil
		}
		c, length := line[0], 1
		if quote == '"' {
			c, length = unescape(line)
		} else if strings.HasPrefix(line, `\'`) {
			c, length = '\'', 2
		}
		plain.WriteByte(c)
		line = line[length:]
	}
	return "", errQuotes
}

var (
	escapes   = map[byte]byte{'n': '\n', 'r': '\r', 't': '\t', 'b': '\b', 'a': '\a'}
	unescapes = map[byte]byte{'\n': 'n', '\r': 'r', '\t': 't', '\b': 'b', '\a': 'a', '\\': '\\', '"': '"'}
)

// unescape reads one byte of a text between double quotes, and tells how many bytes stood for it.
func unescape(line string) (c byte, length int) {
	if line[0] != '\\' || len(line) == 1 {
		return line[0], 1
	}
	if line[1] == 'x' && len(line) >= 4 {
		if decoded, err := hex.DecodeString(line[2:4]); err == nil {
			return decoded[0], 4
		}
	}
	if escaped, ok := escapes[line[1]]; ok {
		return escaped, 2
	}
	return line[1], 2
}

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
