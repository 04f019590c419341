package observe

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"

	"kedis/internal/number"
	"kedis/server/execute"
	"kedis/storage/rocks"
)

func memoryCommand() execute.Command {
	special := []string{"nondeterministic_output", "request_policy:all_shards", "response_policy:special"}
	return execute.Command{Name: "memory", Arity: -2, Group: "server", Since: "4.0.0", Complexity: "Depends on subcommand.",
		Summary: "A container for commands on the server's memory.",
		Subcommands: []execute.Command{
			{Name: "usage", Arity: -3, Flags: execute.ReadOnly, Keys: []execute.KeySpec{{Flags: execute.RO, Index: 2, Step: 1}}, Run: cmdMemoryUsage,
				Touching: execute.LooksAtKeys,
				Since:    "4.0.0", Complexity: "O(N) where N is the number of samples.", Syntax: "key [SAMPLES count]",
				Summary: "Tells about how many bytes a key and its value take."},
			{Name: "stats", Arity: 2, Flags: execute.Worker, Tips: special, Run: cmdMemoryStats, Since: "4.0.0", Complexity: "O(1)",
				Summary: "Tells what the server's memory is used for."},
			{Name: "doctor", Arity: 2, Flags: execute.Worker, Tips: special, Run: cmdMemoryDoctor, Since: "4.0.0", Complexity: "O(1)",
				Summary: "Tells in words whether the server's memory is well used."},
			{Name: "malloc-stats", Arity: 2, Flags: execute.Worker, Tips: special, Run: cmdMemoryMallocStats, Since: "4.0.0",
				Complexity: "Depends on how much memory is allocated, could be slow",
				Summary:    "Returns what Go's memory manager and RocksDB tell of themselves."},
			{Name: "purge", Arity: 2, Flags: execute.Worker, Run: cmdMemoryPurge, Since: "4.0.0",
				Tips:       []string{"request_policy:all_shards", "response_policy:all_succeeded"},
				Complexity: "Depends on how much memory is allocated, could be slow",
				Summary:    "Gives memory that is not in use back to the system."},
			execute.HelpRow("memory", "4.0.0", execute.Loading|execute.Stale, 0,
				"DOCTOR",
				"    Tell in words whether the server's memory is well used.",
				"MALLOC-STATS",
				"    Return what Go's memory manager and RocksDB tell of themselves.",
				"PURGE",
				"    Give memory that is not in use back to the system.",
				"STATS",
				"    Tell what the server's memory is used for.",
				"USAGE <key> [SAMPLES <count>]",
				"    Tell about how many bytes <key> and its value take. Of a large collection",
				"    <count> elements are looked at (default: 5, 0 are all)."),
		}}
}

const usageSamples = 5

func cmdMemoryUsage(c *execute.Invocation) error {
	samples := int64(usageSamples)
	for words := c.Args[3:]; len(words) > 0; words = words[2:] {
		if len(words) < 2 || !strings.EqualFold(string(words[0]), "samples") {
			return execute.ErrSyntax
		}
		var ok bool
		if samples, ok = number.ParseInt(words[1]); !ok {
			return execute.ErrNotInteger
		}
		if samples < 0 {
			return execute.ErrSyntax
		}
	}
	k, err := c.DB.LookupAny(c.Args[2])
	if err != nil {
		return err
	}
	if !k.Exists || c.DB.Expired(k) {
		c.Reply.Null()
		return nil
	}
	usage, err := c.DB.Usage(c.Args[2], k, samples)
	if err != nil {
		return err
	}
	c.Reply.Integer(usage)
	return nil
}

// memoryUse is what the process's memory is used for, in bytes.
type memoryUse struct {
	heap, heapIdle, stacks, runtime int64 // Go's: objects, free and not given back, stacks, its own
	blockCache, memtables, tables   int64 // RocksDB's
	tier                            int64 // clean copies of records, a part of heap
	connections                     int64 // buffers, a part of heap
	resident, mostResident          int64 // as the system counts
}

// used is what was asked for, by Go and by RocksDB.
func (m *memoryUse) used() int64 {
	return m.heap + m.stacks + m.runtime + m.blockCache + m.memtables + m.tables
}

// measureMemory finds out. It takes a moment: RocksDB has to add up.
func (e report) measureMemory() (memoryUse, rocks.Statistics, error) {
	statistics, err := e.Store.Rocks().Statistics()
	if err != nil {
		return memoryUse{}, statistics, err
	}
	samples := []metrics.Sample{
		{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"},
		{Name: "/memory/classes/heap/free:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"},
		{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"},
	}
	metrics.Read(samples)
	value := func(i int) int64 { return int64(samples[i].Value.Uint64()) }
	copies, _ := e.Store.Copies()
	m := memoryUse{heap: value(0), heapIdle: value(1) + value(2), stacks: value(3),
		blockCache: int64(statistics.BlockCacheUsedBytes), memtables: int64(statistics.MemtableBytes),
		tables: int64(statistics.TableReaderBytes), tier: copies}
	m.runtime = value(4) - value(5) - m.heap - m.heapIdle - m.stacks
	for _, s := range e.Clients.All() {
		query, output := s.Peer.Buffered()
		m.connections += int64(execute.SessionBytes + query + output)
	}
	m.resident, m.mostResident = residentMemory()
	return m, statistics, nil
}

// residentMemory is what the process has in memory, now and at most, as Linux tells; zeros
// elsewhere.
func residentMemory() (now, most int64) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, 0
	}
	field := func(name string) int64 {
		_, rest, _ := bytes.Cut(status, []byte("\n"+name+":"))
		digits, _, _ := bytes.Cut(bytes.TrimSpace(rest), []byte(" "))
		kibibytes, err := strconv.ParseInt(string(digits), 10, 64)
		if err != nil {
			return 0
		}
		return kibibytes << 10
	}
	return field("VmRSS"), field("VmHWM")
}

func ratio(a, b int64) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}

// memoryField is a field of MEMORY STATS: an int64 or a float64.
type memoryField struct {
	name  string
	value any
}

func cmdMemoryStats(c *execute.Invocation) error {
	m, _, err := reportOf(c.Engine).measureMemory()
	if err != nil {
		return err
	}
	keys, _ := c.Engine.KeyCount()
	dataset := m.tier + m.blockCache + m.memtables
	fields := []memoryField{
		{"peak.allocated", m.mostResident},
		{"total.allocated", m.used()},
		{"startup.allocated", reportOf(c.Engine).startupMemory},
		{"replication.backlog", int64(0)},
		{"clients.slaves", int64(0)},
		{"clients.normal", m.connections},
		{"overhead.total", m.used() - dataset},
		{"keys.count", keys},
		{"keys.bytes-per-key", int64(ratio(dataset, keys))},
		{"dataset.bytes", dataset},
		{"dataset.percentage", 100 * ratio(dataset, m.used())},
		{"peak.percentage", 100 * ratio(m.used(), m.mostResident)},
		{"allocator.allocated", m.heap},
		{"allocator.active", m.heap + m.heapIdle},
		{"allocator.resident", m.resident},
		{"allocator-fragmentation.ratio", ratio(m.heap+m.heapIdle, m.heap)},
		{"allocator-fragmentation.bytes", m.heapIdle},
		{"fragmentation", ratio(m.resident, m.used())},
		{"fragmentation.bytes", m.resident - m.used()},
		{"tier.copies", m.tier},
		{"rocksdb.block-cache", m.blockCache},
		{"rocksdb.memtables", m.memtables},
		{"rocksdb.table-readers", m.tables},
	}
	c.Reply.Map(len(fields))
	for _, field := range fields {
		c.Reply.BulkString(field.name)
		switch value := field.value.(type) {
		case int64:
			c.Reply.Integer(value)
		case float64:
			c.Reply.Double(value)
		}
	}
	return nil
}

func cmdMemoryDoctor(c *execute.Invocation) error {
	m, statistics, err := reportOf(c.Engine).measureMemory()
	if err != nil {
		return err
	}
	c.Reply.Verbatim("txt", reportOf(c.Engine).diagnoseMemory(&m, &statistics))
	return nil
}

// diagnoseMemory says what looks wrong about memory, or that nothing does.
func (e report) diagnoseMemory(m *memoryUse, s *rocks.Statistics) string {
	var out strings.Builder
	const little = 64 << 20 // below that, ratios tell nothing
	tier := e.Config.MemoryTier.Get().Bytes + e.Config.RocksDBBlockCache.Get().Bytes
	if total := e.machineMemory; tier > total/2 {
		fmt.Fprintf(&out, "- memory-tier and rocksdb-block-cache may take %d MB of the %d MB that there are.\n", tier>>20, total>>20)
	}
	if m.heapIdle > max(m.heap, little) {
		fmt.Fprintf(&out, "- %d MB are free and not given back to the system yet; MEMORY PURGE does that now.\n", m.heapIdle>>20)
	}
	if hits, misses := int64(s.BlockCacheHits), int64(s.BlockCacheMisses); misses > hits && hits+misses > 1e6 {
		fmt.Fprintf(&out, "- RocksDB's block cache misses more often than it hits: a larger rocksdb-block-cache may help.\n")
	}
	cache := e.Store.Cache()
	if hits, misses := cache.Hits(), cache.Misses(); misses > hits && hits+misses > 1e6 {
		fmt.Fprintf(&out, "- Records are read from RocksDB more often than from memory: a larger memory-tier may help.\n")
	}
	if m.connections > little {
		fmt.Fprintf(&out, "- Clients have %d MB of requests and replies in buffers; CLIENT LIST shows which.\n", m.connections>>20)
	}
	if out.Len() == 0 {
		return "Nothing is wrong with the memory of this server, as far as its figures tell.\n"
	}
	return "What may be worth a look:\n" + out.String()
}

func cmdMemoryMallocStats(c *execute.Invocation) error {
	var out strings.Builder
	out.WriteString("# Go\n")
	for _, description := range metrics.All() {
		if !strings.HasPrefix(description.Name, "/memory/") && !strings.HasPrefix(description.Name, "/gc/heap/") {
			continue
		}
		sample := []metrics.Sample{{Name: description.Name}}
		metrics.Read(sample)
		if sample[0].Value.Kind() == metrics.KindUint64 && sample[0].Value.Uint64() != math.MaxUint64 {
			fmt.Fprintf(&out, "%s %d\n", description.Name, sample[0].Value.Uint64())
		}
	}
	out.WriteString("\n# RocksDB\n")
	s, err := c.Engine.Store.Rocks().Statistics()
	if err != nil {
		return err
	}
	fmt.Fprintf(&out, "block cache: %d of %d bytes, %d pinned\nmemtables: %d bytes\ntable readers: %d bytes\n",
		s.BlockCacheUsedBytes, s.BlockCacheBytes, s.BlockCachePinnedBytes, s.MemtableBytes, s.TableReaderBytes)
	c.Reply.Verbatim("txt", out.String())
	return nil
}

func cmdMemoryPurge(c *execute.Invocation) error {
	debug.FreeOSMemory()
	c.Reply.OK()
	return nil
}
