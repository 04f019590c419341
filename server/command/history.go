package command

import (
	"kedis/internal/resp"
	"kedis/server/execute"
)

// histories are what COMMAND DOCS tells of the past, by full name. The facts are those of Redis's
// documentation.
type histories map[string]execute.History

// added is the history of what has got something in some versions: each with what it is.
func added(pairs ...string) execute.History {
	var h execute.History
	for i := 0; i < len(pairs); i += 2 {
		h.Changes = append(h.Changes, execute.Change{Version: pairs[i], Text: pairs[i+1]})
	}
	return h
}

// replaced is that of a command that shouldn't be used any more since a version.
func replaced(deprecated, by string, pairs ...string) execute.History {
	h := added(pairs...)
	h.Deprecated, h.ReplacedBy = deprecated, by
	return h
}

func keyHistories() histories {
	conditions := added("7.0.0", "Takes NX, XX, GT and LT.")
	restored := added("3.0.0", "Takes REPLACE.", "5.0.0", "Takes ABSTTL.", "5.0.0", "Takes IDLETIME and FREQ.")
	return histories{
		"exists":         added("3.0.3", "Takes several keys."),
		"expire":         conditions,
		"expireat":       conditions,
		"migrate":        added("3.0.0", "Takes COPY and REPLACE.", "3.0.6", "Takes KEYS.", "4.0.7", "Takes AUTH.", "6.0.0", "Takes AUTH2."),
		"pexpire":        conditions,
		"pexpireat":      conditions,
		"pttl":           added("2.8.0", "Answers -2 when there is no such key."),
		"renamenx":       added("3.2.0", "Is no error any more when both names are the same."),
		"restore":        restored,
		"restore-asking": {System: true, Changes: restored.Changes},
		"scan":           added("6.0.0", "Takes TYPE."),
		"ttl":            added("2.8.0", "Answers -2 when there is no such key."),
	}
}

func stringHistories() histories {
	return histories{
		"bitcount": added("7.0.0", "Takes BYTE and BIT."),
		"bitop":    added("8.2.0", "Takes DIFF, DIFF1, ANDOR and ONE."),
		"bitpos":   added("7.0.0", "Takes BYTE and BIT."),
		"getset":   replaced("6.2.0", "`SET` with the `!GET` argument"),
		"psetex":   replaced("2.6.12", "`SET` with the `PX` argument"),
		"set": added("2.6.12", "Takes EX, PX, NX and XX.", "6.0.0", "Takes KEEPTTL.", "6.2.0", "Takes GET, EXAT and PXAT.",
			"7.0.0", "Takes NX and GET together.", "8.4.0", "Takes IFEQ (as Valkey from 8.1 on), IFNE, IFDEQ and IFDNE."),
		"setex":  replaced("2.6.12", "`SET` with the `EX` argument"),
		"setnx":  replaced("2.6.12", "`SET` with the `NX` argument"),
		"substr": replaced("2.0.0", "`GETRANGE`"),
	}
}

func listHistories() histories {
	several := added("2.4.0", "Takes several elements.")
	counted := added("6.2.0", "Takes a count.")
	fractions := added("6.0.0", "Takes a timeout with a fraction.")
	return histories{
		"blpop":      fractions,
		"brpop":      fractions,
		"brpoplpush": replaced("6.2.0", "`BLMOVE` with the `RIGHT` and `LEFT` arguments", "6.0.0", "Takes a timeout with a fraction."),
		"lpop":       counted,
		"lpush":      several,
		"lpushx":     added("4.0.0", "Takes several elements."),
		"rpop":       counted,
		"rpoplpush":  replaced("6.2.0", "`LMOVE` with the `RIGHT` and `LEFT` arguments"),
		"rpush":      several,
		"rpushx":     added("4.0.0", "Takes several elements."),
	}
}

func hashAndSetHistories() histories {
	return histories{
		"hdel":        added("2.4.0", "Takes several fields."),
		"hmset":       replaced("4.0.0", "`HSET` with multiple field-value pairs"),
		"hset":        added("4.0.0", "Takes several fields and values."),
		"hsetex":      added("9.0.0", "Takes NX and XX, in Valkey."),
		"sadd":        added("2.4.0", "Takes several members."),
		"spop":        added("3.2.0", "Takes a count."),
		"srandmember": added("2.6.0", "Takes a count."),
		"srem":        added("2.4.0", "Takes several members."),
	}
}

func sortedSetHistories() histories {
	fractions := added("6.0.0", "Takes a timeout with a fraction.")
	counts := added("8.8.0", "Takes COUNT.")
	return histories{
		"bzpopmax": fractions,
		"bzpopmin": fractions,
		"zadd": added("2.4.0", "Takes several members.", "3.0.2", "Takes XX, NX, CH and INCR.",
			"6.2.0", "Takes GT and LT."),
		"zinter":           counts,
		"zinterstore":      counts,
		"zrange":           added("6.2.0", "Takes REV, BYSCORE, BYLEX and LIMIT."),
		"zrangebylex":      replaced("6.2.0", "`ZRANGE` with the `BYLEX` argument"),
		"zrangebyscore":    replaced("6.2.0", "`ZRANGE` with the `BYSCORE` argument", "2.0.0", "Takes WITHSCORES."),
		"zrank":            added("7.2.0", "Takes WITHSCORE."),
		"zrem":             added("2.4.0", "Takes several members."),
		"zrevrange":        replaced("6.2.0", "`ZRANGE` with the `REV` argument"),
		"zrevrangebylex":   replaced("6.2.0", "`ZRANGE` with the `REV` and `BYLEX` arguments"),
		"zrevrangebyscore": replaced("6.2.0", "`ZRANGE` with the `REV` and `BYSCORE` arguments", "2.1.6", "Takes bounds that are left out."),
		"zrevrank":         added("7.2.0", "Takes WITHSCORE."),
		"zunion":           counts,
		"zunionstore":      counts,
	}
}

func geoHistories() histories {
	return histories{
		"geoadd": added("6.2.0", "Takes CH, NX and XX."),
		"georadius": replaced("6.2.0", "`GEOSEARCH` and `GEOSEARCHSTORE` with the `BYRADIUS` argument",
			"6.2.0", "Takes ANY.", "7.0.0", "Takes units in capitals."),
		"georadius_ro": replaced("6.2.0", "`GEOSEARCH` with the `BYRADIUS` argument", "6.2.0", "Takes ANY."),
		"georadiusbymember": replaced("6.2.0", "`GEOSEARCH` and `GEOSEARCHSTORE` with the `BYRADIUS` and `FROMMEMBER` arguments",
			"7.0.0", "Takes units in capitals."),
		"georadiusbymember_ro": replaced("6.2.0", "`GEOSEARCH` with the `BYRADIUS` and `FROMMEMBER` arguments"),
		"geosearch":            added("7.0.0", "Takes units in capitals.", "9.0.0", "Takes BYPOLYGON, in Valkey."),
		"geosearchstore":       added("7.0.0", "Takes units in capitals.", "9.0.0", "Takes BYPOLYGON, in Valkey."),
	}
}

func streamHistories() histories {
	return histories{
		"xadd": added("6.2.0", "Takes NOMKSTREAM, MINID and LIMIT.", "7.0.0", "Takes ids whose sequence number is to be given.",
			"8.2.0", "Takes KEEPREF, DELREF and ACKED."),
		"xautoclaim":      added("7.0.0", "Tells which entries are gone, and no longer pending."),
		"xpending":        added("6.2.0", "Takes IDLE, and ids that are left out."),
		"xrange":          added("6.2.0", "Takes ids that are left out."),
		"xread":           added("7.4.0", "Takes + for the last entry."),
		"xreadgroup":      added("8.4.0", "Takes CLAIM."),
		"xrevrange":       added("6.2.0", "Takes ids that are left out."),
		"xsetid":          added("7.0.0", "Takes ENTRIESADDED and MAXDELETEDID."),
		"xtrim":           added("6.2.0", "Takes MINID and LIMIT.", "8.2.0", "Takes KEEPREF, DELREF and ACKED."),
		"xgroup|create":   added("7.0.0", "Takes ENTRIESREAD."),
		"xgroup|setid":    added("7.0.0", "Takes ENTRIESREAD."),
		"xinfo|consumers": added("7.2.0", "Tells for how long a consumer has got nothing."),
		"xinfo|groups":    added("7.0.0", "Tells how many entries were read, and how many are to be."),
		"xinfo|stream": added("6.0.0", "Takes FULL.", "7.0.0", "Tells what was deleted, added and read.",
			"7.2.0", "Tells when a consumer was active."),
	}
}

func connectionHistories() histories {
	return histories{
		"auth":  added("6.0.0", "Takes a user name."),
		"hello": added("6.2.0", "May be called without a version, and tells of the connection then."),
		"quit":  replaced("7.2.0", "just closing the connection"),
		"client|kill": added("2.8.12", "Takes filters.", "2.8.12", "Takes ID.", "3.2.0", "Takes the type master.",
			"5.0.0", "Takes the type replica, for which slave is still taken.", "6.2.0", "Takes LADDR.", "7.4.0", "Takes MAXAGE."),
		"client|list": added("2.8.12", "Tells the id.", "5.0.0", "Takes TYPE.", "6.0.0", "Tells the user.",
			"6.2.0", "Tells argv-mem, tot-mem, laddr and redir, and takes ID.", "7.0.0", "Tells resp, multi-mem, rbs and rbp.", "7.0.3", "Tells ssub."),
		"client|pause": added("6.2.0", "Takes WRITE and ALL."),
		"acl|getuser":  added("6.2.0", "Tells patterns of channels.", "7.0.0", "Tells selectors, and patterns as rules."),
		"acl|log":      added("7.2.0", "Tells of an entry's id, and when it was made and last changed."),
		"acl|setuser":  added("6.2.0", "Takes patterns of channels.", "7.0.0", "Takes selectors and permissions by key."),
	}
}

func serverHistories() histories {
	modes := added("4.0.0", "Takes ASYNC.", "6.2.0", "Takes SYNC.")
	system := execute.History{System: true}
	return histories{
		"bgsave":         added("3.2.2", "Takes SCHEDULE."),
		"command|info":   added("7.0.0", "May be called without names, and tells of all commands then."),
		"config|get":     added("7.0.0", "Takes several patterns."),
		"config|set":     added("7.0.0", "Takes several options."),
		"debug":          system,
		"flushall":       modes,
		"flushdb":        modes,
		"info":           added("7.0.0", "Takes several sections."),
		"pfdebug":        system,
		"pfselftest":     system,
		"replconf":       system,
		"script|flush":   added("6.2.0", "Takes ASYNC and SYNC."),
		"shutdown":       added("7.0.0", "Takes NOW, FORCE and ABORT."),
		"slaveof":        replaced("5.0.0", "`REPLICAOF`"),
		"slowlog|get":    added("4.0.0", "Tells the client's address and name."),
		"cluster|meet":   added("4.0.0", "Takes the port of the cluster's bus."),
		"cluster|slaves": replaced("5.0.0", "`CLUSTER REPLICAS`"),
		"cluster|slots": replaced("7.0.0", "`CLUSTER SHARDS`", "4.0.0", "Tells the ids of nodes.",
			"7.0.0", "Tells other addresses of nodes."),
	}
}

// remember gives commands their histories. A history of no command is a mistake of ours.
func remember(t *Table) {
	for _, family := range []histories{keyHistories(), stringHistories(), listHistories(), hashAndSetHistories(), sortedSetHistories(),
		geoHistories(), streamHistories(), connectionHistories(), serverHistories()} {
		for name, h := range family {
			c := t.Named([]byte(name))
			if c == nil {
				panic("command: there is a history of " + name + ", but no such command")
			}
			c.History = h
		}
	}
}

func historyFlags(h *execute.History) []string {
	switch {
	case h.Deprecated != "":
		return []string{"deprecated"}
	case h.System:
		return []string{"syscmd"}
	}
	return nil
}

// writeHistory writes the fields of COMMAND DOCS that tell of a command's past, and returns how
// many there are.
func writeHistory(h *execute.History, w *resp.Writer) (fields int) {
	if flags := historyFlags(h); len(flags) > 0 {
		w.BulkString("doc_flags")
		writeNames(w, "", flags)
		fields++
	}
	if h.Deprecated != "" {
		w.BulkString("deprecated_since")
		w.BulkString(h.Deprecated)
		w.BulkString("replaced_by")
		w.BulkString(h.ReplacedBy)
		fields += 2
	}
	if len(h.Changes) > 0 {
		w.BulkString("history")
		w.Set(len(h.Changes))
		for _, c := range h.Changes {
			w.Array(2)
			w.BulkString(c.Version)
			w.BulkString(c.Text)
		}
		fields++
	}
	return fields
}
