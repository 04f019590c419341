// Package config holds every option of the server in one table, from which come the configuration
// file, the flags of the command line, CONFIG GET, SET and REWRITE, the shipped kedis.conf and
// docs/configuration.md.
//
// An option's value is live: Config's fields are read from anywhere, at any time, without a lock.
// The package knows what a value may be and not what it is for: parts that must be told of a change
// register a hook. It imports the standard library, internal/glob, internal/keyevent,
// internal/number and internal/quotes.
package config

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"kedis/internal/glob"
	"kedis/internal/keyevent"
)

// Config is the values of all options. All methods may be called from any goroutine, but Load and
// SetFlag are for the start: they run no hooks.
type Config struct {
	// Network
	Bind               StringList // addresses to listen on; a minus before one: go on without it if the machine doesn't have it
	Port               Int
	UnixSocket         String // empty is none
	UnixSocketPerm     Int    // permission bits; 0 is what the umask leaves
	ProtectedMode      Bool
	EnableDebugCommand Value[DebugCommand]
	// EnableProtectedConfigs says who may set protected options while the server runs.
	EnableProtectedConfigs Value[DebugCommand]
	TCPBacklog             Int
	TCPKeepalive           Int // seconds; 0 is off
	Reactors               Int // 0 is one per processor
	ProtoMaxBulkLen        Bytes
	RequirePass            String
	ACLFile                String // relative to Dir
	ACLPubSubDefault       Value[PubSubDefault]
	DatabaseLimits         Value[DatabaseLimits]
	OutputLimits           Value[OutputLimits]
	QueryBufferLimit       Bytes
	MaxClients             Int
	TrackingTableMaxKeys   Int
	Timeout                Int // seconds; 0 is never

	// TLS
	TLSPort                 Int    // 0 is none
	TLSCertFile, TLSKeyFile String // PEM
	TLSKeyFilePass          String
	TLSClientCertFile       String // for connections to other servers; empty: TLSCertFile
	TLSClientKeyFile        String
	TLSClientKeyFilePass    String
	TLSCACertFile           String
	TLSCACertDir            String
	TLSAuthClients          Value[TLSAuthClients]
	TLSAuthClientsUser      Value[TLSUser]
	TLSReplication          Bool // connections to primaries, and MIGRATE's
	TLSProtocols            String
	TLSCiphers              String
	TLSCipherSuites         String
	TLSSessionCaching       Bool
	TLSSessionCacheTimeout  Int // seconds

	// Process and log
	Dir        String
	PIDFile    String
	Daemonize  Bool
	Supervised Value[Supervision]
	Databases  Int
	HZ         Int // rounds per second of removing what has expired
	LogLevel   Value[LogLevel]
	LogFile    String // empty is standard output
	LogFormat  Value[LogFormat]

	PprofAddress String // empty is none

	// Scripts
	BusyReplyThreshold Int   // milliseconds; 0 is never
	ScriptMemory       Bytes // of one interpreter
	ScriptWriteLimit   Int   // records; 0 is no limit

	// Observation
	SlowlogLogSlowerThan    Int // microseconds; negative is off
	SlowlogMaxLen           Int
	ACLLogMaxLen            Int
	LatencyMonitorThreshold Int // milliseconds; 0 is off
	LatencyTracking         Bool
	LatencyPercentiles      Value[[]float64]
	NotifyKeyspaceEvents    Value[keyevent.Classes]

	// The log of writes and checkpoints
	AppendFsync         Value[Fsync]
	BinlogSegmentSize   Bytes
	BinlogRetentionSize Bytes
	BinlogRetentionAge  Value[time.Duration]
	PersistLogSize      Bytes
	PersistInterval     Value[time.Duration]
	KeyLoadDelay        Int    // microseconds
	CheckpointDir       String // relative to Dir
	CheckpointKeep      Int    // 0 is all

	// Replication
	ReplicaOf             StringList // host and port, or empty
	MasterAuth            String
	MasterUser            String
	ReplicaServeStaleData Bool
	ReplTimeout           Int // seconds
	ReplPingPeriod        Int // seconds
	ReplDisklessSync      Bool
	ReplicaFieldExpiry    Value[FieldExpiry]
	ReplicaLogLimit       Bytes // 0 is none
	MinReplicasToWrite    Int
	SynchronousReplicas   Int
	SynchronousTimeout    Int // ms; 0: none
	SynchronousReads      Bool
	SentinelQuorum        Int
	SentinelUser          String
	MinReplicasMaxLag     Int // seconds; 0 turns MinReplicasToWrite off
	ReplicaPriority       Int
	ReplicaAnnounced      Bool
	ReplicaAnnounceIP     String
	ReplicaAnnouncePort   Int

	// Memory in front of RocksDB
	MemoryTier      Value[Share]
	CleanCacheShare Int // percent of MemoryTier
	GenerationBytes Bytes
	MaxmemoryPolicy Value[MaxmemoryPolicy]
	LFULogFactor    Int
	LFUDecayTime    Int // minutes; 0: frequencies don't fall

	// RocksDB
	RocksDBBlockCache            Value[Share]
	RocksDBWriteBufferSize       Bytes
	RocksDBMaxWriteBuffers       Int
	RocksDBMaxBackgroundJobs     Int    // 0 is by the processors
	RocksDBCompression           String // none, snappy, lz4 or zstd
	RocksDBBottommostCompression String
	RocksDBBloomBits             Int // for each key; 0 is no filter
	RocksDBTargetFileSize        Bytes
	RocksDBMaxOpenFiles          Int   // -1 is no limit
	RocksDBRateLimit             Bytes // per second; 0 is no limit

	// Expiry
	ActiveExpire       Bool
	ActiveExpireEffort Int // 1 to 10

	// When collections are packed
	HashMaxListpackEntries Int
	HashMaxListpackValue   Bytes
	ListMaxListpackSize    Int // entries, or -1 to -5 for 4 to 64 kilobytes
	SetMaxIntsetEntries    Int
	SetMaxListpackEntries  Int
	SetMaxListpackValue    Bytes
	ZSetMaxListpackEntries Int
	StreamNodeMaxBytes     Bytes
	StreamNodeMaxEntries   Int
	ZSetMaxListpackValue   Bytes
	HLLSparseMaxBytes      Bytes

	users   userLines
	renames renames

	mu        sync.Mutex // held while options change; hooks run under it
	onRewrite []rewriteHook
	groups    []group
	names     []entry // of all options, aliases included, in the table's order
	file      string  // absolute path of the configuration file, or empty
	memory    int64   // of the machine, in bytes
}

// DebugCommand is who may do what is dangerous: use DEBUG, or change protected options.
type DebugCommand int

// The clients who may.
const (
	DebugLocal DebugCommand = iota // clients of this machine
	DebugNo
	DebugYes
)

// FieldExpiry is what replicas get that may not know that fields of hashes expire.
type FieldExpiry int

// The order is that of the names in the option.
const (
	CheckFieldExpiry FieldExpiry = iota
	TrustFieldExpiry
	DropFieldExpiry
)

// PubSubDefault is which channels a user may use of whom nothing is said.
type PubSubDefault int

// The order is that of the names in Redis's error texts.
const (
	AllChannels PubSubDefault = iota
	NoChannels
)

// TLSAuthClients is whether a client has to show a certificate.
type TLSAuthClients int

// The order is that of the names in Redis's error texts.
const (
	TLSAuthNo TLSAuthClients = iota
	TLSAuthYes
	TLSAuthOptional
)

// TLSUser is which part of a client's certificate names its user.
type TLSUser int

// The parts.
const (
	TLSUserOff TLSUser = iota
	TLSUserCN          // the subject's common name
	TLSUserURI         // a URI of the alternative names
)

// Supervision is who is told that the server is ready.
type Supervision int

// The order is that of the names in Redis's error texts.
const (
	SupervisedByUpstart Supervision = iota
	SupervisedBySystemd
	SupervisedByEither
	Unsupervised
)

// LogLevel is the least urgent kind of line that is logged.
type LogLevel int

// The levels have Redis's names; notice is for what an administrator wants to know in production.
const (
	LogDebug LogLevel = iota
	LogVerbose
	LogNotice
	LogWarning
)

// LogFormat is how log lines look.
type LogFormat int

const (
	LogText LogFormat = iota
	LogJSON
)

// Fsync is when the log of writes is forced to the disk.
type Fsync int

// The order is that of the names in Redis's error texts.
const (
	FsyncEverySecond Fsync = iota
	FsyncAlways
	FsyncNo
)

// MaxmemoryPolicy is what Redis evicts, which Kedis doesn't, and so what is noted of accesses to
// keys.
type MaxmemoryPolicy int

// The order is that of the names in Redis's error texts.
const (
	VolatileLRU MaxmemoryPolicy = iota
	VolatileLFU
	VolatileRandom
	VolatileTTL
	AllKeysLRU
	AllKeysLFU
	AllKeysRandom
	NoEviction
)

// NotesAccesses reports whether it has to be known when keys were accessed, or how often.
func (p MaxmemoryPolicy) NotesAccesses() bool {
	return p == VolatileLRU || p == AllKeysLRU || p.NotesFrequencies()
}

// NotesFrequencies reports whether it has to be known how often keys are accessed.
func (p MaxmemoryPolicy) NotesFrequencies() bool { return p == VolatileLFU || p == AllKeysLFU }

// Refusal is an error that a client is told word for word, after "ERR ".
type Refusal string

func (r Refusal) Error() string { return string(r) }

// Pair is an option's name and value.
type Pair struct{ Name, Value string }

// entry is one name of an option.
type entry struct {
	name string
	*option
}

// New returns the defaults. Percentages of memory are taken of the machine's.
func New() *Config { return newConfig(MachineMemory()) }

func newConfig(memory int64) *Config {
	c := &Config{memory: memory}
	c.groups = c.table(memory)
	for o := range c.options() {
		if o.doc == "" || c.lookup(o.name) != nil {
			panic("config: option " + o.name + " is undocumented or listed twice")
		}
		c.names = append(c.names, entry{o.name, o})
		if o.alias != "" {
			c.names = append(c.names, entry{o.alias, o})
		}
		change, err := o.prepare(o.initial)
		if err != nil {
			panic("config: default of " + o.name + ": " + err.Error())
		}
		change.store()
		o.initialShown = o.String()
	}
	return c
}

// options walks all options in the table's order.
func (c *Config) options() func(yield func(*option) bool) {
	return func(yield func(*option) bool) {
		for _, group := range c.groups {
			for _, o := range group.options {
				if !yield(o) {
					return
				}
			}
		}
	}
}

// lookup finds an option by name or alias, in whatever case; nil is none.
func (c *Config) lookup(name string) *option {
	for _, entry := range c.names {
		if strings.EqualFold(entry.name, name) {
			return entry.option
		}
	}
	return nil
}

// File is the absolute path of the configuration file that was loaded, or empty.
func (c *Config) File() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.file
}

// WithoutEffect names the options that were given, in the file or as flags, and have no effect.
func (c *Config) WithoutEffect() (names []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for o := range c.options() {
		if o.inert && o.given {
			names = append(names, o.name)
		}
	}
	return names
}

// OnChangeWithoutEffect registers a function that is called when Set changes an option that has no
// effect.
func (c *Config) OnChangeWithoutEffect(tell func(name string)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for o := range c.options() {
		if o.inert && o.when == live {
			o.hooks = append(o.hooks, func() error { tell(o.name); return nil })
		}
	}
}

// Sensitive reports whether the named option's value must not be shown in logs, such as MONITOR's
// and the slow log's.
func (c *Config) Sensitive(name string) bool {
	o := c.lookup(name)
	return o != nil && o.hidden
}

// Match answers CONFIG GET: the options whose names match one of the patterns. A pattern without
// special characters is a name, and is answered in the spelling that was asked for.
func (c *Config) Match(patterns ...[]byte) []Pair {
	var matches []Pair
	add := func(name string, o *option) {
		known := func(p Pair) bool { return strings.EqualFold(p.Name, name) }
		if !o.fileOnly && !slices.ContainsFunc(matches, known) {
			matches = append(matches, Pair{name, o.String()})
		}
	}
	for _, pattern := range patterns {
		if !bytes.ContainsAny(pattern, "*?[") {
			if o := c.lookup(string(pattern)); o != nil {
				add(string(pattern), o)
			}
			continue
		}
		compiled := glob.CompileFold(pattern)
		for _, entry := range c.names {
			if compiled.Match([]byte(entry.name)) {
				add(entry.name, entry.option)
			}
		}
	}
	return matches
}

// OnChange registers a function that puts a new value of the named option into effect. It is called
// by Set, after all values of that Set are stored, when the value is another one. When it fails,
// the old values return and the functions that have been called, this one included, are called
// again. It must not call methods of c other than its fields' Get.
func (c *Config) OnChange(name string, apply func() error) {
	o := c.lookup(name)
	if o == nil {
		panic("config: OnChange of the unknown option " + name)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	o.hooks = append(o.hooks, apply)
}

// Unhooked names the options that take effect live through a hook and have none; Set calls them
// immutable. A server that is wired up has none left.
func (c *Config) Unhooked() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var names []string
	for o := range c.options() {
		if o.when == byHook && len(o.hooks) == 0 {
			names = append(names, o.name)
		}
	}
	return names
}

// Set answers CONFIG SET: all pairs of name and value take effect, or none. The error is a Refusal.
//
// Protected options are refused.
func (c *Config) Set(pairs [][2]string) error { return c.setAll(pairs, false) }

// SetProtected is Set for clients whom enable-protected-configs names.
func (c *Config) SetProtected(pairs [][2]string) error { return c.setAll(pairs, true) }

func (c *Config) setAll(pairs [][2]string, protected bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	entries, err := c.settable(pairs, protected)
	if err != nil {
		return err
	}
	changes := make([]change, len(pairs))
	for i, entry := range entries {
		if changes[i], err = entry.prepare(pairs[i][1]); err != nil {
			return failed(entry.name, err)
		}
	}
	for _, change := range changes {
		change.store()
	}
	if err := apply(entries, changes); err != nil {
		return err
	}
	for _, entry := range entries {
		entry.configured = nil
	}
	return nil
}

// settable finds the options to be set. As in Redis, an option's name and its alias are no
// duplicates, and no value is looked at before all names are good.
func (c *Config) settable(pairs [][2]string, protected bool) ([]entry, error) {
	entries := make([]entry, 0, len(pairs))
	for _, pair := range pairs {
		name := pair[0]
		i := slices.IndexFunc(c.names, func(e entry) bool { return strings.EqualFold(e.name, name) })
		if i < 0 || c.names[i].fileOnly {
			return nil, Refusal(fmt.Sprintf("Unknown option or number of arguments for CONFIG SET - '%s'", untilZero(name)))
		}
		found := c.names[i]
		switch {
		case !found.mutable():
			return nil, failed(name, reason("can't set immutable config"))
		case found.guarded && !protected:
			return nil, failed(name, reason("can't set protected config"))
		case slices.Contains(entries, found):
			return nil, failed(name, reason("duplicate parameter"))
		}
		entries = append(entries, found)
	}
	return entries, nil
}

// untilZero cuts a name at a zero byte, as Redis prints it.
func untilZero(name string) string {
	before, _, _ := strings.Cut(name, "\x00")
	return before
}

func failed(name string, err error) error {
	return Refusal(fmt.Sprintf("CONFIG SET failed (possibly related to argument '%s') - %s", name, err))
}

// apply runs the hooks of what changed, and takes everything back when one fails.
func apply(entries []entry, changes []change) error {
	var ran []func() error
	for i, entry := range entries {
		if !changes[i].isChange && !entry.refers {
			continue
		}
		for _, hook := range entry.hooks {
			ran = append(ran, hook)
			if err := hook(); err != nil {
				return failed(entry.name, rollBack(changes, ran, err))
			}
		}
	}
	return nil
}

func rollBack(changes []change, ran []func() error, cause error) error {
	for _, change := range slices.Backward(changes) {
		change.undo()
	}
	for _, hook := range slices.Backward(ran) {
		if err := hook(); err != nil {
			return fmt.Errorf("%w; going back to the old value failed too: %w", cause, err)
		}
	}
	return cause
}

// Remember gives an option a value that came about otherwise than by Set, for CONFIG GET and
// REWRITE. No hooks run.
func (c *Config) Remember(name, value string) error {
	o := c.lookup(name)
	if o == nil {
		return fmt.Errorf("config: no option %s", name)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return o.set(value)
}

// Fit gives an option a value that fits the process, as it is until Set sets another one. Rewrite
// writes the one that was configured: the next process may have room for it. No hooks run.
func (c *Config) Fit(name, value string) error {
	o := c.lookup(name)
	if o == nil {
		return fmt.Errorf("config: no option %s", name)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	before := configured{o.toBeRead(), o.fileLines()}
	if err := o.set(value); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if o.String() != before.shown {
		o.configured = &before
	}
	return nil
}

// Flag is what the command line needs to know of an option.
type Flag struct {
	Name    string
	Aliases []string
	Usage   string
	Default string
}

// Flags returns a row for each option that has an effect.
func (c *Config) Flags() []Flag {
	var flags []Flag
	for o := range c.options() {
		if o.inert {
			continue
		}
		flag := Flag{Name: o.name, Usage: o.usage(), Default: o.initial}
		if o.alias != "" {
			flag.Aliases = []string{o.alias}
		}
		flags = append(flags, flag)
	}
	return flags
}

// IsList reports whether an option's value may be several words.
func (c *Config) IsList(name string) bool {
	o := c.lookup(name)
	return o != nil && o.isList()
}

// SetFlag sets an option from the command line.
func (c *Config) SetFlag(name, value string) error {
	o := c.lookup(name)
	if o == nil {
		return fmt.Errorf("--%s: %s", name, c.unknown(name))
	}
	give := o.give
	if o.addFlag != nil {
		give = o.addFlag
	}
	if err := give(value); err != nil {
		return fmt.Errorf("--%s: %w", name, err)
	}
	o.flagged = true
	return nil
}
