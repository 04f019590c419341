package keyevent

// Name is the name of an event.
type Name uint8

// The names. Those that no command sends yet aren't here.
const (
	// Changed is for a change without a name; nobody is told of it by name.
	Changed Name = iota
	// Unseen is for a change of what groups of a stream know, or of how a HyperLogLog is kept. As
	// in Redis, it is none for who watches the key, or has it in a cache.
	Unseen
	// Awaited is Unseen for what those are told of who wait for a group's entries: its end, and
	// what has been pending for longer at once (XCLAIM's IDLE).
	Awaited
	// Removed: the key is gone; nobody is told of it by this name.
	Removed
	// Expired: the key was removed since its time had come.
	Expired
	// New: there was no such key before.
	New
	// KeyMiss: a command looked for a key to read it, and there was none.
	KeyMiss

	Del
	RenameFrom
	RenameTo
	MoveFrom
	MoveTo
	CopyTo
	Restore
	Expire
	Persist

	StringSet
	SetRange
	SetBit
	Append
	IncrBy
	IncrByFloat
	PFAdd

	LPush
	RPush
	LPop
	RPop
	LInsert
	LSet
	LRem
	LTrim
	SortStore

	SAdd
	SRem
	SPop
	SInterStore
	SUnionStore
	SDiffStore

	HSet
	HDel
	HIncrBy
	HIncrByFloat
	HExpire
	HExpired
	HPersist

	ZAdd
	ZIncr
	ZRem
	ZPopMin
	ZPopMax
	ZRemRangeByRank
	ZRemRangeByScore
	ZRemRangeByLex
	ZInterStore
	ZUnionStore
	ZDiffStore
	ZRangeStore
	GeoRadiusStore
	GeoSearchStore

	XAdd
	XDel
	XTrim
	XSetID
	XGroupCreate
	XGroupSetID
	XGroupDestroy
	XGroupCreateConsumer
	XGroupDelConsumer
)

// name is what a Name stands for.
type name struct {
	text   string
	class  Classes
	stores bool // a result takes the place of a key: when it is empty, nothing but the key's end is told
}

var names = [...]name{
	Expired: {text: "expired", class: Expiry},
	New:     {text: "new", class: Creation},
	KeyMiss: {text: "keymiss", class: Miss},

	Del:        {text: "del", class: Generic},
	RenameFrom: {text: "rename_from", class: Generic},
	RenameTo:   {text: "rename_to", class: Generic},
	MoveFrom:   {text: "move_from", class: Generic},
	MoveTo:     {text: "move_to", class: Generic},
	CopyTo:     {text: "copy_to", class: Generic},
	Restore:    {text: "restore", class: Generic},
	Expire:     {text: "expire", class: Generic},
	Persist:    {text: "persist", class: Generic},

	StringSet:   {text: "set", class: String},
	SetRange:    {text: "setrange", class: String},
	SetBit:      {text: "setbit", class: String},
	Append:      {text: "append", class: String},
	IncrBy:      {text: "incrby", class: String},
	IncrByFloat: {text: "incrbyfloat", class: String},
	PFAdd:       {text: "pfadd", class: String},

	LPush:     {text: "lpush", class: List},
	RPush:     {text: "rpush", class: List},
	LPop:      {text: "lpop", class: List},
	RPop:      {text: "rpop", class: List},
	LInsert:   {text: "linsert", class: List},
	LSet:      {text: "lset", class: List},
	LRem:      {text: "lrem", class: List},
	LTrim:     {text: "ltrim", class: List},
	SortStore: {text: "sortstore", class: List, stores: true},

	SAdd:        {text: "sadd", class: Set},
	SRem:        {text: "srem", class: Set},
	SPop:        {text: "spop", class: Set},
	SInterStore: {text: "sinterstore", class: Set, stores: true},
	SUnionStore: {text: "sunionstore", class: Set, stores: true},
	SDiffStore:  {text: "sdiffstore", class: Set, stores: true},

	HSet:         {text: "hset", class: Hash},
	HDel:         {text: "hdel", class: Hash},
	HIncrBy:      {text: "hincrby", class: Hash},
	HIncrByFloat: {text: "hincrbyfloat", class: Hash},
	HExpire:      {text: "hexpire", class: Hash},
	HExpired:     {text: "hexpired", class: Hash},
	HPersist:     {text: "hpersist", class: Hash},

	ZAdd:             {text: "zadd", class: SortedSet},
	ZIncr:            {text: "zincr", class: SortedSet},
	ZRem:             {text: "zrem", class: SortedSet},
	ZPopMin:          {text: "zpopmin", class: SortedSet},
	ZPopMax:          {text: "zpopmax", class: SortedSet},
	ZRemRangeByRank:  {text: "zremrangebyrank", class: SortedSet},
	ZRemRangeByScore: {text: "zremrangebyscore", class: SortedSet},
	ZRemRangeByLex:   {text: "zremrangebylex", class: SortedSet},
	ZInterStore:      {text: "zinterstore", class: SortedSet, stores: true},
	ZUnionStore:      {text: "zunionstore", class: SortedSet, stores: true},
	ZDiffStore:       {text: "zdiffstore", class: SortedSet, stores: true},
	ZRangeStore:      {text: "zrangestore", class: SortedSet, stores: true},
	GeoRadiusStore:   {text: "georadiusstore", class: SortedSet, stores: true},
	GeoSearchStore:   {text: "geosearchstore", class: SortedSet, stores: true},

	XAdd:                 {text: "xadd", class: Stream},
	XDel:                 {text: "xdel", class: Stream},
	XTrim:                {text: "xtrim", class: Stream},
	XSetID:               {text: "xsetid", class: Stream},
	XGroupCreate:         {text: "xgroup-create", class: Stream},
	XGroupSetID:          {text: "xgroup-setid", class: Stream},
	XGroupDestroy:        {text: "xgroup-destroy", class: Stream},
	XGroupCreateConsumer: {text: "xgroup-createconsumer", class: Stream},
	XGroupDelConsumer:    {text: "xgroup-delconsumer", class: Stream},
}

// String is the name as it is told.
func (n Name) String() string { return names[n].text }

// Class is the class of events that are told by the name; Changed, Unseen, Awaited and Removed
// are of none.
func (n Name) Class() Classes { return names[n].class }

// IsSeen reports whether it is an event for who watches the key, or has it in a cache.
func (n Name) IsSeen() bool { return n != Unseen && n != Awaited }

// Stores reports whether it is the event of a result that takes the place of a key.
func (n Name) Stores() bool { return names[n].stores }
