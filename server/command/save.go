package command

import (
	"errors"

	"kedis/server/execute"
)

func saveCommand() Command {
	return Command{Name: "save", Arity: 1, Flags: Admin | NoScript | NoAsyncLoading | NoMulti | Walk, Run: cmdSave,
		Group: "server", Since: "1.0.0", Complexity: "O(N) where N is the total number of keys in all databases",
		Summary: "Makes a checkpoint, and answers when it is complete. Nobody else waits."}
}

func bgSaveCommand() Command {
	return Command{Name: "bgsave", Arity: -1, Flags: Admin | NoScript | NoAsyncLoading | NoBatch, Run: cmdBgSave,
		Group: "server", Since: "1.0.0", Complexity: "O(1)", Syntax: "[SCHEDULE]",
		Summary: "Makes a checkpoint in the background."}
}

func lastSaveCommand() Command {
	return Command{Name: "lastsave", Arity: 1, Flags: Loading | Stale | Fast, Categories: CategoryAdmin | CategoryDangerous, Run: cmdLastSave,
		Tips:  []string{"nondeterministic_output"},
		Group: "server", Since: "1.0.0", Complexity: "O(1)",
		Summary: "Returns when the last checkpoint was complete, as Unix time."}
}

// bgRewriteAOFCommand refuses: what AOF rewriting does for Redis, retention does here.
func bgRewriteAOFCommand() Command {
	c := refusal("bgrewriteaof", 1, Admin|NoScript|NoAsyncLoading, "1.0.0", "",
		"ERR Kedis rewrites no append only file: binlog-retention-size and binlog-retention-age say how much of the log is kept")
	c.Group = "server"
	return c
}

func cmdSave(c *Invocation) error {
	if err := c.Engine.Save(); err != nil {
		if errors.Is(err, execute.ErrSaving) {
			return err
		}
		return Errorf("ERR the checkpoint could not be made: %v", err)
	}
	c.Reply.OK()
	return nil
}

func cmdBgSave(c *Invocation) error {
	if len(c.Args) > 2 || len(c.Args) == 2 && !equalFold(c.Args[1], "schedule") {
		return ErrSyntax
	}
	if err := c.Engine.SaveInBackground(); err != nil {
		return err
	}
	c.Reply.SimpleString("Background saving started")
	return nil
}

func cmdLastSave(c *Invocation) error {
	c.Reply.Integer(c.Engine.Saves().Last.Unix())
	return nil
}
