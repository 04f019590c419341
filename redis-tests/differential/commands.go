package differential

// family is a group of commands that are generated equally often in all; the weight is that of the group.
type family struct {
	name      string
	weight    int
	templates []string
}

// families is what the generator draws from: every command of the core server that answers and whose answer doesn't depend on the machine,
// with all of its options. Sources ({…}) are in sources.go. A template may stand twice to be drawn more often.
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
		"pfadd {hll} <{member}>+200", "get {hll}", "strlen {hll}", "pfdebug (encoding|decode|todense) {hll}",
	}},
	{"keys", 14, []string{
		"del {key}", "del <{key}>+", "unlink <{key}>+", "exists <{key}>+", "touch <{key}>+", "type {key}", "type {key}",
		"rename {key} {key}", "renamenx {key} {key}", "copy {key} {key} [replace|db {database}|db {database} replace]", "copy {key} {key} [replace]",
		"move {key} {database}", "keys {pattern}", "randomkey", "dbsize", "object encoding {key}", "object encoding {key}",
		"object (refcount|freq|idletime) {key}", "memory usage {key} [samples {small}]", "dump {key}", "@exchange {key}", "debug digest-value <{key}>+",
		"@scan [match {pattern}] [count {count}] [type {type}]", "@hscan {hash} [match {pattern}] [count {count}]",
		"@sscan {set} [match {pattern}] [count {count}]", "@zscan {zset} [match {pattern}] [count {count}]",
		"(hscan|sscan|zscan) {key} {badcursor}", "scan {badcursor}", "restore {key} {milliseconds} {value} [replace] [absttl] [idletime {integer}|freq {integer}]",
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
	}},
	{"sort", 3, []string{
		"sort {sortable} [by {sortpattern}] [limit {index} {index}] <get {sortpattern}|get #|>+2 [asc|desc] [alpha] [store {list}]",
		"sort {sortable} [asc|desc] [alpha]", "sort_ro {sortable} [by {sortpattern}] [limit {index} {index}] <get {sortpattern}|get #|>+2 [asc|desc] [alpha]",
		"set {weight} {number}", "hset {weight} {field} {number}", "sort {sortable} alpha [desc] store {list}", "sort {zset} by nosort [desc] [limit {index} {index}]",
	}},
	{"databases", 3, []string{
		"select {database}", "select {database}", "swapdb {database} {database}", "move {key} {database}", "flushdb [sync|async]",
		"copy {key} {key} db {database} replace",
	}},
	{"connections", 3, []string{
		"ping [{value}]", "echo {value}", "hello [2|3]", "client (getname|id)", "client setname {value}", "client no-evict (on|off)",
		"command getkeys {command}", "command getkeysandflags {command}", "command info {name}", "command count", "time", "wait 0 0",
		"config get {option}", "config set {option} {badnumber}", "reset", "object help x", "{name}", "{name} {value}", "auth {value}",
		"acl (whoami|users|list|cat)", "acl getuser {value}", "acl getuser default", "acl dryrun default {command}", "module list", "debug error {value}",
		"client {name}", "object {name}", "command {name}", "config {name}", "debug {name}", "memory {name}", "{value} {value}",
	}},
}
