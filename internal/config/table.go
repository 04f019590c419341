package config

import (
	"math"
	"time"
)

const (
	kb = 1 << 10
	mb = 1 << 20
	gb = 1 << 30

	unlimited = math.MaxInt64
	mostInt   = math.MaxInt32 // what Redis keeps in a C int
	leastInt  = math.MinInt32
	mostSize  = 1 << 40
	mostAge   = 10 * 365 * 24 * time.Hour
)

// table lists all options. Names, limits and defaults are Redis's where Redis has the option and
// nothing else is said. memory is the machine's, in bytes.
func (c *Config) table(memory int64) []group {
	return []group{
		{"Network", c.network()},
		{"TLS", c.tls()},
		{"Process", c.process()},
		{"Clients", withSecretFiles(c.clients())},
		{"Scripts", c.scripts()},
		{"Observation", c.observation()},
		{"The log of writes", c.binlog()},
		{"Replication", withSecretFiles(c.replication())},
		{"Checkpoints", c.checkpoints()},
		{"Memory in front of RocksDB", c.memoryTier(memory)},
		{"RocksDB", c.rocksdb(memory)},
		{"Expiry", c.expiry()},
		{"When collections are packed", c.packing()},
		{"Options of Redis that have one value here", c.fixed()},
		{"Options of Redis that are accepted without effect", c.withoutEffect()},
	}
}

func (c *Config) network() []*option {
	return []*option{
		row("bind", &c.Bind, words(16, "addresses"), "* -::*", atStart,
			`The addresses to listen on. * is every IPv4 address and ::* every IPv6 address; a minus before
			an address says that the server may go on without it.`),
		row("port", &c.Port, integer(0, 65535, ""), "6379", atStart,
			`The TCP port to listen on. 0 is none if there is a tls-port or a unixsocket, and else a free one that the
			system chooses; the log tells which.`),
		row("unixsocket", &c.UnixSocket, anyText("a path, or nothing"), "", atStart,
			`The Unix socket to listen on, besides the addresses. Empty is none. A relative path starts at the
			directory that the server was started in. A socket that a killed server has left there is replaced.`),
		row("unixsocketperm", &c.UnixSocketPerm, octal(0o777), "0", atStart,
			"Who may connect to the Unix socket. 0 leaves that to the umask."),
		row("protected-mode", &c.ProtectedMode, yesNo(), "yes", live,
			"Accept only clients of this machine as long as the default user has no password."),
		row("enable-debug-command", &c.EnableDebugCommand, choice[DebugCommand]("local", "no", "yes"), "no", atStart,
			"Who may use DEBUG: nobody (no), clients of this machine (local), or everybody (yes)."),
		row("enable-protected-configs", &c.EnableProtectedConfigs, choice[DebugCommand]("local", "no", "yes"), "no", atStart,
			`Who may change protected options with CONFIG SET: nobody (no), clients of this machine (local), or
			everybody (yes). Protected is checkpoint-dir, which says where files are written and removed.`),
		row("tcp-backlog", &c.TCPBacklog, integer(0, mostInt, "connections"), "511", atStart,
			`How many connections may wait to be accepted. Linux takes at most what
			/proc/sys/net/core/somaxconn says.`),
		row("tcp-keepalive", &c.TCPKeepalive, integer(0, mostInt, "seconds"), "300", live,
			`How long a connection may be silent before the kernel asks whether its other end is still there.
			0 never asks.`),
		row("reactors", &c.Reactors, integer(0, 1024, "event loops"), "0", atStart,
			`How many threads serve connections. 0 is one for each processor. While other
			processes want the processors, only as many of them serve as get more done.`),
	}
}

func (c *Config) tls() []*option {
	file := func(name string, v *String, doc string) *option {
		return row(name, v, untilNUL("a path, or nothing"), "", byHook, doc).ofFile()
	}
	phrase := func(name string, v *String, doc string) *option {
		return row(name, v, untilNUL("a pass phrase, or nothing"), "", byHook, doc).secret()
	}
	list := func(name string, v *String, doc string) *option {
		return row(name, v, untilNUL("a list of names, or nothing"), "", byHook, doc)
	}
	return []*option{
		row("tls-port", &c.TLSPort, integer(0, 65535, ""), "0", atStart,
			`The TCP port for connections with TLS, besides port. 0 is none. It needs tls-cert-file and tls-key-file and, unless
			tls-auth-clients is no, tls-ca-cert-file or tls-ca-cert-dir.`),
		file("tls-cert-file", &c.TLSCertFile,
			`The certificate that clients are shown, as PEM, with those of intermediate authorities behind it. CONFIG SET reads the
			file anew although its name stays the same, and SIGHUP reads all files anew. Connections that exist go on. Relative
			paths of this and the following files start at dir.`),
		file("tls-key-file", &c.TLSKeyFile, "The key of tls-cert-file, as PEM."),
		phrase("tls-key-file-pass", &c.TLSKeyFilePass,
			`The pass phrase of tls-key-file, if that is encrypted: in OpenSSL's old form, or in PKCS #8 with PBES2 and PBKDF2.`),
		file("tls-client-cert-file", &c.TLSClientCertFile,
			"The certificate that a primary, or the target of MIGRATE, is shown. Empty is tls-cert-file."),
		file("tls-client-key-file", &c.TLSClientKeyFile, "The key of tls-client-cert-file."),
		phrase("tls-client-key-file-pass", &c.TLSClientKeyFilePass, "The pass phrase of tls-client-key-file."),
		file("tls-ca-cert-file", &c.TLSCACertFile, "The certificates of those whose signature makes another side's certificate good, as PEM."),
		file("tls-ca-cert-dir", &c.TLSCACertDir, "A directory of files with such certificates. All that are in it count, whatever they are called."),
		row("tls-auth-clients", &c.TLSAuthClients, choice[TLSAuthClients]("no", "yes", "optional"), "yes", byHook,
			"Whether a client has to show a certificate (yes), may do so (optional), or isn't asked for one (no)."),
		row("tls-auth-clients-user", &c.TLSAuthClientsUser, choice[TLSUser]("off", "CN", "URI"), "off", live,
			`What of a client's certificate is the name of its user, who needs no AUTH then: the common name of its subject (CN), or
			the first URI of its alternative names that is an enabled user's (URI). Who has no such name begins as the default user.`),
		row("tls-replication", &c.TLSReplication, yesNo(), "no", byHook,
			"Whether connections to a primary have TLS, and those of MIGRATE. A replica tells its primary its tls-port then."),
		list("tls-protocols", &c.TLSProtocols,
			`The versions that may be spoken, without gaps, of TLSv1, TLSv1.1, TLSv1.2 and TLSv1.3. Empty is "TLSv1.2 TLSv1.3".`),
		list("tls-ciphers", &c.TLSCiphers,
			`The cipher suites up to TLS 1.2, as a list of OpenSSL's such as ECDHE+AESGCM:CHACHA20. The order has no meaning. Empty is
			what Go's crypto/tls thinks safe.`),
		list("tls-ciphersuites", &c.TLSCipherSuites,
			`The cipher suites of TLS 1.3. All of TLS_AES_128_GCM_SHA256, TLS_AES_256_GCM_SHA384 and TLS_CHACHA20_POLY1305_SHA256 are
			offered, so a list has to name them all.`),
		row("tls-session-caching", &c.TLSSessionCaching, yesNo(), "yes", byHook,
			"Whether clients may go on with a session when they connect again, which makes the handshake shorter."),
		row("tls-session-cache-timeout", &c.TLSSessionCacheTimeout, integer(0, mostInt, "seconds"), "300", byHook,
			"For how long they may. 0 is a week."),
	}
}

func (c *Config) process() []*option {
	return []*option{
		row("dir", &c.Dir, anyText("the path of a directory"), "./data", atStart,
			`The data directory, which is created if it is missing. A relative path starts at the directory
			that the server was started in. Only one server can use it at a time.`),
		row("databases", &c.Databases, integer(1, 65536, ""), "16", atStart,
			"How many databases there are; SELECT takes the numbers from 0."),
		row("pidfile", &c.PIDFile, anyText("a path, or nothing"), "", atStart,
			`A file to write the process id to; it is removed at a clean end. Nothing is written when it is
			empty; where it can't be written the log says so.`),
		row("daemonize", &c.Daemonize, yesNo(), "no", atStart,
			`Run in the background: the command returns as soon as clients are accepted, or with the error that kept the
			server from it. Without a logfile the log goes nowhere then.`),
		row("supervised", &c.Supervised, choice[Supervision]("upstart", "systemd", "auto", "no"), "no", atStart,
			`Who is told when the data is loaded and clients are served: upstart (by SIGSTOP), systemd (through
			NOTIFY_SOCKET, for units of Type=notify), whichever of them has started the server (auto), or nobody. A
			supervised server stays in the foreground, whatever daemonize says.`),
		row("hz", &c.HZ, clamped(integer(0, mostInt, "rounds per second"), 1, 500), "10", live,
			"How often keys, and fields of hashes, that have expired are looked for, to be removed."),
		row("loglevel", &c.LogLevel, choice[LogLevel]("debug", "verbose", "notice", "warning"), "notice", byHook,
			"The least urgent lines that are logged. notice is what to use in production."),
		row("logfile", &c.LogFile, anyText("a path, or nothing"), "", atStart,
			`The file that log lines are appended to. Empty is standard output. It may be moved away while the server
			runs: the next line makes a new one.`),
		row("log-format", &c.LogFormat, choice[LogFormat]("text", "json"), "text", atStart,
			"How log lines look: text for people, or an object for each line for programs."),
		row("pprof-address", &c.PprofAddress, anyText("host:port, or nothing"), "", atStart,
			`Where Go's profiles are served over HTTP (/debug/pprof/). They show memory and code to everybody
			who can connect, so name an address of this machine: 127.0.0.1:6060. Empty serves none.`),
	}
}

func (c *Config) clients() []*option {
	return []*option{
		row("requirepass", &c.RequirePass, anyText("a password, or nothing"), "", live,
			`The password of the default user. Empty lets every client in. What a user line, the aclfile or ACL SETUSER
			says of the user default holds instead of it.`).secret(),
		row("aclfile", &c.ACLFile, anyText("a path, or nothing"), "", atStart,
			`The file that users are read from at the start and by ACL LOAD, and written to by ACL SAVE. A relative path starts at
			dir. Empty is none. With it there must be no user lines.`),
		c.userOption(),
		c.renameOption(),
		row("database-limit", &c.DatabaseLimits, databaseLimits(), "", byHook,
			`What a database may hold (keys, and bytes on disk), and how much may be asked of it in a second (requests, and traffic, the
			bytes of requests and replies): 3 keys 1000000 3 traffic 10mb. A limit of 0 is none, and those that aren't named stay as they
			are. Beyond one the reply is an error. docs/security.md`).unsaid(),
		row("acl-pubsub-default", &c.ACLPubSubDefault, choice[PubSubDefault]("allchannels", "resetchannels"), "resetchannels", live,
			"Whether a user who is made may use all channels, or none, until a rule says so."),
		row("maxclients", &c.MaxClients, integer(1, math.MaxUint32, "clients"), "10000", live,
			`How many clients may be connected; more are answered with an error and disconnected. A start lowers
			it to what the limit of open files (ulimit -n) allows, and says so.`),
		row("timeout", &c.Timeout, integer(0, mostInt, "seconds"), "0", live,
			"How long a client may be idle before it is disconnected. 0 is forever."),
		row("proto-max-bulk-len", &c.ProtoMaxBulkLen, size(mb, unlimited), "512mb", live,
			"How long an argument of a command may be, and a string value."),
		row("tracking-table-max-keys", &c.TrackingTableMaxKeys, integer(0, unlimited, "keys"), "1000000", live,
			`For how many keys it is remembered which clients have read them (CLIENT TRACKING). When there are more, clients
			are told to forget some. 0 is no limit.`),
		row("client-query-buffer-limit", &c.QueryBufferLimit, size(mb, unlimited), "1gb", live,
			`How much of a client's unfinished commands is held. A client that exceeds it is disconnected. Before
			AUTH it is 1 MB. Of commands that can't be executed yet, since others wait or 4 MB of replies haven't
			been read, 32 MB are held, and no more than half of this; then nothing is read from the client.`),
		row("client-output-buffer-limit", &c.OutputLimits, outputLimits(),
			"normal 0 0 0 replica 256mb 64mb 60 pubsub 32mb 8mb 60", live,
			`How many bytes of replies may wait for a client that doesn't read them, for each class of
			clients: normal ones, replicas, and subscribers of channels. A client is disconnected when more
			than the first (hard) limit waits, or more than the second (soft) one for longer than the given
			seconds. 0 is no limit: then no command is executed while 4 MB of replies wait, and a client that is sent what it
			hasn't asked for (messages, keys to forget) is disconnected when more than 256 MB wait. A client that has to
			authenticate is disconnected when more than 16 KB wait.`),
	}
}

func (c *Config) scripts() []*option {
	return []*option{
		row("busy-reply-threshold", &c.BusyReplyThreshold, integer(0, unlimited, "milliseconds"), "5000", live,
			`How long a script may hold up others. Beyond it, those who wait for its keys, or for all of them, are
			answered BUSY. SCRIPT KILL ends it unless it has written. 0 lets them wait.`).or("lua-time-limit"),
		row("script-memory", &c.ScriptMemory, size(4*mb, mostSize), "256mb", atStart,
			"How much memory the values of one script may take. A script that wants more gets an error."),
		row("script-write-limit", &c.ScriptWriteLimit, integer(0, unlimited, "records"), "100000", live,
			`How many records one script may write, and messages it may publish. They become visible in one step, which
			holds up other writers: some 50 ms for so many. What is published, or told of keys, may have so many kilobytes,
			and all that is written, with what goes to the log, 16 times as many: long values, too, and collections that are
			made as a whole, which are on their way to disk before the commit. A script that writes or publishes more gets
			an error, and nothing of it is kept. 0 is no limit.`),
	}
}

func (c *Config) observation() []*option {
	return []*option{
		row("slowlog-log-slower-than", &c.SlowlogLogSlowerThan, integer(-1, unlimited, "microseconds"), "10000", live,
			"Commands that run longer go to the slow log. 0 takes every command, -1 none."),
		row("slowlog-max-len", &c.SlowlogMaxLen, integer(0, unlimited, "entries"), "128", live,
			"How many commands the slow log keeps."),
		row("acllog-max-len", &c.ACLLogMaxLen, integer(0, unlimited, "entries"), "128", live,
			"How many entries ACL LOG keeps of what was denied: attempts to authenticate, commands, keys, channels and databases."),
		row("latency-monitor-threshold", &c.LatencyMonitorThreshold, integer(0, unlimited, "milliseconds"), "0", live,
			"Events that take at least so long are recorded for LATENCY HISTORY and its kin. 0 records none."),
		row("latency-tracking", &c.LatencyTracking, yesNo(), "yes", live,
			"Keep a histogram of each command's durations, for LATENCY HISTOGRAM and INFO latencystats."),
		row("latency-tracking-info-percentiles", &c.LatencyPercentiles, percentiles(), "50 99 99.9", live,
			"The percentiles that INFO latencystats shows."),
		row("notify-keyspace-events", &c.NotifyKeyspaceEvents, eventClasses(), "", live,
			`What is told of keys through PUBLISH's channels: K (on __keyspace@<db>__:<key>) or E (on __keyevent@<db>__:<event>) or
			both, and classes of events: g (commands on keys of any type), $ (strings), l (lists), s (sets), h (hashes), z (sorted
			sets), x (expired), e (evicted), t (streams), d (modules), A (all of these), n (new keys), m (keys that a read didn't
			find). Empty tells nothing.`),
	}
}

func (c *Config) binlog() []*option {
	return []*option{
		row("appendfsync", &c.AppendFsync, choice[Fsync]("everysec", "always", "no"), "everysec", live,
			`When the log of writes is forced to the disk: before each reply (always), every second (everysec),
			or whenever the system does it (no). It decides what a power cut can cost; a killed process loses
			nothing that was acknowledged in any case.`),
		row("binlog-segment-size", &c.BinlogSegmentSize, size(mb, 2*gb), "64mb", atStart,
			"The size of one file of the log. It is allocated in advance."),
		row("binlog-retention-size", &c.BinlogRetentionSize, size(0, unlimited), "1gb", live,
			`How much of the log is kept although recovery no longer needs it: for replicas that come back,
			and for point-in-time restore. Files go when neither this nor binlog-retention-age holds them,
			and sooner when the disk is full.`),
		row("binlog-retention-age", &c.BinlogRetentionAge, duration(0, mostAge), "0", live,
			"For how long the log is kept although recovery no longer needs it."),
		row("persist-log-size", &c.PersistLogSize, size(mb, mostSize), "256mb", live,
			`How much of the log may have to be read when the server starts, besides what is on its way to
			RocksDB by then. When it has grown by so much, what it says is written to RocksDB's files.`),
		row("persist-interval", &c.PersistInterval, duration(time.Second, 24*time.Hour), "1m", live,
			"How long it may take until a write stands in RocksDB's files, when little is written."),
		row("key-load-delay", &c.KeyLoadDelay, integer(leastInt, mostInt, "microseconds"), "0", live,
			`How long a start waits before it applies each record of the log: for tests of clients of a server that is
			loading. -n waits one microsecond before every nth record or so.`),
	}
}

func (c *Config) replication() []*option {
	return []*option{
		row("replicaof", &c.ReplicaOf, hostAndPort(), "", atStart,
			`The primary that the server is a replica of when it starts. A role that REPLICAOF set later is
			remembered, and wins until this option is changed.`).or("slaveof").unsaid(),
		row("masterauth", &c.MasterAuth, anyText("a password, or nothing"), "", live,
			"The password that the primary asks for.").secret(),
		row("masteruser", &c.MasterUser, untilNUL("a user's name, or nothing"), "", live,
			"The user that the password is for; empty is the default user.").unlogged(),
		row("replica-read-only", new(String), only("yes", "a replica's log is its primary's, to the byte, so it can't take writes of its own"), "yes", live,
			"A replica takes no writes but its primary's.").or("slave-read-only"),
		row("replica-serve-stale-data", &c.ReplicaServeStaleData, yesNo(), "yes", live,
			"Whether a replica answers while it has no connection to its primary.").or("slave-serve-stale-data"),
		row("repl-timeout", &c.ReplTimeout, integer(1, mostInt, "seconds"), "60", live,
			"How long a primary or a replica may be silent before it is taken for lost."),
		row("repl-ping-replica-period", &c.ReplPingPeriod, integer(1, mostInt, "seconds"), "10", live,
			"How often a primary sends its replicas a PING. It counts as bytes of the log.").or("repl-ping-slave-period"),
		row("repl-diskless-sync", &c.ReplDisklessSync, yesNo(), "yes", live,
			`Whether a replica that can tell where a snapshot ends gets it as it is made. Else it is written to
			a temporary file first.`),
		row("replica-field-expiry", &c.ReplicaFieldExpiry, choice[FieldExpiry]("check", "trust", "drop"), "check", live,
			`What replicas get when fields of hashes expire, unless they are Kedis, or Valkey 9. check: a Redis takes all data
			anew, once, which it refuses before 7.4. trust: all of them know such fields. drop: fields without times, until
			they expire here.`),
		row("replica-log-limit", &c.ReplicaLogLimit, size(0, unlimited), "16gb", live,
			`How much of the log is kept for a connected replica that lags behind. One that falls back farther
			is disconnected, and may have to take all data anew. 0 is no limit.`),
		row("min-replicas-to-write", &c.MinReplicasToWrite, integer(0, mostInt, "replicas"), "0", live,
			"How many replicas have to keep up for writes to be taken. 0 asks for none.").or("min-slaves-to-write"),
		row("min-replicas-max-lag", &c.MinReplicasMaxLag, integer(0, mostInt, "seconds"), "10", live,
			"How long ago a replica may have been heard of that keeps up. 0 turns min-replicas-to-write off.").or("min-slaves-max-lag"),
		row("synchronous-replicas", &c.SynchronousReplicas, integer(0, 1000, "replicas"), "0", byHook,
			`How many replicas have to have what a reply, a message or a notification depends on before it leaves.
			With as many as may be promoted, a failover loses nothing that a client was told. While fewer are
			connected, writes are refused. 0 waits for none, and what the last moments wrote may be lost with
			the server. A client sets a number of its own with CLIENT REPLICAS.`),
		row("synchronous-timeout", &c.SynchronousTimeout, integer(0, unlimited, "milliseconds"), "10000", live,
			`How long a reply waits for replicas. Then its client gets an error instead, which says that the
			outcome is unknown, and is disconnected. 0 waits for ever.`),
		row("synchronous-reads", &c.SynchronousReads, yesNo(), "no", live,
			`Whether replicas have to acknowledge after each read, too, that this server is their primary. Then a
			primary that was replaced without knowing of it answers no reads with old data; each read takes
			the way to a replica and back.`),
		row("sentinel-quorum", &c.SentinelQuorum, integer(0, 1000, "Sentinels"), "0", live,
			`How many Sentinels have to say that another server has become the primary for this one to refuse
			writes and follow it, without waiting for REPLICAOF. 0 waits for that. Only Sentinels that have
			authenticated as sentinel-user with a password are listened to.`),
		row("sentinel-user", &c.SentinelUser, untilNUL("a user's name"), "default", live,
			"The user that Sentinels authenticate as, for sentinel-quorum."),
		row("replica-priority", &c.ReplicaPriority, integer(0, mostInt, ""), "100", live,
			"Sentinel promotes the replica with the lowest number, and never one with 0.").or("slave-priority"),
		row("replica-announced", &c.ReplicaAnnounced, yesNo(), "yes", live,
			"Whether Sentinel is to tell clients of this replica."),
		row("replica-announce-ip", &c.ReplicaAnnounceIP, untilNUL("an address, or nothing"), "", live,
			"The address that a replica tells its primary; empty is where its connection comes from.").or("slave-announce-ip"),
		row("replica-announce-port", &c.ReplicaAnnouncePort, integer(0, 65535, ""), "0", live,
			"The port that a replica tells its primary; 0 is the one that it listens on.").or("slave-announce-port"),
	}
}

func (c *Config) checkpoints() []*option {
	return []*option{
		row("checkpoint-dir", &c.CheckpointDir, anyText("the path of a directory"), "backup", live,
			`Where SAVE and BGSAVE put their checkpoints. A relative path starts at dir. On the same file
			system a checkpoint shares its files with the data, and costs little. On another one they are copied,
			and what the data needs no longer stays on its disk until that is done. CONFIG SET changes it for clients whom
			enable-protected-configs names.`).protected(),
		row("checkpoint-keep", &c.CheckpointKeep, integer(0, mostInt, "checkpoints"), "1", live,
			`How many checkpoints are kept; older ones are removed when a new one is complete. 0 removes
			none.`),
	}
}

func (c *Config) memoryTier(memory int64) []*option {
	return []*option{
		row("memory-tier", &c.MemoryTier, share(memory), "10%", byHook,
			`Memory for records in front of RocksDB: recent writes that RocksDB doesn't have yet, copies of
			what was read, filters that know which records there are, and the order of collections in use.`),
		row("clean-cache-share", &c.CleanCacheShare, percentage(), "50%", byHook,
			`How much of memory-tier may be copies of what RocksDB has, and up to half of that filters, of
			ten bits or more for each key, field, member and score that is looked for one by one, and a
			quarter, and what copies leave, the order of sorted sets, sets, hashes, lists and streams in use, of
			some 20 bytes and the element for each; the rest is for recent writes that RocksDB doesn't have yet.`),
		row("generation-bytes", &c.GenerationBytes, size(1024, gb), "256mb", live,
			`Recent writes are collected up to this size before they go to RocksDB in one sorted batch, or up to
			a quarter of what memory-tier has for recent writes, if that is less (but at least 1mb). From half
			of rocksdb-write-buffer-size on they go there as table files, and stay in memory as copies until
			the next have done so.`),
		row("maxmemory-policy", &c.MaxmemoryPolicy, choice[MaxmemoryPolicy]("volatile-lru", "volatile-lfu", "volatile-random",
			"volatile-ttl", "allkeys-lru", "allkeys-lfu", "allkeys-random", "noeviction"), "noeviction", live,
			`Keys are never evicted, but as in Redis this says what is noted of accesses to them: with an lru policy when each key was
			accessed last (OBJECT IDLETIME), with an lfu policy how often it is (OBJECT FREQ, redis-cli --hotkeys). With the others the
			first OBJECT IDLETIME begins to note times. Notes take at most a 64th of memory-tier, 8 bytes for each key; what they have
			no room for is told of as used as lately as the least of those that they have. A restart forgets them.`),
		row("lfu-log-factor", &c.LFULogFactor, integer(0, mostInt, ""), "10", live,
			"How slowly OBJECT FREQ grows: from 5 on, an access adds 1 in one of so many cases times what it is above 5."),
		row("lfu-decay-time", &c.LFUDecayTime, integer(0, mostInt, "minutes"), "1", live,
			"After how long without an access OBJECT FREQ falls by 1. 0 is never."),
	}
}

func (c *Config) rocksdb(memory int64) []*option {
	compression := named("none", "snappy", "lz4", "zstd")
	return []*option{
		row("rocksdb-block-cache", &c.RocksDBBlockCache, share(memory), "10%", byHook,
			"Memory for blocks of table files, their indexes and filters."),
		row("rocksdb-write-buffer-size", &c.RocksDBWriteBufferSize, size(mb, 4*gb), "64mb", byHook,
			"The size at which a memtable is written to a file."),
		row("rocksdb-max-write-buffers", &c.RocksDBMaxWriteBuffers, integer(2, 64, "memtables"), "4", byHook,
			"How many memtables of a database may wait to be written before writes to RocksDB have to wait."),
		row("rocksdb-max-background-jobs", &c.RocksDBMaxBackgroundJobs, integer(0, 256, "jobs"), "0", byHook,
			`How many flushes and compactions run at a time. 0 is one for each processor, at least 2 and at
			most 8.`),
		row("rocksdb-compression", &c.RocksDBCompression, compression, "lz4", byHook,
			"The compression of new table files, but for the last level."),
		row("rocksdb-bottommost-compression", &c.RocksDBBottommostCompression, compression, "lz4", byHook,
			`The compression of the last level, which holds nearly all data. zstd takes less space and more
			time.`),
		row("rocksdb-bloom-bits", &c.RocksDBBloomBits, integer(0, 64, "bits per key"), "10", atStart,
			`The size of the filters that spare reading files for keys that they don't hold; 10 bits err once
			in a hundred times. 0 is no filter.`),
		row("rocksdb-target-file-size", &c.RocksDBTargetFileSize, size(mb, 4*gb), "64mb", byHook,
			"The size of a table file."),
		row("rocksdb-max-open-files", &c.RocksDBMaxOpenFiles, limit(20, mostInt, "files"), "-1", byHook,
			`How many table files are held open: RocksDB needs 20. -1 holds all, which is fastest; the limit of open
			files (ulimit -n) must allow for it. A start changes -1 to what that allows beside the clients when it is
			not at least 1024, and says so.`),
		row("rocksdb-rate-limit", &c.RocksDBRateLimit, size(0, mostSize), "0", byHook,
			"How many bytes per second flushes and compactions may write. 0 is no limit."),
	}
}

func (c *Config) expiry() []*option {
	return []*option{
		row("active-expire", &c.ActiveExpire, yesNo(), "yes", live,
			`Remove keys that have expired in the background. An expired key is never seen in any case;
			without this it goes only when a write touches it.`),
		row("active-expire-effort", &c.ActiveExpireEffort, integer(1, 10, ""), "1", live,
			`How much time may go into removing expired keys while clients are served: 1 is a quarter of one
			processor's, 10 all of it. While nobody is served they are removed as fast as may be.`),
	}
}

func (c *Config) packing() []*option {
	entries := integer(0, unlimited, "entries")
	value := size(0, unlimited)
	return []*option{
		row("hash-max-listpack-entries", &c.HashMaxListpackEntries, entries, "512", live,
			"A hash with more fields is spread over a record for each field.").or("hash-max-ziplist-entries"),
		row("hash-max-listpack-value", &c.HashMaxListpackValue, value, "64", live,
			"A hash with a longer field or value is spread.").or("hash-max-ziplist-value"),
		row("list-max-listpack-size", &c.ListMaxListpackSize, integer(leastInt, mostInt, "elements"), "-2", live,
			`A list with more elements is spread. -1 to -5 are limits of its size instead: 4, 8, 16, 32 and
			64 kilobytes.`).or("list-max-ziplist-size"),
		row("set-max-intset-entries", &c.SetMaxIntsetEntries, entries, "512", live,
			"A set of integers with more members is no longer packed as integers."),
		row("set-max-listpack-entries", &c.SetMaxListpackEntries, entries, "128", live,
			"A set with more members, of which not all are integers, is spread."),
		row("set-max-listpack-value", &c.SetMaxListpackValue, value, "64", live,
			"A set with a longer member is spread."),
		row("zset-max-listpack-entries", &c.ZSetMaxListpackEntries, entries, "128", live,
			"A sorted set with more members is spread.").or("zset-max-ziplist-entries"),
		row("zset-max-listpack-value", &c.ZSetMaxListpackValue, value, "64", live,
			"A sorted set with a longer member is spread.").or("zset-max-ziplist-value"),
		row("stream-node-max-bytes", &c.StreamNodeMaxBytes, value, "4096", live,
			"A node of a stream, which MAXLEN ~ removes as a whole, takes no more entries beyond this size. 0 is no limit."),
		row("stream-node-max-entries", &c.StreamNodeMaxEntries, entries, "100", live,
			"Nor does one with so many entries. 0 is no limit."),
		row("hll-sparse-max-bytes", &c.HLLSparseMaxBytes, value, "3000", live,
			"A HyperLogLog whose sparse form is longer takes the dense form of 12 kilobytes."),
	}
}
