package execute

import "strings"

// HelpRow is a container's HELP: lines that begin with the subcommand's words and, indented by four
// spaces, say what it does.
func HelpRow(container, since string, flags Flags, categories Categories, lines ...string) Command {
	text := append([]string{strings.ToUpper(container) + " <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"}, lines...)
	text = append(text, "HELP", "    Prints this help.")
	return Command{Name: "help", Arity: 2, Flags: flags, Categories: categories, Since: since, Complexity: "O(1)",
		Summary: "Describes the subcommands.", Run: func(c *Invocation) error {
			return c.ReplyHelp(text)
		}}
}

// ReplyHelp replies lines of text.
func (c *Invocation) ReplyHelp(lines []string) error {
	c.Reply.Array(len(lines))
	for _, line := range lines {
		c.Reply.SimpleString(line)
	}
	return nil
}

// Misused is what Redis says when a subcommand finds a number of words that it can't do with.
func (c *Invocation) Misused() error {
	return Errorf("ERR unknown subcommand or wrong number of arguments for '%s'. Try %s HELP.", Clip(c.Args[1], 128),
		strings.ToUpper(c.Command.Parent().Name))
}
