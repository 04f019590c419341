package config

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"kedis/internal/number"
)

// withoutEffect lists options of Redis that are taken, since files for Redis have them, and that
// change nothing here. They promise nothing that Kedis doesn't keep: what promises more stands in
// fixed, and takes one value. Types, limits and defaults are Redis's.
func (c *Config) withoutEffect() []*option {
	return slices.Concat(withoutRDB(), withoutEviction(), withoutReplicationChoices(), withoutCluster(), withoutTLSChoices(), withoutParts(), withoutProcessChoices())
}

// inert makes an option that has no effect.
func inert[T any](name string, k kind[T], initial string, when when, why string) *option {
	o := row(name, new(Value[T]), k, initial, when, why)
	o.inert = true
	return o
}

// inertAll makes several of one kind.
func inertAll[T any](k kind[T], initial string, when when, why, names string) (options []*option) {
	for name := range strings.FieldsSeq(names) {
		options = append(options, inert(name, k, initial, when, why))
	}
	return options
}

func withoutRDB() []*option {
	const (
		directory = "Data and log are in dir, and have other files."
		log       = "The log of writes is not rewritten. See binlog-retention-size and persist-log-size."
		always    = "The log of writes is always kept."
	)
	return slices.Concat(
		[]*option{
			inert("appendonly", yesNo(), "yes", live, always),
			inert("save", savePoints(), "", live, "Every write is on disk with the log. SAVE and BGSAVE make checkpoints.").gather(),
			inert("dbfilename", fileName(true), "dump.rdb", atStart, directory),
			inert("appendfilename", fileName(false), "appendonly.aof", atStart, directory),
			inert("appenddirname", fileName(false), "appendonlydir", atStart, directory),
			inert("stop-writes-on-bgsave-error", yesNo(), "yes", live, "Writes are refused when the log can't take them, whatever becomes of a checkpoint."),
			inert("rdbcompression", yesNo(), "yes", live, "There are no RDB files. See rocksdb-compression."),
			inert("rdbchecksum", yesNo(), "yes", atStart, "There are no RDB files. RocksDB's files and the log always have checksums."),
			inert("sanitize-dump-payload", named("no", "yes", "clients"), "no", live, "What RESTORE and a full synchronization bring is always checked."),
			inert("auto-aof-rewrite-percentage", integer(0, mostInt, ""), "100", live, log),
			inert("auto-aof-rewrite-min-size", size(0, unlimited), "64mb", live, log),
			inert("aof-use-rdb-preamble", yesNo(), "yes", live, log),
			inert("aof-rewrite-incremental-fsync", yesNo(), "yes", live, log),
			inert("rdb-save-incremental-fsync", yesNo(), "yes", live, "There are no RDB files."),
			inert("aof-timestamp-enabled", yesNo(), "no", live, "Each record of the log has its time."),
		},
		inertAll(yesNo(), "no", live, log, "no-appendfsync-on-rewrite aof-disable-auto-gc"),
		inertAll(yesNo(), "no", live, "A replica keeps no RDB file.", "rdb-del-sync-files"),
	)
}

func withoutEviction() []*option {
	const (
		never    = "Keys are never evicted."
		memory   = "What is deleted is freed in the background."
		defrag   = "Memory is not defragmented."
		defrags  = "active-defrag-threshold-lower"
		fraction = "active-defrag-cycle-min"
	)
	return slices.Concat(
		[]*option{
			inert("maxmemory-samples", integer(1, mostInt, ""), "5", live, never),
			inert("maxmemory-eviction-tenacity", integer(0, 100, ""), "10", live, never),
			inert("active-defrag-ignore-bytes", size(1, unlimited), "100mb", live, defrag),
			inert(defrags, integer(0, 1000, "percent"), "10", live, defrag),
			inert("active-defrag-threshold-upper", integer(0, 1000, "percent"), "100", live, defrag),
			inert(fraction, integer(1, 99, "percent"), "1", live, defrag),
			inert("active-defrag-cycle-max", integer(1, 99, "percent"), "25", live, defrag),
			inert("active-defrag-max-scan-fields", integer(1, unlimited, "fields"), "1000", live, defrag),
		},
		inertAll(yesNo(), "no", live, memory,
			"lazyfree-lazy-eviction lazyfree-lazy-expire lazyfree-lazy-server-del lazyfree-lazy-user-del lazyfree-lazy-user-flush"),
		[]*option{inert("replica-lazy-flush", yesNo(), "no", live, memory).or("slave-lazy-flush")},
	)
}

func withoutReplicationChoices() []*option {
	const (
		backlog = "What replicas that come back can read of the log is set by binlog-retention-size and binlog-retention-age."
		sync    = "A full synchronization begins at once, and each replica has its own."
	)
	return []*option{
		inert("repl-backlog-size", clamped(size(1, unlimited), 16*kb, unlimited), "1mb", live, backlog),
		inert("repl-backlog-ttl", integer(0, unlimited, "seconds"), "3600", live, backlog),
		inert("repl-diskless-sync-delay", integer(0, mostInt, "seconds"), "5", live, sync),
		inert("repl-diskless-sync-max-replicas", integer(0, mostInt, "replicas"), "0", live, sync),
		inert("repl-diskless-load", named("disabled", "on-empty-db", "swapdb"), "disabled", live,
			"A replica loads a snapshot as it comes, beside the data that it has."),
		inert("repl-disable-tcp-nodelay", yesNo(), "no", live, "Replicas get writes without delay."),
		inert("replica-ignore-maxmemory", yesNo(), "yes", live, "There is no maxmemory.").or("slave-ignore-maxmemory"),
		inert("propagation-error-behavior", named("ignore", "panic", "panic-on-replicas"), "ignore", live,
			"A replica that can't apply a write stops there, says so in its log, and synchronizes anew."),
		inert("shutdown-timeout", integer(0, mostInt, "seconds"), "10", live,
			"A server that ends doesn't wait for replicas. They go on from the log when it is back."),
	}
}

func withoutCluster() []*option {
	const why = "There is no cluster, and cluster-enabled is always no."
	yes := "cluster-require-full-coverage cluster-allow-replica-migration cluster-allow-pubsubshard-when-down"
	return slices.Concat(
		inertAll(yesNo(), "yes", live, why, yes),
		inertAll(yesNo(), "no", live, why, "cluster-allow-reads-when-down"),
		inertAll(integer(0, 65535, ""), "0", live, why, "cluster-announce-port cluster-announce-bus-port cluster-announce-tls-port"),
		inertAll(untilNUL("a name or an address, or nothing"), "", live, why, "cluster-announce-ip"),
		[]*option{
			inert("cluster-announce-hostname", hostname(), "", live, why),
			inert("cluster-config-file", anyText("a file name"), "nodes.conf", atStart, why),
			inert("cluster-port", integer(0, 65535, ""), "0", atStart, why),
			inert("cluster-node-timeout", integer(0, unlimited, "milliseconds"), "15000", live, why),
			inert("cluster-migration-barrier", integer(0, mostInt, "replicas"), "1", live, why),
			inert("cluster-replica-validity-factor", integer(0, mostInt, ""), "10", live, why).or("cluster-slave-validity-factor"),
			inert("cluster-replica-no-failover", yesNo(), "no", live, why).or("cluster-slave-no-failover"),
			inert("cluster-link-sendbuf-limit", anySize(), "0", live, why),
			inert("cluster-preferred-endpoint-type", named("ip", "hostname", "unknown-endpoint"), "ip", live, why),
		},
	)
}

func withoutTLSChoices() []*option {
	return []*option{
		inert("tls-prefer-server-ciphers", yesNo(), "no", live, "Of what both sides have, Go's crypto/tls takes the cipher suite that comes first in its own order."),
		inert("tls-session-cache-size", integer(0, mostInt, "sessions"), "20480", live, "Clients keep their sessions, as tickets. See tls-session-caching."),
		inert("tls-dh-params-file", untilNUL("a path, or nothing"), "", live, "Keys are agreed upon by elliptic curves (ECDHE) or RSA."),
	}
}

func withoutParts() []*option {
	return []*option{
		inert("list-compress-depth", integer(0, mostInt, "elements"), "0", live, "A large list has a record for each element, or for some neighbouring ones. See rocksdb-compression."),
		inert("io-threads", integer(1, 128, "threads"), "1", atStart, "See reactors."),
		inert("io-threads-do-reads", yesNo(), "no", atStart, "See reactors."),
		inert("dynamic-hz", yesNo(), "yes", live, "Background work has a rhythm of its own. See active-expire-effort."),
		inert("activerehashing", yesNo(), "yes", live, "There are no such hash tables."),
	}
}

func withoutProcessChoices() []*option {
	const (
		title  = "The process's title is its command line."
		syslog = "There is no logging to syslog. See logfile."
		crash  = "A crash is always reported with the stacks of all goroutines, on standard error and in logfile."
	)
	return []*option{
		inert("always-show-logo", yesNo(), "no", atStart, "There is no logo."),
		inert("set-proc-title", yesNo(), "yes", atStart, title),
		inert("proc-title-template", titleTemplate(), "{title} {listen-addr} {server-mode}", live, title),
		inert("syslog-ident", anyText("a name"), "redis", atStart, syslog),
		inert("syslog-facility", named("user", "local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7"), "local0", atStart, syslog),
		inert("crash-log-enabled", yesNo(), "yes", live, crash),
		inert("crash-memcheck-enabled", yesNo(), "yes", live, crash),
		inert("oom-score-adj-values", scoreAdjustments(), "0 200 800", live, "oom-score-adj is always no."),
		inert("disable-thp", yesNo(), "yes", atStart, "Large pages are used where they help, and nothing forks."),
		inert("jemalloc-bg-thread", yesNo(), "yes", live, "Memory is Go's and RocksDB's."),
		inert("ignore-warnings", untilNUL("a list of warnings"), "", live, "There are no such warnings."),
		inert("bgsave_cpulist", anyText("a list of processors"), "", atStart, "Nothing forks."),
		inert("aof_rewrite_cpulist", anyText("a list of processors"), "", atStart, "Nothing forks."),
	}
}

// fixed are options of Redis that promise something which Kedis holds with one value only.
func (c *Config) fixed() []*option {
	const (
		noPinning = "Kedis binds no threads to processors; see taskset, or CPUAffinity of systemd"
	)
	return []*option{
		fixed("maxmemory", "0", "the data is on disk; see memory-tier and rocksdb-block-cache for what memory is used",
			"There is no limit on the data's size."),
		fixed("maxmemory-clients", "0", "clients are disconnected by client-output-buffer-limit and client-query-buffer-limit only",
			"There is no limit on what all clients take together."),
		fixed("activedefrag", "no", "memory is not defragmented", "Memory is not defragmented."),
		fixed("aof-load-truncated", "yes", "a record that a crash has cut short is always cut off, and the log says so",
			"A start goes on when a crash has cut the log's last record short."),
		fixed("replica-ignore-disk-write-errors", "no", "a replica's log is its data", "A replica stops when it can't write."),
		fixedAtStart("cluster-enabled", "no", "there is no cluster", "The server is no node of a cluster."),
		fixed("tls-cluster", "no", "there is no cluster, and no bus between its nodes that TLS could protect", "The bus of a cluster has no TLS."),
		fixedAtStart("enable-module-command", "no", "there are no modules", "There are no modules."),
		fixed("bind-source-addr", "", "outgoing connections come from the address that the system chooses",
			"Where connections to a primary come from."),
		fixedAtStart("socket-mark-id", "0", "sockets are not marked", "Sockets are not marked."),
		fixedAtStart("syslog-enabled", "no", "there is no logging to syslog; standard output goes to the journal under systemd, and see logfile",
			"The log goes to standard output or to logfile."),
		fixed("oom-score-adj", "no", "Kedis leaves that to the system; see OOMScoreAdjust of systemd", "The kernel's preference for victims stays as it is."),
		fixed("shutdown-on-sigint", "default", "a signal makes no checkpoint, and delays nothing", "What SIGINT does: the server ends in order."),
		fixed("shutdown-on-sigterm", "default", "a signal makes no checkpoint, and delays nothing", "What SIGTERM does: the server ends in order."),
		fixedAtStart("server_cpulist", "", noPinning, "Threads run on any processor."),
		fixedAtStart("bio_cpulist", "", noPinning, "Threads run on any processor."),
		fixed("locale-collate", "", "text is sorted by its bytes", "How SORT ALPHA compares."),
	}
}

// fileName is a name without a path.
func fileName(mayBeEmpty bool) kind[string] {
	k := anyText("a file name without a path")
	k.parse = func(text, _ string) (string, error) {
		switch {
		case text == "" && !mayBeEmpty:
			return "", reason("the name can't be empty")
		case strings.ContainsAny(text, `/\`):
			return "", reason("the name can't be a path")
		}
		return text, nil
	}
	return k
}

// savePoint is a pair of Redis's save.
type savePoint struct{ seconds, changes int64 }

// savePoints are pairs of seconds and changes.
func savePoints() kind[[]savePoint] {
	show := func(p savePoint) string { return fmt.Sprint(p.seconds, " ", p.changes) }
	all := func(points []savePoint) (texts []string) {
		for _, p := range points {
			texts = append(texts, show(p))
		}
		return texts
	}
	return kind[[]savePoint]{
		expects: "pairs of seconds and a number of changes, or nothing",
		list:    true,
		parse:   parseSavePoints,
		show:    func(points []savePoint) string { return strings.Join(all(points), " ") },
		write: func(points []savePoint) []string {
			if len(points) == 0 {
				return []string{`""`}
			}
			return all(points)
		},
	}
}

func parseSavePoints(text string, _ []savePoint) (points []savePoint, err error) {
	if text == "" {
		return nil, nil
	}
	const invalid = reason("Invalid save parameters")
	words := strings.Split(text, " ")
	if len(words)%2 != 0 {
		return nil, invalid
	}
	for ; len(words) > 0; words = words[2:] {
		seconds, notSeconds := strconv.ParseInt(cmp.Or(words[0], "0"), 10, 64)
		changes, notChanges := strconv.ParseInt(cmp.Or(words[1], "0"), 10, 64)
		if notSeconds != nil || notChanges != nil || seconds < 1 || changes < 0 {
			return nil, invalid
		}
		points = append(points, savePoint{seconds, changes})
	}
	return points, nil
}

// scoreAdjustments are three numbers for the kernel's choice of victims.
func scoreAdjustments() kind[[]string] {
	k := words(3, "numbers")
	k.expects = "three numbers from -2000 to 2000"
	k.parse = func(text string, _ []string) ([]string, error) {
		list := strings.Split(text, " ")
		if len(list) != 3 {
			return nil, reason("wrong number of arguments")
		}
		for i, word := range list {
			n, err := strconv.ParseInt(cmp.Or(word, "0"), 10, 64)
			if err != nil || n < -2000 || n > 2000 {
				return nil, reason("Invalid oom-score-adj-values, elements must be between -2000 and 2000.")
			}
			list[i] = strconv.FormatInt(n, 10)
		}
		return list, nil
	}
	return k
}

// titleVariables are those of proc-title-template, and whether they always stand for something.
var titleVariables = map[string]bool{"listen-addr": true, "port": true, "tls-port": true,
	"title": false, "server-mode": false, "unixsocket": false, "config-file": false}

// titleTemplate is a text with variables in braces; {{ stands for a brace.
func titleTemplate() kind[string] {
	k := untilNUL("a text with variables such as {title}")
	parse := k.parse
	k.parse = func(text, base string) (string, error) {
		text, err := parse(text, base)
		if err == nil && !isTitleTemplate(text) {
			err = reason("template format is invalid or contains unknown variables")
		}
		return text, err
	}
	return k
}

// isTitleTemplate reports whether a text has known variables only and stands for more than spaces.
func isTitleTemplate(text string) bool {
	something := false
	for {
		before, after, found := strings.Cut(text, "{")
		something = something || strings.Trim(before, " ") != ""
		if !found {
			return something
		}
		if strings.HasPrefix(after, "{") {
			something, text = true, after[1:]
			continue
		}
		variable, rest, closed := strings.Cut(after, "}")
		stands, known := titleVariables[variable]
		if !closed || !known {
			return false
		}
		something, text = something || stands, rest
	}
}

// anySize is a number of bytes without a limit.
func anySize() kind[uint64] {
	return kind[uint64]{
		expects: "a size such as 512kb or 64mb",
		parse: func(text string, _ uint64) (uint64, error) {
			n, ok := number.ParseSize(text)
			if !ok {
				return 0, reason("argument must be a memory value")
			}
			return n, nil
		},
		show:  func(n uint64) string { return strconv.FormatUint(n, 10) },
		write: func(n uint64) []string { return []string{writeSize(n)} },
	}
}
