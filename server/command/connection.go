package command

import "kedis/internal/number"

func connectionFamily() Family {
	return Family{Commands: []Command{
		{Name: "ping", Arity: -1, Flags: Fast, Categories: CategoryConnection, Run: cmdPing,
			Group: "connection", Since: "1.0.0", Complexity: "O(1)", Syntax: "[message]",
			Summary: "Answers PONG, or the message."},
		{Name: "select", Arity: 2, Flags: Loading | Stale | Fast, Categories: CategoryConnection, Run: cmdSelect, selects: true,
			Group: "connection", Since: "1.0.0", Complexity: "O(1)", Syntax: "index",
			Summary: "Changes the selected database."},
	}}
}

func cmdPing(c *Context) error {
	switch len(c.Args) {
	case 1:
		c.Reply.SimpleString("PONG")
	case 2:
		c.Reply.Bulk(c.Args[1])
	default:
		return wrongArity("ping")
	}
	return nil
}

func cmdSelect(c *Context) error {
	index, ok := number.ParseInt(c.Args[1])
	if !ok {
		return Error("ERR value is not an integer or out of range")
	}
	if index < 0 || index >= int64(c.Engine.Store.Databases()) {
		return ErrDBIndex
	}
	c.Select(int(index))
	c.Reply.OK()
	return nil
}
