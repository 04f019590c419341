package binlog

import (
	"bytes"
	"errors"
	"fmt"
)

var errNotCommand = errors.New("not a whole RESP command")

// splitCommand takes one command, an array of bulk strings, off the front of data. It returns the
// command's arguments, appended to arguments, and what follows it. Line ends before the command,
// which fill a stream where something was left out, count with it.
func splitCommand(data []byte, arguments [][]byte) (command [][]byte, rest []byte, err error) {
	count, rest, ok := cutLength(bytes.TrimLeft(data, "\r\n"), '*')
	if !ok {
		return nil, nil, errNotCommand
	}
	for ; count > 0; count-- {
		length, text, ok := cutLength(rest, '$')
		if !ok || len(text)-2 < length || text[length] != '\r' || text[length+1] != '\n' {
			return nil, nil, errNotCommand
		}
		arguments = append(arguments, text[:length:length])
		rest = text[length+2:]
	}
	return arguments, rest, nil
}

// cutLength takes a line of a kind and a decimal length off the front of data.
func cutLength(data []byte, kind byte) (length int, rest []byte, ok bool) {
	if len(data) == 0 || data[0] != kind {
		return 0, nil, false
	}
	end := bytes.Index(data[:min(len(data), 24)], []byte("\r\n"))
	if end < 0 {
		return 0, nil, false
	}
	length, ok = decimal(data[1:end])
	return length, data[end+2:], ok
}

// decimal reads up to 18 digits, which never overflow.
func decimal(digits []byte) (int, bool) {
	if len(digits) == 0 || len(digits) > 18 {
		return 0, false
	}
	number := 0
	for _, digit := range digits {
		if digit < '0' || digit > '9' {
			return 0, false
		}
		number = number*10 + int(digit-'0')
	}
	return number, true
}

// selected tells which database a command selects, when it is a SELECT.
func selected(command [][]byte) (database int, ok bool) {
	if len(command) != 2 || !bytes.EqualFold(command[0], []byte("SELECT")) {
		return 0, false
	}
	return decimal(command[1])
}

// databaseAfter returns the database that is selected behind whole commands.
func databaseAfter(commands []byte, database int) (int, error) {
	var arguments [][]byte
	for rest := commands; len(rest) > 0; {
		command, after, err := splitCommand(rest, arguments[:0])
		if err != nil {
			return 0, fmt.Errorf("%d bytes into it: %w", len(commands)-len(rest), err)
		}
		if number, ok := selected(command); ok {
			database = number
		}
		arguments, rest = command, after
	}
	return database, nil
}

// wholeCommands returns the length of the whole commands at the front of data, without a
// transaction that doesn't end there.
func wholeCommands(data []byte) (length int) {
	var arguments [][]byte
	inside := false // of a transaction
	for rest := data; len(rest) > 0; {
		command, after, err := splitCommand(rest, arguments[:0])
		if err != nil {
			return length
		}
		arguments, rest = command, after
		inside = !named(command, "EXEC") && (inside || named(command, "MULTI"))
		if !inside {
			length = len(data) - len(rest)
		}
	}
	return length
}

func named(command [][]byte, name string) bool {
	return len(command) > 0 && bytes.EqualFold(command[0], []byte(name))
}
