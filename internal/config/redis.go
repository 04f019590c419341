package config

import "strings"

// without are options of Redis that Kedis doesn't have. A name that ends with * stands for all that begin with it.
type without struct {
	why   string
	names string
}

// withoutList is for those who start Kedis with Redis's configuration file.
var withoutList = []without{
	{"data and log are in dir, and need neither RDB files nor AOFs; see appendfsync, binlog-* and checkpoint-*",
		`dbfilename rdb* stop-writes-on-bgsave-error appendfilename appenddirname auto-aof-* aof* no-appendfsync-on-rewrite sanitize-dump-payload`},
	{"what replicas that come back can read of the log is set by binlog-retention-size and binlog-retention-age", "repl-backlog-*"},
	{"replication goes on from the log, and needs no such choice",
		`repl-diskless-* repl-disable-tcp-nodelay replica-lazy-flush slave-lazy-flush replica-ignore-* slave-ignore-* propagation-error-behavior`},
	{"keys are never evicted, and memory is set by memory-tier and rocksdb-block-cache",
		`maxmemory-* lfu-* lazyfree-* active-defrag-* activedefrag tracking-table-max-keys`},
	{"there is one thread for each of reactors", "io-threads*"},
	{"there is no TLS", "tls-*"},
	{"there is no cluster", "cluster-*"},
	{"there are no scripts", "lua-* busy-reply-threshold"},
	{"there are no streams", "stream-*"},
	{"there are no modules", "loadmodule enable-module-command"},
	{"there are no keyspace notifications", "notify-keyspace-events"},
	{"there is no user but default, whose password is requirepass", "user aclfile acl-pubsub-default"},
	{"commands can't be renamed", "rename-command"},
	{"large lists have a record for each element", "list-compress-depth"},
	{"see bind and replica-announce-ip", "bind-source-addr socket-mark-id"},
	{"how the process runs is for systemd, a container or the shell to say; see logfile and log-format", `supervised syslog-* set-proc-title
		proc-title-template always-show-logo oom-score-adj* disable-thp crash-* server_cpulist bio_cpulist aof_rewrite_cpulist bgsave_cpulist
		jemalloc-bg-thread ignore-warnings shutdown-* locale-collate`},
	{"background work has a rhythm of its own; see hz and active-expire-effort", "dynamic-hz activerehashing"},
}

// whyWithout tells why an option of Redis is none here; empty for other names.
func whyWithout(name string) string {
	name = strings.ToLower(name)
	for _, w := range withoutList {
		for other := range strings.FieldsSeq(w.names) {
			prefix, many := strings.CutSuffix(other, "*")
			if name == other || many && strings.HasPrefix(name, prefix) {
				return w.why
			}
		}
	}
	return ""
}
