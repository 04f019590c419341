package command

// clusterFamily has what clients of a Redis Cluster ask to find out whether the server is one:
// every request is refused as Redis refuses it when cluster-enabled is no.
func clusterFamily() Family {
	return Family{Commands: []Command{
		{Name: "cluster", Arity: -2, Group: "cluster", Since: "3.0.0", Complexity: "Depends on subcommand.",
			Summary:     "A container for commands on a Redis Cluster, which Kedis isn't.",
			Subcommands: append(clusterQuestions(), clusterChanges()...)},
		{Name: "readonly", Arity: 1, Flags: Loading | Stale | Fast, Categories: CategoryConnection, Run: refuseCluster,
			Group: "cluster", Since: "3.0.0", Complexity: "O(1)", Summary: noCluster},
		{Name: "readwrite", Arity: 1, Flags: Loading | Stale | Fast, Categories: CategoryConnection, Run: refuseCluster,
			Group: "cluster", Since: "3.0.0", Complexity: "O(1)", Summary: noCluster},
		{Name: "asking", Arity: 1, Flags: Fast, Categories: CategoryConnection, Run: refuseCluster,
			Group: "cluster", Since: "3.0.0", Complexity: "O(1)", Summary: noCluster},
	}}
}

// noCluster is the summary of all of them.
const noCluster = "Is refused: there is no cluster."

func refuseCluster(*Invocation) error { return Error("ERR This instance has cluster support disabled") }

// clusterQuestions are the subcommands of CLUSTER that ask.
func clusterQuestions() []Command {
	const ofNodes = "O(N) where N is the total number of Cluster nodes"
	unsure := []string{"nondeterministic_output"}
	ask := func(name string, arity int, since, complexity, syntax string, tips []string) Command {
		return Command{Name: name, Arity: arity, Flags: Stale, Since: since, Complexity: complexity, Syntax: syntax, Summary: noCluster,
			Tips: tips, Run: refuseCluster}
	}
	admin := func(c Command) Command {
		c.Flags |= Admin
		return c
	}
	help := ask("help", 2, "5.0.0", "O(1)", "", nil)
	help.Flags |= Loading
	return []Command{
		admin(ask("count-failure-reports", 3, "3.0.0", "O(N) where N is the number of failure reports", "node-id", unsure)),
		ask("countkeysinslot", 3, "3.0.0", "O(1)", "slot:integer", nil),
		ask("getkeysinslot", 4, "3.0.0", "O(log(N)) where N is the number of requested keys", "slot:integer count:integer", unsure),
		help,
		ask("info", 2, "3.0.0", "O(1)", "", unsure),
		ask("keyslot", 3, "3.0.0", "O(N) where N is the number of bytes in the key", "key:string", nil),
		ask("links", 2, "7.0.0", ofNodes, "", unsure),
		ask("myid", 2, "3.0.0", "O(1)", "", nil),
		ask("myshardid", 2, "7.2.0", "O(1)", "", unsure),
		ask("nodes", 2, "3.0.0", ofNodes, "", unsure),
		admin(ask("replicas", 3, "5.0.0", "O(1)", "node-id", unsure)),
		ask("shards", 2, "7.0.0", "O(N) where N is the total number of cluster nodes", "", unsure),
		admin(ask("slaves", 3, "3.0.0", "O(1)", "node-id", unsure)),
		ask("slots", 2, "3.0.0", ofNodes, "", unsure),
	}
}

// clusterChanges are the subcommands of CLUSTER that change something.
func clusterChanges() []Command {
	const ofSlots = "O(N) where N is the total number of hash slot arguments"
	const ofRanges = "O(N) where N is the total number of the slots between the start slot and end slot arguments."
	const slots = "slot:integer [slot:integer ...]"
	const ranges = "start-slot:integer end-slot:integer [start-slot:integer end-slot:integer ...]"
	change := func(name string, arity int, since, complexity, syntax string) Command {
		return Command{Name: name, Arity: arity, Flags: Admin | Stale | NoAsyncLoading, Since: since, Complexity: complexity, Syntax: syntax,
			Summary: noCluster, Run: refuseCluster}
	}
	bump := change("bumpepoch", 2, "3.0.0", "O(1)", "")
	bump.Tips = []string{"nondeterministic_output"}
	reset := change("reset", -2, "3.0.0", "O(N) where N is the number of known nodes. The command may execute a FLUSHALL as a side effect.",
		"[HARD | SOFT]")
	reset.Flags = Admin | NoScript | Stale
	return []Command{
		change("addslots", -3, "3.0.0", ofSlots, slots),
		change("addslotsrange", -4, "7.0.0", ofRanges, ranges),
		bump,
		change("delslots", -3, "3.0.0", ofSlots, slots),
		change("delslotsrange", -4, "7.0.0", ofRanges, ranges),
		change("failover", -2, "3.0.0", "O(1)", "[FORCE | TAKEOVER]"),
		change("flushslots", 2, "3.0.0", "O(1)", ""),
		change("forget", 3, "3.0.0", "O(1)", "node-id"),
		change("meet", -4, "3.0.0", "O(1)", "ip port:integer [cluster_bus_port:integer]"),
		change("replicate", 3, "3.0.0", "O(1)", "node-id"),
		reset,
		change("saveconfig", 2, "3.0.0", "O(1)", ""),
		change("set-config-epoch", 3, "3.0.0", "O(1)", "config-epoch:integer"),
		change("setslot", -4, "3.0.0", "O(1)", "slot:integer <IMPORTING node-id | MIGRATING node-id | NODE node-id | STABLE>"),
	}
}
