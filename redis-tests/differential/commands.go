package differential

// family is a group of commands that are generated equally often in all; the weight is that of the
// group.
type family struct {
	name      string
	weight    int
	templates []string
}

// families is what the generator draws from: every command of the core server that answers and
// whose answer doesn't depend on the machine, with all of its options. Sources ({…}) are in
// sources.go. A template may stand twice to be drawn more often.
var families = []family{
	{"strings", 22, []string{
		"set {string} {value}", "set {string} {value}", "set {string} {value}",
		"set {string} {value} [nx|xx] [get] [ex {seconds}|px {milliseconds}|exat {unix}|pxat {unixms}|keepttl]",
		"set {string} {value} [ex {seconds}|px {milliseconds}|exat {unix}|pxat {unixms}|keepttl] [get] [nx|xx]",
		"get {string}", "get {string}", "get {string}", "strlen {string}", "getset {string} {value}", "getdel {string}",
		"getex {string} [ex {seconds}|px {milliseconds}|exat {unix}|pxat {unixms}|persist]",
		"setnx {string} {value}", "setex {string} {seconds} {value}", "psetex {string} {milliseconds} {value}",
		"append {string} {value}", "append {string} {value}", "getrange {string} {index} {index}", "substr {string} {index} {index}",
		"setrange {string} {offset} {value}", "incr {string}", "decr {string}", "incr {counter}", "decr {counter}",
		"incrby {counter} {integer}", "decrby {counter} {integer}", "incrby {string} {integer}",
		"incrbyfloat {counter} {float}", "incrbyfloat {string} {float}", "set {counter} {number}",
		"mget <{string}>+", "mset <{string} {value}>+", "msetnx <{string} {value}>+",
		"lcs {string} {string} [len|idx|idx withmatchlen|idx minmatchlen {small}|idx minmatchlen {small} withmatchlen]",
	}},
	{"bitmaps", 7, []string{
		"setbit {bits} {bitoffset} {bit}", "setbit {bits} {bitoffset} {bit}", "getbit {bits} {bitoffset}", "getbit {string} {bitoffset}",
		"bitcount {bits}", "bitcount {bits} {index} {index} [byte|bit]", "bitpos {bits} {bit} [{index}|{index} {index}|{index} {index} (byte|bit)]",
		"bitop (and|or|xor) {bits} <{bits}>+", "bitop not {bits} {bits}", "bitop (and|or|xor|not) {string} {bits}",
		"bitfield {bits} <get {bittype} {bitplace}|set {bittype} {bitplace} {integer}|incrby {bittype} {bitplace} {integer}|overflow (wrap|sat|fail)>+",
		"bitfield_ro {bits} <get {bittype} {bitplace}>+", "bitfield {string} <get {bittype} {bitplace}>+", "get {bits}", "set {bits} {value}",
	}},
	{"hyperloglogs", 3, []string{
		"pfadd {hll} <{member}>+", "pfadd {hll} <{value}>+", "pfadd {hll}", "pfcount <{hll}>+", "pfmerge {hll} <{hll}>+", "pfcount {string}",
		"pfadd {hll} <{member}>+200", "get {hll}", "strlen {hll}", "pfdebug (encoding|decode|todense|getreg) {hll}", "pfadd {hll} <{element}>+900",
	}},
	{"keys", 14, []string{
		"del {key}", "del <{key}>+", "unlink <{key}>+", "exists <{key}>+", "touch <{key}>+", "type {key}", "type {key}",
		"rename {key} {key}", "renamenx {key} {key}", "copy {key} {key} [replace|db {database}|db {database} replace]", "copy {key} {key} [replace]",
		"move {key} {database}", "keys {pattern}", "randomkey", "dbsize", "object encoding {key}", "object encoding {key}",
		"object (refcount|freq|idletime) {key}", "memory usage {key} [samples {small}]", "dump {key}", "@exchange {key}", "debug digest-value <{key}>+",
		"@restore {key} {key} ({milliseconds}|0|{unixms} absttl|{milliseconds} absttl) [replace] [idletime {integer}|freq {integer}]", "@restore {key} {key} 0 replace",
		"@scan [match {pattern}] [count {count}] [type {type}]", "@hscan {hash} [match {pattern}] [count {count}]",
		"@sscan {set} [match {pattern}] [count {count}]", "@zscan {zset} [match {pattern}] [count {count}]",
		"(hscan|sscan|zscan) {key} {badcursor}", "scan {badcursor}", "restore {key} {milliseconds} {value} [replace] [absttl] [idletime {integer}|freq {integer}]",
	}},
	{"scripts", 6, []string{
		"eval {caller} 0 set {string} {value}", "eval {caller} 0 get {string}", "eval {caller} 1 {counter} incrby {counter} {integer}",
		"eval {caller} 0 append {string} {value}", "eval {caller} 0 hset {hash} <{field} {value}>+", "eval {caller} 0 hget {hash} {field}",
		"eval {caller} 0 hmget {hash} <{field}>+", "eval {caller} 0 hincrby {hash} {field} {integer}", "eval {caller} 0 rpush {list} <{value}>+",
		"eval {caller} 0 lpop {list} [{count}]", "eval {caller} 0 lrange {list} {index} {index}", "eval {caller} 0 sadd {set} <{member}>+",
		"eval {caller} 0 sismember {set} {member}", "eval {caller} 0 zadd {zset} {number} {member}", "eval {caller} 0 zrem {zset} <{member}>+",
		"eval {caller} 0 del <{key}>+", "eval {caller} 0 exists <{key}>+", "eval {caller} 0 type {key}", "eval {caller} 0 rename {key} {key}",
		"eval {caller} 0 nosuch {value}", "eval {caller} 0 get", "eval {caller} 0 multi", "eval {caller} 0", "eval {caller} {number} {key}",
		"eval_ro {caller} 0 get {string}", "eval_ro {caller} 0 set {string} {value}", "eval {program} 2 {counter} {string} <{value}>+",
		"eval {program} 0", "eval {program} 2 {key} {key} {value}",
	}},
	// A library has one function, for Redis lists them in any order.
	{"functions", 6, []string{
		"function load [replace] {library}", "function load replace {library}", "function delete {libraryname}", "function list [libraryname {pattern}] [withcode]",
		"function list libraryname {libraryname} [withcode]", "function dump", "function stats", "function flush [sync|async]", "function restore {value} [flush|append|replace]",
		"function kill", "function {name}", "fcall {function} 0 set {string} {value}", "fcall {function} 0 get {string}", "fcall {function} 1 {counter} incrby {counter} {integer}",
		"fcall {function} 0 hset {hash} <{field} {value}>+", "fcall {function} 0 hget {hash} {field}", "fcall {function} 0 rpush {list} <{value}>+",
		"fcall {function} 0 lrange {list} {index} {index}", "fcall {function} 0 sadd {set} <{member}>+", "fcall {function} 0 zadd {zset} {number} {member}",
		"fcall {function} 0 del <{key}>+", "fcall {function} 0 rename {key} {key}", "fcall {function} 0 nosuch {value}", "fcall {function} 0", "fcall {function} {number} {key}",
		"fcall_ro {function} 0 get {string}", "fcall_ro {function} 0 set {string} {value}", "fcall_ro {function} 1 {key} type {key}", "command getkeys fcall {function} {small} {key} {key}",
	}},
	{"expiry", 9, []string{
		"expire {key} {seconds} [nx|xx|gt|lt] [xx|gt]", "pexpire {key} {milliseconds} [nx|xx|gt|lt]", "expireat {key} {unix} [nx|xx|gt|lt] [xx|lt]",
		"pexpireat {key} {unixms} [nx|xx|gt|lt]", "ttl {key}", "pttl {key}", "expiretime {key}", "pexpiretime {key}", "persist {key}", "persist {key}",
		"pexpireat {key} {unixms}", "pexpireat {key} {unixms}", "@short {key}",
	}},
	{"hashes", 14, []string{
		"hset {hash} <{field} {value}>+", "hset {hash} <{field} {value}>+", "hset {hash} <{field} {value}>+40", "hmset {hash} <{field} {value}>+",
		"hget {hash} {field}", "hget {hash} {field}", "hmget {hash} <{field}>+", "hgetall {hash}", "hkeys {hash}", "hvals {hash}", "hlen {hash}",
		"hexists {hash} {field}", "hstrlen {hash} {field}", "hsetnx {hash} {field} {value}", "hdel {hash} {field}", "hdel {hash} <{field}>+",
		"hincrby {hash} {field} {integer}", "hincrbyfloat {hash} {field} {float}", "hset {hash} {field} {number}",
		"hrandfield {hash} [{count}|{count} withvalues]", "hrandfield {hash} {integer} [withvalues]", "hdel {hash} <{field}>+30",
	}},
	{"lists", 16, []string{
		"rpush {list} <{value}>+", "lpush {list} <{value}>+", "rpush {list} <{member}>+", "lpush {list} <{member}>+", "rpush {list} <{member}>+150",
		"rpushx {list} <{value}>+", "lpushx {list} <{value}>+", "lpop {list} [{count}]", "rpop {list} [{count}]", "lpop {list}", "rpop {list}",
		"llen {list}", "lrange {list} {index} {index}", "lrange {list} 0 -1", "lindex {list} {index}", "lset {list} {index} {value}",
		"linsert {list} (before|after) {member} {value}", "lrem {list} {index} {member}", "ltrim {list} {index} {index}",
		"lpos {list} {member} [rank {index}] [count {count}] [maxlen {small}]", "lmove {list} {list} (left|right) (left|right)",
		"rpoplpush {list} {list}", "lmpop {lists} (left|right) [count {count}]", "lmpop {lists} (left|right)",
	}},
	{"sets", 14, []string{
		"sadd {set} <{member}>+", "sadd {set} <{member}>+", "sadd {set} <{integer}>+", "sadd {set} <{value}>+", "sadd {set} <{member}>+150",
		"srem {set} <{member}>+", "srem {set} {member}", "sismember {set} {member}", "smismember {set} <{member}>+", "scard {set}",
		"smembers {set}", "smembers {set}", "smove {set} {set} {member}", "spop {set}", "spop {set} {count}", "srandmember {set} [{count}]",
		"srandmember {set} {integer}", "sinter <{set}>+", "sunion <{set}>+", "sdiff <{set}>+", "sinterstore {set} <{set}>+",
		"sunionstore {set} <{set}>+", "sdiffstore {set} <{set}>+", "sintercard {sets} [limit {small}]", "srem {set} <{member}>+100",
	}},
	{"sorted sets", 18, []string{
		"zadd {zset} <{score} {member}>+", "zadd {zset} <{score} {member}>+", "zadd {zset} [nx|xx] [gt|lt] [ch] <{score} {member}>+",
		"zadd {zset} [nx|xx] [gt|lt] [ch] incr {score} {member}", "zadd {zset} <{score} {member}>+60", "zadd {lex} <0 {value}>+",
		"zincrby {zset} {score} {member}", "zrem {zset} <{member}>+", "zrem {zset} {member}", "zscore {zset} {member}", "zmscore {zset} <{member}>+",
		"zcard {zset}", "zcount {zset} {from} {from}", "zlexcount {lex} {lexfrom} {lexfrom}", "zrank {zset} {member} [withscore]",
		"zrevrank {zset} {member} [withscore]", "zrange {zset} {index} {index} [rev] [withscores]", "zrange {zset} 0 -1 withscores",
		"zrange {zset} {from} {from} byscore [rev] [limit {index} {index}] [withscores]", "zrange {lex} {lexfrom} {lexfrom} bylex [rev] [limit {index} {index}]",
		"zrevrange {zset} {index} {index} [withscores]", "zrangebyscore {zset} {from} {from} [withscores] [limit {index} {index}]",
		"zrevrangebyscore {zset} {from} {from} [withscores] [limit {index} {index}]", "zrangebylex {lex} {lexfrom} {lexfrom} [limit {index} {index}]",
		"zrevrangebylex {lex} {lexfrom} {lexfrom} [limit {index} {index}]",
		"zrangestore {zset} {zset} {index} {index} [rev]", "zrangestore {zset} {zset} {from} {from} byscore [rev] [limit {index} {index}]",
		"zrangestore {lex} {lex} {lexfrom} {lexfrom} bylex [limit {index} {index}]",
		"zremrangebyrank {zset} {index} {index}", "zremrangebyscore {zset} {from} {from}", "zremrangebylex {lex} {lexfrom} {lexfrom}",
		"zpopmin {zset} [{count}]", "zpopmax {zset} [{count}]", "zmpop {zsets} (min|max) [count {count}]",
		"zrandmember {zset} [{count}|{count} withscores]", "zrandmember {zset} {integer} [withscores]",
		"zunion {weightedzsets} [aggregate (sum|min|max)] [withscores]", "zinter {weightedzsets} [aggregate (sum|min|max)] [withscores]",
		"zunionstore {zset} {weightedzsets} [aggregate (sum|min|max)]", "zinterstore {zset} {weightedzsets} [aggregate (sum|min|max)]",
		"zdiff {zsets} [withscores]", "zdiffstore {zset} {zsets}", "zintercard {zsets} [limit {small}]", "zunion {setsandzsets} [withscores]",
		"zinter {setsandzsets} [withscores]", "zdiff {setsandzsets} [withscores]",
		"zrange {zset} ({from} {lexfrom}|{index} {from}) [byscore|bylex] [rev] [limit {index} {index}] [withscores]",
	}},
	// STOREDIST isn't here: the last bits of a distance are the C library's, and stay in the set
	// that is stored.
	{"geo", 5, []string{
		"geoadd {geo} <{longitude} {latitude} {place}>+", "geoadd {geo} <{longitude} {latitude} {place}>+60", "geoadd {geo} [nx|xx] [ch] <{longitude} {latitude} {place}>+",
		"geodist {geo} {place} {place} [{unit}]", "geopos {geo} <{place}>+", "geohash {geo} <{place}>+", "geopos {zset} <{member}>+", "geohash {geo} <{member}>+",
		"geosearch {geo} {geocenter} {geoshape} [asc|desc] [count {count}|count {count} any] [withcoord] [withdist] [withhash]",
		"geosearch {geo} {geoshape} {geocenter} [withhash] [withdist] [count {count}] [asc|desc]", "geosearch {zset} {geocenter} {geoshape} [asc]",
		"geosearchstore {geo} {geo} {geocenter} {geoshape} [asc|desc] [count {count}|count {count} any]", "geosearchstore {zset} {geo} {geocenter} {geoshape}",
		"georadius {geo} {longitude} {latitude} {length} {unit} [withcoord] [withdist] [withhash] [count {count}|count {count} any] [asc|desc]",
		"georadius {geo} {longitude} {latitude} {length} {unit} [count {count}] [asc|desc] store {geo}",
		"georadius_ro {geo} {longitude} {latitude} {length} {unit} [withdist] [asc|desc] [count {count}]",
		"georadiusbymember {geo} {place} {length} {unit} [withcoord] [withdist] [count {count}] [asc|desc]", "georadiusbymember {geo} {place} {length} {unit} store {geo}",
		"georadiusbymember_ro {geo} {place} {length} {unit} [withdist] [asc|desc]", "zrange {geo} 0 -1 withscores", "zrem {geo} <{place}>+",
	}},
	// Which nodes MAXLEN ~ removes depends on what a payload has told of them, so it isn't here,
	// nor is what counts consumers: 7.2 makes those who ask in vain. XSETID below what was deleted
	// is an error since 7.2.
	{"streams", 14, []string{
		"xadd {stream} {streamid} <{field} {value}>+", "xadd {stream} {streamid} <{field} {value}>+", "xadd {stream} {streamid} <{field} {value}>+",
		"xadd {stream} [nomkstream] [maxlen {small}|maxlen = {count}] {streamid} <{field} {value}>+",
		"xlen {stream}", "xrange {stream} {streamfrom} {streamfrom} [count {count}]", "xrevrange {stream} {streamfrom} {streamfrom} [count {count}]",
		"xrange {stream} - +", "xread [count {count}] streams {stream} {stream} {streamid} {streamid}", "xread [count {count}] streams {stream} $",
		"xtrim {stream} maxlen {count}", "xtrim {stream} minid {streamid}", "xdel {stream} <{streamid}>+",
		"xgroup create {stream} {group} (0|$|{streamid}) [mkstream] [entriesread {count}]", "xgroup create {stream} {group} 0 mkstream", "xgroup create {stream} {group} 0 mkstream", "xgroup setid {stream} {group} (0|$|{streamid})",
		"xgroup destroy {stream} {group}", "xgroup delconsumer {stream} {group} {consumer}",
		"xack {stream} {group} <{streamid}>+", "xpending {stream} {group}",
		"xadd {stream} {laterid} {field} {value}", "xadd {stream} {laterid} {field} {value}", "xreadgroup group {group} {consumer} [count {small}] streams {stream} {groupfrom}",
		"xpending {stream} {group} - + {count} [{consumer}]", "xack {stream} {group} <{recentid}>+",
		"xclaim {stream} {group} {consumer} 0 <{recentid}>+ [force] [justid] [retrycount {count}]",
		"xpending {stream} {group} {streamfrom} {streamfrom} {small} [{consumer}]",
		"xreadgroup group {group} {consumer} [count {count}] [noack] streams {stream} {groupfrom}",
		"xclaim {stream} {group} {consumer} 0 <{streamid}>+ [force] [justid] [retrycount {count}]", "xautoclaim {stream} {group} {consumer} 0 (0|{streamid}) [count {count}] [justid]",
		"debug digest-value {stream}",
	}},
	// Collections of some thousand elements, past all limits under which they are packed.
	{"large collections", 8, []string{
		"rpush {biglist} <{element}>+2000", "rpush {biglist} <{value}>+300", "lpush {biglist} <{member}>+900", "linsert {biglist} (before|after) {member} {value}",
		"lset {biglist} {bigindex} {value}", "lindex {biglist} {bigindex}", "lindex {biglist} {bigindex}", "lrange {biglist} {bigindex} {bigindex}",
		"lrem {biglist} {index} {member}", "ltrim {biglist} {small} {bigindex}", "ltrim {biglist} {small} -{small}", "lpop {biglist} [{bigcount}]", "rpop {biglist} [{bigcount}]",
		"lpos {biglist} {member} [rank {index}] [count {count}] [maxlen {bigcount}]", "lmove {biglist} {biglist} (left|right) (left|right)",
		"lmove {biglist} {list} (left|right) (left|right)", "lmpop 1 {biglist} (left|right) count {bigcount}", "llen {biglist}",
		"hset {bighash} <{element} {value}>+300", "hset {bighash} <{element} {member}>+900", "hdel {bighash} <{element}>+300", "hmget {bighash} <{element}>+20",
		"hincrby {bighash} {element} {integer}", "hgetall {bighash}", "hlen {bighash}", "hrandfield {bighash} {count} [withvalues]", "@hscan {bighash} [count {bigcount}]",
		"sadd {bigset} <{element}>+900", "sadd {bigset} <{bigcount}>+900", "srem {bigset} <{element}>+300", "srem {bigset} <{bigcount}>+300", "smismember {bigset} <{element}>+20",
		"scard {bigset}", "smembers {bigset}", "spop {bigset} {bigcount}", "srandmember {bigset} {bigcount}", "sinterstore {bigset} {bigset} {bigset}",
		"sunionstore {bigset} {bigset} {set}", "sdiff {bigset} {set} {bigset}", "sintercard 2 {bigset} {bigset} limit {bigcount}", "@sscan {bigset}", "smove {bigset} {bigset} {element}",
		"zadd {bigzset} <{score} {element}>+500", "zadd {bigzset} <{bigindex} {element}>+900", "zadd {bigzset} [nx|xx] [gt|lt] ch <{bigindex} {element}>+300", "zincrby {bigzset} {bigindex} {element}",
		"zrem {bigzset} <{element}>+300", "zrank {bigzset} {element}", "zrevrank {bigzset} {element}", "zcard {bigzset}", "zscore {bigzset} {element}",
		"zcount {bigzset} {bigindex} {bigindex}", "zrange {bigzset} {bigindex} {bigindex} [rev] [withscores]", "zrange {bigzset} {bigindex} {bigindex} byscore [rev] [limit {bigindex} {bigindex}]",
		"zrangebyscore {bigzset} {from} {from} [limit {bigcount} {bigcount}]", "zremrangebyrank {bigzset} {bigindex} {bigindex}", "zremrangebyscore {bigzset} {from} {bigindex}",
		"zpopmin {bigzset} [{bigcount}]", "zpopmax {bigzset} [{bigcount}]", "zrangestore {zset} {bigzset} {bigindex} {bigindex} [rev]", "zrandmember {bigzset} {count}",
		"zunionstore {bigzset} 2 {bigzset} {zset}", "zinterstore {bigzset} 2 {bigzset} {bigset} aggregate (sum|min|max)", "zdiffstore {bigzset} 2 {bigzset} {zset}", "@zscan {bigzset}",
		"sort {bigset} [alpha] limit {bigcount} {count}", "sort {biglist} alpha limit {bigcount} {count}", "sort {bigset} alpha store {biglist}",
		"(copy|rename) {big} {big}", "copy {big} {big} db {database} replace", "(del|unlink) {big}", "move {big} {database}", "@exchange {big}", "object encoding {big}", "debug digest-value {big}",
	}},
	{"sort", 3, []string{
		"sort {sortable} [by {sortpattern}] [limit {index} {index}] <get {sortpattern}|get #|>+2 [asc|desc] [alpha] [store {list}]",
		"sort {sortable} [asc|desc] [alpha]", "sort_ro {sortable} [by {sortpattern}] [limit {index} {index}] <get {sortpattern}|get #|>+2 [asc|desc] [alpha]",
		"set {weight} {number}", "hset {weight} {field} {number}", "sort {sortable} alpha [desc] store {list}", "sort {zset} by nosort [desc] [limit {index} {index}]",
	}},
	{"databases", 3, []string{
		"select {database}", "select {database}", "swapdb {database} {database}", "move {key} {database}", "flushdb [sync|async]",
		"copy {key} {key} db {database} replace", "select {database}", "swapdb {database} {database}", "flushall [sync|async]", "move {key} {database}",
	}},
	{"connections", 3, []string{
		"ping [{value}]", "echo {value}", "hello [2|3]", "hello (2|3) [auth default {value}] [setname {value}]", "client (getname|id)", "client setname {value}", "client no-evict (on|off)",
		"command getkeys {command}", "command getkeysandflags {command}", "command info {name}", "command count", "time", "wait 0 0",
		"config get {option}", "config set {option} {badnumber}", "reset", "object help x", "{name}", "{name} {value}", "auth {value}",
		"acl (whoami|users|list|cat)", "acl getuser {value}", "acl getuser default", "acl dryrun default {command}", "module list", "debug error {value}",
		"client kill (1.2.3.4:5|id 999999|addr 1.2.3.4:5|type pubsub|user nobody) [skipme (yes|no)]", "client unblock 999999 [timeout|error]", "client list (id 999999|type pubsub|{value})",
		"client pause (0|-1|abc) [all|write]", "client (unpause|getredir|trackinginfo)", "client tracking off",
		"slowlog (reset|get -2|get abc)", "latency (latest|reset|history {value}|graph {value})", "debug (sleep 0|set-active-expire 1)",
		"command list filterby aclcat (hash|string|set|bitmap|hyperloglog|transaction)", "slowlog {name}", "latency {name}", "acl {name}",
		"client {name}", "object {name}", "command {name}", "config {name}", "debug {name}", "memory {name}", "{value} {value}",
	}},
}
