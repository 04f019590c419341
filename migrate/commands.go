package migrate

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// sourceCommands knows where keys stand in commands of ours, and asks the source about others.
type sourceCommands struct {
	own    Commands
	source *redis.Client
	asked  map[string]*redis.CommandInfo // nil for what the source doesn't know
}

// Keys appends the positions of a command's keys.
func (c *sourceCommands) Keys(dst []KeyPosition, args [][]byte) ([]KeyPosition, bool, error) {
	keys, known, err := c.own.Keys(dst, args)
	if known || err != nil {
		return keys, known, err
	}
	name := strings.ToLower(string(args[0]))
	info, asked := c.asked[name]
	if !asked {
		if info, err = c.ask(name); err != nil {
			return nil, false, err
		}
	}
	switch {
	case info == nil:
		return nil, false, nil
	case info.FirstKeyPos == 0, slices.Contains(info.Flags, "movablekeys"):
		keys, err := c.find(args)
		return append(dst, keys...), true, err
	}
	last := int(info.LastKeyPos)
	if last < 0 {
		last += len(args)
	}
	for i := int(info.FirstKeyPos); i <= last && i < len(args) && info.StepCount > 0; i += int(info.StepCount) {
		dst = append(dst, KeyPosition{Index: i})
	}
	return dst, true, nil
}

func (c *sourceCommands) ask(name string) (*redis.CommandInfo, error) {
	all, err := c.source.Command(context.Background()).Result()
	if err != nil {
		return nil, fmt.Errorf("COMMAND: %w", err)
	}
	if c.asked == nil {
		c.asked = map[string]*redis.CommandInfo{}
	}
	for known, info := range all {
		c.asked[known] = info
	}
	info := all[name]
	c.asked[name] = info
	return info, nil
}

// find asks the source for the keys of one command, whose places only it can tell.
func (c *sourceCommands) find(args [][]byte) (keys []KeyPosition, err error) {
	words := []any{"COMMAND", "GETKEYS"}
	for _, word := range args {
		words = append(words, word)
	}
	names, err := c.source.Do(context.Background(), words...).StringSlice()
	if err != nil {
		return nil, fmt.Errorf("COMMAND GETKEYS: %w", err)
	}
	from := 1
	for _, name := range names {
		for i := from; i < len(args); i++ {
			if string(args[i]) == name {
				keys = append(keys, KeyPosition{Index: i})
				from = i + 1
				break
			}
		}
	}
	return keys, nil
}
