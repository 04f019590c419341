package migrate

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// askedCommands knows where keys stand in commands of ours, and asks a server about others.
type askedCommands struct {
	own    Commands
	server *redis.Client
	asked  map[string]*redis.CommandInfo // nil for what the server doesn't know
}

// Commands tells where keys stand in commands that own or else the target knows.
func (t *Target) Commands(own Commands) Commands { return &askedCommands{own: own, server: t.client} }

// Keys appends the positions of a command's keys.
func (c *askedCommands) Keys(dst []KeyPosition, args [][]byte) ([]KeyPosition, bool, error) {
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

func (c *askedCommands) ask(name string) (*redis.CommandInfo, error) {
	all, err := c.server.Command(context.Background()).Result()
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

// find asks the server for the keys of one command, which only it can tell from other words.
func (c *askedCommands) find(args [][]byte) (keys []KeyPosition, err error) {
	words := []any{"COMMAND", "GETKEYS"}
	for _, word := range args {
		words = append(words, word)
	}
	names, err := c.server.Do(context.Background(), words...).StringSlice()
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
