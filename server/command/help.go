package command

import "strings"

// helpRow is a container's HELP: lines that begin with the subcommand's words and, indented by four
// spaces, say what it does.
func helpRow(container, since string, flags Flags, categories Categories, lines ...string) Command {
	text := append([]string{strings.ToUpper(container) + " <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"}, lines...)
	text = append(text, "HELP", "    Prints this help.")
	return Command{Name: "help", Arity: 2, Flags: flags, Categories: categories, Since: since, Complexity: "O(1)",
		Summary: "Describes the subcommands.", Run: func(c *Context) error {
			return c.replyHelp(text)
		}}
}

// replyHelp replies lines of text.
func (c *Context) replyHelp(lines []string) error {
	c.Reply.Array(len(lines))
	for _, line := range lines {
		c.Reply.SimpleString(line)
	}
	return nil
}

// misused is what Redis says when a subcommand finds a number of words that it can't do with.
func (c *Context) misused() error {
	return Errorf("ERR unknown subcommand or wrong number of arguments for '%s'. Try %s HELP.", clip(c.Args[1], 128),
		strings.ToUpper(c.Command.Parent().Name))
}
