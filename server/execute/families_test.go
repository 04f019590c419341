package execute_test

import (
	"kedis/server/command"
	"kedis/server/execute"
)

func init() { execute.SetFamilies(command.NewEngine) }
