package observe

import (
	"cmp"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"kedis/binlog"
	"kedis/internal/config"
	"kedis/internal/metrics"
	"kedis/server/access"
	"kedis/server/execute"
	"kedis/storage"
	"kedis/storage/rocks"
)

func infoCommand() execute.Command {
	return execute.Command{Name: "info", Arity: -1, Flags: execute.Loading | execute.Stale | execute.Worker, Categories: execute.CategoryDangerous, Run: cmdInfo,
		Tips:  []string{"nondeterministic_output", "request_policy:all_shards", "response_policy:special"},
		Group: "server", Since: "1.0.0", Complexity: "O(1)", Syntax: "[section [section ...]]",
		Summary: "Tells of the server, its clients, memory, log, data and what it has done."}
}

func cmdInfo(c *execute.Invocation) error {
	c.CountLookups()
	c.Reply.Verbatim("txt", string(reportOf(c.Engine).info().Append(nil, c.Args[1:]...)))
	return nil
}

// info are the sections of INFO. Fields have Redis's names where Redis has them; what means nothing
// here is left out.
func (e report) info() metrics.Info {
	return metrics.Info{
		{Name: "Server", Write: e.infoServer},
		{Name: "Clients", Write: e.infoClients},
		{Name: "Memory", Write: e.infoMemory},
		{Name: "Persistence", Write: e.infoPersistence},
		{Name: "Stats", Write: e.infoStats},
		{Name: "Replication", Write: e.infoReplication},
		{Name: "CPU", Write: infoCPU},
		{Name: "Modules", Write: func(*metrics.Fields) {}},
		{Name: "Commandstats", Extra: true, Write: e.infoCommandStats},
		{Name: "Errorstats", Write: e.infoErrorStats},
		{Name: "Latencystats", Extra: true, Write: e.infoLatencyStats},
		{Name: "Cluster", Write: func(f *metrics.Fields) { f.Int("cluster_enabled", 0) }},
		{Name: "Keyspace", Write: e.infoKeyspace},
		{Name: "Limits", Write: e.infoLimits},
		{Name: "Tier", Write: e.infoTier},
		{Name: "Binlog", Write: e.infoBinlog},
		{Name: "RocksDB", Write: e.infoRocksDB},
	}
}

func (e report) infoServer(f *metrics.Fields) {
	now := time.Now()
	uptime := now.Sub(e.Started)
	f.Text("redis_version", execute.RedisVersion)
	f.Text("redis_git_sha1", "00000000")
	f.Int("redis_git_dirty", 0)
	f.Text("redis_build_id", "0")
	f.Text("redis_mode", "standalone")
	f.Text("kedis_version", e.Version)
	f.Text("os", systemName())
	f.Int("arch_bits", strconv.IntSize)
	f.Text("multiplexing_api", "epoll")
	f.Text("go_version", runtime.Version())
	f.Text("rocksdb_version", rocks.Version()+" ("+rocks.BuildKind()+")")
	f.Int("process_id", int64(os.Getpid()))
	f.Text("process_supervised", cmp.Or(e.Supervisor, "no"))
	f.Text("run_id", e.runID)
	f.Int("tcp_port", cmp.Or(e.Config.Port.Get(), e.Config.TLSPort.Get()))
	f.Int("server_time_usec", now.UnixMicro())
	f.Int("uptime_in_seconds", int64(uptime/time.Second))
	f.Int("uptime_in_days", int64(uptime/(24*time.Hour)))
	f.Int("hz", e.Config.HZ.Get())
	f.Int("configured_hz", e.Config.HZ.Get())
	f.Int("lru_clock", now.Unix()&(1<<24-1))
	executable, err := os.Executable()
	if err != nil {
		executable = os.Args[0]
	}
	f.Text("executable", executable)
	f.Text("config_file", e.Config.File())
	infoListeners(f, e.Config)
	f.Int("io_threads_active", 0)
	f.Int("reactors", int64(e.Statistics.Lanes-1))
	f.Int("serving_reactors", e.Statistics.Serving.Load())
}

// infoListeners tells where the server listens, as Redis 7.2 does.
func infoListeners(f *metrics.Fields, c *config.Config) {
	listener := 0
	tell := func(text string) {
		f.Text("listener"+strconv.Itoa(listener), text)
		listener++
	}
	socket, encrypted := c.UnixSocket.Get(), c.TLSPort.Get()
	ports := func(name string, port int64) {
		tell(fmt.Sprintf("name=%s,bind=%s,port=%d", name, strings.Join(c.Bind.Get(), ",bind="), port))
	}
	if port := c.Port.Get(); port != 0 || socket == "" && encrypted == 0 {
		ports("tcp", port)
	}
	if socket != "" {
		tell("name=unix,bind=" + socket)
	}
	if encrypted != 0 {
		ports("tls", encrypted)
	}
}

// systemName is the operating system's name, release and machine, as uname tells them.
func systemName() string {
	var name syscall.Utsname
	if err := syscall.Uname(&name); err != nil {
		return runtime.GOOS
	}
	text := func(field [65]int8) string {
		var b strings.Builder
		for _, c := range field {
			if c == 0 {
				break
			}
			b.WriteByte(byte(c))
		}
		return b.String()
	}
	return text(name.Sysname) + " " + text(name.Release) + " " + text(name.Machine)
}

func (e report) infoClients(f *metrics.Fields) {
	var normal, listening, watching, blocked, limited int64
	var query, output int
	for _, s := range e.Clients.All() {
		if !s.Is(execute.KindReplica) {
			normal++
		}
		if s.Is(execute.KindPubSub) {
			listening++
		}
		status := s.Status()
		if status.Watching > 0 {
			watching++
		}
		if status.Blocked {
			blocked++
		}
		if status.Deadline {
			limited++
		}
		q, o := s.Peer.Buffered()
		query, output = max(query, q), max(output, o)
	}
	f.Int("connected_clients", normal)
	f.Int("cluster_connections", 0)
	f.Int("maxclients", e.Config.MaxClients.Get())
	f.Int("client_recent_max_input_buffer", int64(query))
	f.Int("client_recent_max_output_buffer", int64(output))
	f.Int("blocked_clients", blocked)
	f.Int("tracking_clients", e.Caching.Statistics().Clients)
	f.Int("pubsub_clients", listening)
	f.Int("watching_clients", watching)
	f.Int("clients_in_timeout_table", limited)
	keys, gone := e.Blocking.Count()
	f.Int("total_watched_keys", e.Watches.Count())
	f.Int("total_blocking_keys", int64(keys))
	f.Int("total_blocking_keys_on_nokey", int64(gone))
}

func (e report) infoMemory(f *metrics.Fields) {
	m, _, err := e.measureMemory()
	if err != nil {
		f.Text("memory_error", err.Error())
		return
	}
	dataset := m.tier + m.blockCache + m.memtables
	f.Size("used_memory", m.used())
	f.Size("used_memory_rss", m.resident)
	f.Size("used_memory_peak", m.mostResident)
	f.Percent("used_memory_peak_perc", 100*ratio(m.used(), m.mostResident))
	f.Int("used_memory_overhead", m.used()-dataset)
	f.Int("used_memory_startup", e.startupMemory)
	f.Int("used_memory_dataset", dataset)
	f.Percent("used_memory_dataset_perc", 100*ratio(dataset, m.used()))
	f.Int("allocator_allocated", m.heap)
	f.Int("allocator_active", m.heap+m.heapIdle)
	f.Int("allocator_resident", m.resident)
	f.Size("total_system_memory", e.machineMemory)
	f.Size("maxmemory", 0)
	f.Text("maxmemory_policy", e.Config.MaxmemoryPolicy.String())
	f.Float("allocator_frag_ratio", ratio(m.heap+m.heapIdle, m.heap), 2)
	f.Int("allocator_frag_bytes", m.heapIdle)
	f.Float("allocator_rss_ratio", ratio(m.resident, m.heap+m.heapIdle), 2)
	f.Int("allocator_rss_bytes", m.resident-m.heap-m.heapIdle)
	f.Float("mem_fragmentation_ratio", ratio(m.resident, m.used()), 2)
	f.Int("mem_fragmentation_bytes", m.resident-m.used())
	f.Int("mem_clients_normal", m.connections)
	f.Text("mem_allocator", runtime.Version())
	f.Float("rss_overhead_ratio", 1, 2) // all memory is the allocator's
	f.Zeros(memoryNotUsed...)
	number, texts, interpreters := e.Families.Scripts()
	functions := e.Families.Functions()
	f.Int("number_of_cached_scripts", int64(number))
	f.Int("number_of_functions", int64(functions.Functions))
	f.Int("number_of_libraries", int64(functions.Libraries))
	f.Int("used_memory_vm_eval", interpreters)
	f.Int("used_memory_vm_functions", functions.Interpreters)
	f.Int("used_memory_scripts_eval", texts)
	f.Int("used_memory_functions", functions.Sources)
	f.Size("used_memory_lua", interpreters)
	f.Size("used_memory_vm_total", interpreters+functions.Interpreters)
	f.Size("used_memory_scripts", texts+functions.Sources)
	f.Size("go_heap", m.heap)
	f.Size("go_runtime", m.runtime+m.stacks)
	f.Size("rocksdb_block_cache", m.blockCache)
	f.Size("rocksdb_memtables", m.memtables)
	f.Size("rocksdb_table_readers", m.tables)
}

// The fields of Redis about what Kedis is without: those who watch a server ask for them by name.
var (
	memoryNotUsed = []string{"rss_overhead_bytes", "mem_not_counted_for_evict", "mem_replication_backlog", "mem_total_replication_buffers",
		"mem_clients_slaves", "mem_cluster_links", "mem_aof_buffer", "active_defrag_running", "lazyfree_pending_objects",
		"lazyfreed_objects"}
	neverForked = []string{"current_cow_peak", "current_cow_size", "current_cow_size_age", "current_save_keys_processed",
		"current_save_keys_total", "rdb_last_cow_size", "rdb_last_load_keys_expired", "rdb_last_load_keys_loaded",
		"aof_rewrite_in_progress", "aof_rewrite_scheduled", "aof_rewrites", "aof_rewrites_consecutive_failures", "aof_last_cow_size",
		"module_fork_in_progress", "module_fork_last_cow_size"}
	neverDone = []string{"evicted_clients", "total_eviction_exceeded_time", "current_eviction_exceeded_time",
		"latest_fork_usec", "total_forks", "slave_expires_tracked_keys", "active_defrag_hits", "active_defrag_misses",
		"active_defrag_key_hits", "active_defrag_key_misses", "total_active_defrag_time", "current_active_defrag_time",
		"dump_payload_sanitizations", "io_threaded_reads_processed", "io_threaded_writes_processed", "reply_buffer_shrinks",
		"reply_buffer_expands"}
)

func (e report) infoPersistence(f *metrics.Fields) {
	s := e.Saves()
	seconds := func(d time.Duration, known bool) int64 {
		if !known {
			return -1
		}
		return int64(d / time.Second)
	}
	f.Bool("loading", e.Loading())
	f.Int("async_loading", 0)
	f.Int("rdb_changes_since_last_save", e.Store.Counters().Commits.Load()-s.Commits)
	f.Bool("rdb_bgsave_in_progress", !s.Began.IsZero())
	f.Int("rdb_last_save_time", s.Last.Unix())
	f.Text("rdb_last_bgsave_status", okOrErr(!s.Failed))
	f.Int("rdb_last_bgsave_time_sec", seconds(s.Took, s.Count > 0 || s.Failed))
	f.Int("rdb_current_bgsave_time_sec", seconds(time.Since(s.Began), !s.Began.IsZero()))
	f.Int("rdb_saves", s.Count)
	f.Int("aof_enabled", 1)
	f.Int("aof_last_rewrite_time_sec", -1)
	f.Int("aof_current_rewrite_time_sec", -1)
	f.Text("aof_last_bgrewrite_status", "ok")
	f.Float("current_fork_perc", 0, 2)
	f.Zeros(neverForked...)
	f.Text("aof_last_write_status", okOrErr(e.Log.Ready() == nil))
	if log := e.binlog(); log != nil {
		infoLog(f, log, e.Store.Persisted())
	}
	e.infoLoading(f)
}

// infoLog tells of the log what Redis tells of its AOF. Its base is what RocksDB's files have as
// well: the next start doesn't read it. What waits to be synced is the log's end; nothing waits to
// be written, since a commit writes, and no write waits for a sync.
func infoLog(f *metrics.Fields, log *binlog.Log, persisted int64) {
	stats := log.Stats()
	f.Int("aof_current_size", stats.Bytes)
	f.Int("aof_base_size", min(max(persisted-stats.First, 0), stats.Bytes))
	f.Bool("aof_pending_bio_fsync", log.Durable() < log.Position())
	f.Zeros("aof_pending_rewrite", "aof_buffer_length", "aof_delayed_fsync")
}

func okOrErr(ok bool) string {
	if ok {
		return "ok"
	}
	return "err"
}

func (e report) infoStats(f *metrics.Fields) {
	s := &e.Statistics
	f.Int("total_connections_received", s.Connections.Load())
	f.Int("total_commands_processed", e.Table.Calls())
	f.Int("instantaneous_ops_per_sec", s.CommandRate.PerSecond())
	links := e.ReplicationCounts()
	f.Int("total_net_input_bytes", s.NetInput.Sum()+links.Received)
	f.Int("total_net_output_bytes", s.NetOutput.Sum()+links.Sent)
	f.Int("total_net_repl_input_bytes", links.Received)
	f.Int("total_net_repl_output_bytes", links.Sent)
	for _, rate := range []struct {
		name string
		rate *metrics.Rate
	}{
		{"instantaneous_input_kbps", &s.InputRate}, {"instantaneous_output_kbps", &s.OutputRate},
		{"instantaneous_input_repl_kbps", &s.ReceivedRate}, {"instantaneous_output_repl_kbps", &s.SentRate},
	} {
		f.Float(rate.name, float64(rate.rate.PerSecond())/1024, 2)
	}
	f.Int("rejected_connections", s.Rejected.Load())
	f.Int("sync_full", links.Full)
	f.Int("sync_partial_ok", links.Partial)
	f.Int("sync_partial_err", links.Refused)
	f.Int("expired_keys", e.Expired())
	e.infoExpiry(f)
	f.Int("evicted_keys", 0)
	f.Int("keyspace_hits", s.Hits.Sum())
	f.Int("keyspace_misses", s.Misses.Sum())
	f.Int("pubsub_channels", e.Listeners.Count(execute.ChannelKind))
	f.Int("pubsub_patterns", e.Listeners.Count(execute.PatternKind))
	f.Int("pubsubshard_channels", e.Listeners.Count(execute.ShardKind))
	f.Int("migrate_cached_sockets", int64(e.Families.KeptConnections()))
	f.Int("unexpected_error_replies", 0)
	f.Int("total_error_replies", s.Errors.Sum())
	f.Int("total_reads_processed", s.Reads.Sum())
	f.Int("total_writes_processed", s.Writes.Sum())
	f.Int("client_query_buffer_limit_disconnections", s.QueryBufferExceeded.Load())
	f.Int("client_output_buffer_limit_disconnections", s.OutputBufferExceeded.Load())
	f.Int("acl_access_denied_auth", e.Denials.Total(access.DeniedAuthentication))
	f.Int("acl_access_denied_cmd", e.Denials.Total(access.DeniedCommand))
	f.Int("acl_access_denied_key", e.Denials.Total(access.DeniedKey))
	f.Int("acl_access_denied_channel", e.Denials.Total(access.DeniedChannel))
	f.Int("acl_access_denied_tls_cert", e.Denials.Total(access.DeniedCertificate))
	caching := e.Caching.Statistics()
	f.Int("tracking_total_keys", caching.Keys)
	f.Int("tracking_total_items", caching.Items)
	f.Int("tracking_total_prefixes", caching.Prefixes)
	f.Zeros(neverDone...)
	e.infoPasses(f)
	f.Int("batches", s.Batches.Sum())
	f.Int("lock_conflicts", s.Conflicts.Sum())
	f.Int("commands_on_workers", s.Offloads.Load())
	f.Int("moved_connections", s.Moves.Load())
}

// infoPasses tells of the reactors' passes what Redis 7.2 tells of the cycles of its event loop:
// passes in which nothing was executed don't count.
func (e report) infoPasses(f *metrics.Fields) {
	s := &e.Statistics
	f.Int("eventloop_cycles", s.Passes.Sum())
	f.Int("eventloop_duration_sum", s.PassTime.Sum()/int64(time.Microsecond))
	f.Int("eventloop_duration_cmd_sum", s.PassedCommands.Sum()/int64(time.Microsecond))
	passes := s.PassRate.PerSecond()
	f.Int("instantaneous_eventloop_cycles_per_sec", passes)
	f.Int("instantaneous_eventloop_duration_usec", s.PassTimeRate.PerSecond()/max(passes, 1)/int64(time.Microsecond))
}

func (e report) infoExpiry(f *metrics.Fields) {
	_, waiting := e.KeyCount()
	f.Int("expires_waiting", waiting)
	if e.Sweeper != nil {
		f.Float("expired_stale_perc", 100*ratio(e.Sweeper.Waiting(), waiting), 2)
		f.Int("expired_time_cap_reached_count", e.Sweeper.Late())
		f.Int("expire_sweeper_waiting", e.Sweeper.Waiting())
		f.Int("expire_sweeper_lag_ms", e.Sweeper.Lag())
		f.Int("expire_sweeper_removed", e.Sweeper.Removed())
		f.Int("expire_cycle_cpu_milliseconds", e.Statistics.Sweeping.Load()/int64(time.Millisecond))
	}
}

// infoReplication tells of a primary without replicas where there is no part for replication.
func (e report) infoReplication(f *metrics.Fields) {
	if part := e.Replication(); part != nil {
		part.Info(f)
		return
	}
	f.Text("role", "master")
	f.Int("connected_slaves", 0)
	f.Text("master_failover_state", "no-failover")
	f.Int("master_repl_offset", e.Store.Position())
}

func infoCPU(f *metrics.Fields) {
	for _, of := range []struct {
		suffix string
		who    int
	}{{"", syscall.RUSAGE_SELF}, {"_children", syscall.RUSAGE_CHILDREN}} {
		var usage syscall.Rusage
		if err := syscall.Getrusage(of.who, &usage); err != nil {
			continue
		}
		seconds := func(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }
		f.Float("used_cpu_sys"+of.suffix, seconds(usage.Stime), 6)
		f.Float("used_cpu_user"+of.suffix, seconds(usage.Utime), 6)
	}
}

func (e report) infoCommandStats(f *metrics.Fields) {
	e.Table.Each(func(c *execute.Command) {
		if stats := c.Measures.Stats(); stats.Seen() {
			f.Custom("cmdstat_"+c.FullName(), stats.Append)
		}
	})
}

func (e report) infoErrorStats(f *metrics.Fields) {
	e.Statistics.Errors.Each(func(code string, count int64) {
		f.Text("errorstat_"+code, fmt.Sprintf("count=%d", count))
	})
}

func (e report) infoLatencyStats(f *metrics.Fields) {
	percentiles := e.Config.LatencyPercentiles.Get()
	e.Table.Each(func(c *execute.Command) {
		if d := c.Measures.Latency.Distribution(); d.Count() > 0 {
			f.Custom("latency_percentiles_usec_"+c.FullName(), func(dst []byte) []byte { return d.AppendPercentiles(dst, percentiles) })
		}
	})
}

func (e report) infoKeyspace(f *metrics.Fields) {
	for number := range e.Store.Databases() {
		if keys, expires := e.Store.Size(number); keys > 0 {
			f.Text("db"+strconv.Itoa(number), fmt.Sprintf("keys=%d,expires=%d,avg_ttl=0", keys, expires))
		}
	}
}

// infoTier tells of the memory in front of RocksDB.
func (e report) infoTier(f *metrics.Fields) {
	cache, counters := e.Store.Cache(), e.Store.Counters()
	copies, most := e.Store.Copies()
	f.Size("tier_copies", copies)
	f.Size("tier_copies_limit", most)
	f.Int("tier_hits", cache.Hits())
	f.Int("tier_misses", cache.Misses())
	active, frozen, bytes := e.Store.Generations()
	f.Int("tier_generations", int64(frozen)+1)
	f.Int("tier_generation_records", int64(active))
	f.Size("tier_generations_size", bytes)
	f.Size("tier_kept_size", e.Store.RetainedBytes())
	f.Int("tier_commits", counters.Commits.Load())
	f.Int("tier_flushed_generations", counters.Flushes.Load())
	f.Int("tier_flushed_as_tables", counters.FlushedAsTables.Load())
	f.Int("tier_flushed_records", counters.FlushedRecords.Load())
	f.Int("tier_slowed_commits", counters.Slowed.Load())
	f.Int("tier_rocksdb_reads", counters.RocksReads.Load())
	filters := e.Store.Filters()
	f.Size("tier_filter_size", filters.Bytes)
	f.Int("tier_filter_records", filters.Records)
	f.Text("tier_filter_state", filterState(filters))
	f.Int("tier_filter_ruled_out", filters.RuledOut)
	f.Int("tier_filter_in_vain", filters.InVain)
	f.Int("tier_reaped_elements", counters.Reaped.Load())
	trees, treeBytes := e.Store.Trees()
	f.Int("tier_ordered_collections", int64(trees))
	f.Size("tier_order_size", treeBytes)
}

// filterState tells whether lookups of what isn't there are spared RocksDB.
func filterState(f storage.Filters) string {
	if f.Building {
		return "building"
	}
	return "complete"
}

// binlog is the log, if this server keeps one on disk.
func (e report) binlog() *binlog.Log {
	if keeper, ok := e.Log.(interface{ Log() *binlog.Log }); ok {
		return keeper.Log()
	}
	return nil
}

func (e report) infoBinlog(f *metrics.Fields) {
	f.Int("binlog_persisted_position", e.Store.Persisted())
	log := e.binlog()
	if log == nil {
		return
	}
	stats, history := log.Stats(), log.History()
	f.Text("binlog_id", history.ID)
	f.Int("binlog_ancestors", int64(len(history.Ancestors)))
	f.Int("binlog_position", log.Position())
	f.Int("binlog_durable_position", log.Durable())
	f.Int("binlog_first_position", stats.First)
	f.Int("binlog_pinned_position", stats.Pinned)
	f.Int("binlog_readers", int64(stats.Readers))
	f.Int("binlog_segments", int64(stats.Segments))
	f.Size("binlog_size", stats.Bytes)
	f.Int("binlog_syncs", stats.Syncs)
	f.Int("binlog_last_sync_usec", stats.LastSync.Microseconds())
	status := "ok"
	if err := log.Ready(); err != nil {
		status = err.Error()
	}
	f.Text("binlog_status", status)
}

func (e report) infoRocksDB(f *metrics.Fields) {
	s, err := e.Store.Rocks().Statistics()
	if err != nil {
		f.Text("rocksdb_error", err.Error())
		return
	}
	for _, field := range []struct {
		name  string
		value uint64
	}{
		{"block_cache_capacity", s.BlockCacheBytes}, {"block_cache_usage", s.BlockCacheUsedBytes},
		{"block_cache_pinned_usage", s.BlockCachePinnedBytes}, {"block_cache_hits", s.BlockCacheHits},
		{"block_cache_misses", s.BlockCacheMisses}, {"bloom_useful", s.BloomUseful}, {"bloom_passed", s.BloomPassed},
		{"memtable_hits", s.MemtableHits}, {"memtable_misses", s.MemtableMisses},
		{"keys_read", s.KeysRead}, {"keys_written", s.KeysWritten}, {"bytes_read", s.BytesRead}, {"bytes_written", s.BytesWritten},
		{"flushed_bytes", s.FlushedBytes}, {"compaction_read_bytes", s.CompactionReadBytes},
		{"compaction_write_bytes", s.CompactionWriteBytes}, {"stall_usec", s.StallMicros},
		{"estimated_keys", s.EstimatedKeys}, {"live_data_bytes", s.LiveDataBytes}, {"table_file_bytes", s.TableFileBytes},
		{"memtable_bytes", s.MemtableBytes}, {"immutable_memtables", s.ImmutableMemtables},
		{"table_reader_bytes", s.TableReaderBytes}, {"pending_compaction_bytes", s.PendingCompactionBytes},
		{"running_flushes", s.RunningFlushes}, {"running_compactions", s.RunningCompactions},
		{"background_errors", s.BackgroundErrors}, {"delayed_write_rate", s.DelayedWriteBytesPerSec},
	} {
		f.Int("rocksdb_"+field.name, int64(field.value))
	}
	f.Bool("rocksdb_writes_stopped", s.WritesStopped)
}

// infoLoading tells of a load what Redis tells.
func (e report) infoLoading(f *metrics.Fields) {
	p, ok := e.LoadingProgress()
	if !ok {
		return
	}
	f.Int("loading_start_time", p.Began.Unix())
	f.Int("loading_total_bytes", p.Total)
	f.Int("loading_rdb_used_mem", 0)
	f.Int("loading_loaded_bytes", p.Loaded)
	f.Float("loading_loaded_perc", p.Percent(), 2)
	f.Int("loading_eta_seconds", int64(p.Remaining/time.Second))
}

// infoLimits has a line for each database with limits, and each user with rates.
func (e report) infoLimits(f *metrics.Fields) {
	e.DatabaseLimitUses(func(database int, use execute.LimitUse) {
		f.Custom("limit_db"+strconv.Itoa(database), func(dst []byte) []byte {
			return fmt.Appendf(dst, "keys=%d,max_keys=%d,bytes=%d,max_bytes=%d,max_requests=%d,max_traffic=%d,refused=%d",
				use.UsedKeys, use.Keys, use.UsedBytes, use.Bytes, use.Requests, use.Traffic, use.Refused)
		})
	})
	e.UserRateUses(func(user string, use execute.LimitUse) {
		f.Custom("limit_user_"+user, func(dst []byte) []byte {
			return fmt.Appendf(dst, "max_requests=%d,max_traffic=%d,refused=%d", use.Requests, use.Traffic, use.Refused)
		})
	})
}
