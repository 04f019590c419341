// Package differential sends the same random commands to redis-server and to the server under test
// and compares every reply, byte for byte but for what knowndifferences.go lists, and the whole
// data sets by DEBUG DIGEST. A history that shows a difference is reduced to a short one.
//
//	go test ./redis-tests/differential -run '^TestDifferential$' -args -commands=1000000 -seed=7
//
// It imports the standard library and its neighbours in redis-tests, nothing of Kedis.
package differential

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"kedis/redis-tests/launch"
	"kedis/redis-tests/resp"
)

// What the driver does itself, beyond sending a request:
//
//	@scan, @hscan key, @sscan key, @zscan key  walks with the options that follow until the cursor is 0, on both servers, and compares what was seen
//	@exchange key   lets each server RESTORE the other's DUMP and compares the digests, and the bytes where both store the value alike
//	@restore from to ttl  sends both the DUMP of one of them, at times with a wrong byte, in a RESTORE with the options that follow
//	@short key      a short expiry; @pause behind it waits until it is over
//	@digest         compares DEBUG DIGEST
//	@crash          kills the server under test, starts it again and compares DEBUG DIGEST
const (
	shortExpiry   = 10 * time.Millisecond
	pause         = 12 * time.Millisecond
	patience      = 10 * time.Second // until both servers have removed what is expired
	impatience    = 2 * time.Second  // the same while a history is reduced, which takes many runs
	exchangeKey   = "exchanged"
	databaseCount = 16
)

// isOwn tells the driver's own doings from requests whose name happens to begin with @.
func isOwn(line []string) bool {
	switch line[0] {
	case "@scan", "@hscan", "@sscan", "@zscan", "@exchange", "@restore", "@short", "@pause", "@digest", "@crash":
		return true
	}
	return false
}

// side is one of the two servers, with its connections.
type side struct {
	server      *launch.Server
	options     []string // that the server was first started with
	connections []*resp.Connection
}

// Driver runs steps on both servers.
type Driver struct {
	oracle, underTest side
	transactions      []transaction // for each connection
	epoch             uint64
	patience          time.Duration
	Hits              map[string]int // how often each known difference was met
	// Tier are the numbers that INFO has of the memory in front of RocksDB, of all processes that
	// have been killed, and of the one that runs when CountTier was called.
	Tier map[string]int64
	// Redis72 says that the server under test isn't Kedis but a Redis 7.2, to try this list of
	// differences on: that one computes digests of scores otherwise, and guesses from the number of
	// arguments how large a collection will become.
	Redis72 bool
}

// transaction is what a connection has queued since its MULTI.
type transaction struct {
	open   bool
	queued [][]string
}

// Difference says that the two servers don't agree.
type Difference struct {
	Step      Step
	Reason    string
	Want, Got string
}

func (d *Difference) String() string {
	want, got := strings.Split(d.Want, "\n"), strings.Split(d.Got, "\n")
	same := 0
	for same < min(len(want), len(got)) && want[same] == got[same] {
		same++
	}
	return fmt.Sprintf("%s\n  %s\nredis-server:\n%s\nserver under test:\n%s", d.Reason, line(d.Step), excerpt(want, same), excerpt(got, same))
}

// excerpt shows the lines of a reply from shortly before where it differs.
func excerpt(lines []string, differs int) string {
	const before, after, width = 2, 12, 4000
	from, to := max(0, differs-before), min(len(lines), differs+after)
	text := "  " + strings.Join(lines[from:to], "\n  ")
	if len(text) > width {
		text = text[:width] + "…"
	}
	if from > 0 || to < len(lines) {
		text += fmt.Sprintf("\n  (lines %d to %d of %d)", from+1, to, len(lines))
	}
	return text
}

// line shows a step as scripts do, but for long arguments that aren't one byte repeated: of those
// only the beginning.
func line(s Step) string {
	const longest = 200
	words := []string{s.Line[0]}
	for i, argument := range s.Line {
		shown := resp.Line([]string{argument})
		switch {
		case i == 0 && isOwn(s.Line):
			continue
		case len(shown) > longest:
			shown = fmt.Sprintf("%s… (%d bytes)", shown[:40], len(argument))
		}
		words = append(words[:i], shown)
	}
	text := strings.Join(words, " ")
	joined := ""
	if s.Joined {
		joined = "+ "
	}
	return fmt.Sprintf("%s[%d] %s", joined, s.Connection+1, text)
}

// NewDriver returns a driver of two running servers.
func NewDriver(oracle, underTest *launch.Server) *Driver {
	return &Driver{oracle: side{server: oracle, options: oracle.Options}, underTest: side{server: underTest, options: underTest.Options}, patience: patience, Hits: map[string]int{}, Tier: map[string]int64{}}
}

// limitOptions are set on both servers when an epoch begins, and given to a server that starts
// within it. They change from epoch to epoch, so that collections move from one encoding to another
// early in some and late in others.
func limitOptions(epoch uint64) []string {
	limits := []string{"4", "8", "16", "128"}
	limit := limits[epoch%uint64(len(limits))]
	turn := epoch / uint64(len(limits)) % 2
	return []string{"hash-max-listpack-entries", limit, "zset-max-listpack-entries", limit, "set-max-intset-entries", limit,
		"hash-max-listpack-value", "64", "zset-max-listpack-value", []string{"64", "8"}[turn],
		"list-max-listpack-size", []string{"-2", "4", "-1", "100"}[epoch%4], "hll-sparse-max-bytes", []string{"3000", "300", "0", "16000"}[(epoch+turn)%4]}
}

// limitOptions are those of both servers and, of Kedis, those that Redis 7.2 has and the oracle
// hasn't.
func (s *side) limitOptions(epoch uint64) []string {
	options := limitOptions(epoch)
	if s.server.Program.IsRedis {
		return options
	}
	return append(options, "set-max-listpack-entries", []string{"128", "4", "0", "16"}[epoch%4])
}

// Begin empties both servers and opens new connections.
func (d *Driver) Begin(epoch uint64) error {
	for _, s := range []*side{&d.oracle, &d.underTest} {
		if err := s.begin(epoch, d.patience); err != nil {
			return err
		}
	}
	d.transactions, d.epoch = make([]transaction, connections), epoch
	return nil
}

func (s *side) begin(epoch uint64, patience time.Duration) error {
	if !s.server.Running() {
		if err := s.restart(epoch); err != nil {
			return err
		}
	}
	if err := s.dial(patience); err != nil {
		return err
	}
	for _, empty := range [][]string{{"flushall"}, {"function", "flush"}} {
		if _, err := s.connections[0].Must(empty...); err != nil {
			return err
		}
	}
	if !s.server.Program.IsRedis {
		// What a crash in this epoch makes it repeat from its log is to have been done under this
		// epoch's limits.
		if _, err := s.connections[0].Must("save"); err != nil {
			return err
		}
	}
	if _, err := s.connections[0].Must(append([]string{"config", "set"}, s.limitOptions(epoch)...)...); err != nil {
		return err
	}
	// One connection speaks RESP3.
	_, err := s.connections[connections-1].Must("hello", "3")
	return err
}

// restart starts a server that has ended, on its data. What it replays from its log is to be stored
// under the limits that held before.
func (s *side) restart(epoch uint64) error {
	options := slices.Clone(s.options)
	for i, word := range s.limitOptions(epoch) {
		if i%2 == 0 {
			word = "--" + word
		}
		options = append(options, word)
	}
	restarted, err := s.server.Program.Start(s.server.Directory, options...)
	if err != nil {
		return err
	}
	s.server = restarted
	return nil
}

// ownConnection is one that no step is sent on, so that no transaction is ever open on it.
const ownConnection = connections

func (s *side) dial(patience time.Duration) error {
	s.Close()
	for range connections + 1 {
		connection, err := s.server.Dial()
		if err != nil {
			return err
		}
		connection.SetTimeout(3 * patience)
		s.connections = append(s.connections, connection)
	}
	return nil
}

// Close closes the connections of one side.
func (s *side) Close() {
	for _, connection := range s.connections {
		connection.Close()
	}
	s.connections = nil
}

// Close closes all connections.
func (d *Driver) Close() {
	d.oracle.Close()
	d.underTest.Close()
}

// Batches splits steps into those that are sent in one write.
func Batches(steps []Step) [][]Step {
	var batches [][]Step
	for i, step := range steps {
		if i > 0 && step.Joined && step.Connection == steps[i-1].Connection {
			last := len(batches) - 1
			batches[last] = append(batches[last], step)
		} else {
			batches = append(batches, []Step{step})
		}
	}
	return batches
}

// Do runs a batch of steps. It returns nil when the servers agree. What can't be done, since a
// server is gone, is a difference too.
func (d *Driver) Do(batch []Step) *Difference {
	if first := batch[0]; isOwn(first.Line) {
		return d.own(first)
	}
	if len(batch) == 1 && d.skips(batch[0]) {
		return nil
	}
	connection := batch[0].Connection
	if sorts(batch[0].Line) {
		if err := d.forgetError(connection); err != nil {
			return d.broken(batch[0], &d.oracle, err)
		}
	}
	for _, s := range []*side{&d.oracle, &d.underTest} {
		for _, step := range batch {
			s.connections[connection].Queue(step.Line...)
		}
		if err := s.connections[connection].Flush(); err != nil {
			return d.broken(batch[0], s, err)
		}
	}
	for _, step := range batch {
		want, got, difference := d.read(step)
		if difference == nil {
			difference = d.judge(step, want, got, len(batch) == 1)
		}
		if difference != nil {
			return difference
		}
	}
	return nil
}

// skips leaves out what would make the data differ for good, or can't be made equal within a
// transaction: SPOP, SORT, PFADD of several elements and DBSIZE (see equalAfterAWhile) there;
// writes by ranges of names where scores differ, which mean nothing (see differentScores); storing
// what SORT ALPHA takes for equal (see sortWithoutOrder); and what Redis 7.0 refuses when it is
// queued.
func (d *Driver) skips(step Step) bool {
	name := strings.ToLower(step.Line[0])
	var elements []string
	switch {
	case d.transactions[step.Connection].open && (name == "spop" || name == "dbsize" || name == "pfadd" && len(step.Line) > 3 || sorts(step.Line) || refusedWhenQueued(step.Line)):
		return true
	case len(step.Line) < 4:
		return false
	case name == "zrangestore" && has(step.Line, "bylex"):
		elements = []string{"zrange", step.Line[2], "0", "-1", "withscores"}
	case name == "zremrangebylex":
		elements = []string{"zrange", step.Line[1], "0", "-1", "withscores"}
	case name == "sort" && has(step.Line, "store") && has(step.Line, "alpha"):
		elements = []string{"sort_ro", step.Line[1], "alpha"}
	default:
		return false
	}
	if d.transactions[step.Connection].open {
		return true
	}
	all, err := d.oracle.connections[step.Connection].Do(elements...)
	if name == "sort" {
		return err != nil || bytes.Contains(all.Raw, []byte{0})
	}
	return err != nil || unequalScores(all)
}

// refusedWhenQueued reports whether Redis 7.0, unlike 7.2, finds a wrong number of arguments, and
// so refuses the transaction that a command is in.
func refusedWhenQueued(line []string) bool {
	switch strings.ToLower(line[0]) {
	case "zrank", "zrevrank":
		return len(line) > 3
	case "command":
		return len(line) == 3
	}
	return false
}

func (d *Driver) read(step Step) (want, got resp.Reply, difference *Difference) {
	want, err := d.oracle.connections[step.Connection].Read()
	if err != nil {
		return want, got, d.broken(step, &d.oracle, err)
	}
	got, err = d.underTest.connections[step.Connection].Read()
	if err != nil {
		return want, got, d.broken(step, &d.underTest, fmt.Errorf("%w; redis-server answered %s", err, want))
	}
	return want, got, nil
}

// broken says that a server didn't answer. Its process gets a moment to end, so that what it said
// last is in the output.
func (d *Driver) broken(step Step, s *side, err error) *Difference {
	time.Sleep(100 * time.Millisecond)
	text := err.Error()
	if !s.server.Running() {
		text += "; the process has ended:\n" + s.server.Output()
	}
	if s == &d.oracle {
		return &Difference{Step: step, Reason: "redis-server didn't answer", Want: text}
	}
	return &Difference{Step: step, Reason: "the server under test didn't answer", Got: text}
}

// judge compares the replies to one request and keeps up with what they say about transactions.
func (d *Driver) judge(step Step, want, got resp.Reply, alone bool) *Difference {
	name := strings.ToLower(step.Line[0])
	queue := &d.transactions[step.Connection]
	x := &exchange{line: step.Line, want: want, got: got, driver: d}
	if alone && !queue.open {
		x.ask = func(arguments ...string) (resp.Reply, resp.Reply, error) { return d.ask(step.Connection, arguments...) }
	}
	reason := ""
	if name == "exec" && queue.open {
		reason = x.compareTransaction(queue.queued)
	} else {
		reason = x.compare()
	}
	queue.follow(step.Line, want)
	if reason == "" && name == "spop" && x.ask != nil {
		reason = d.evenOut(step, want, got)
	}
	if reason == "" && name == "pfadd" && x.ask != nil && strings.HasPrefix(string(got.Text), "INVALIDOBJ") {
		reason = d.forget(step)
	}
	if reason == "" && sorts(step.Line) && x.ask != nil && len(step.Line) > 1 {
		reason = d.pack(step)
	}
	if reason == "" {
		return nil
	}
	return &Difference{Step: step, Reason: reason, Want: want.String(), Got: got.String()}
}

// follow keeps track of a transaction from the oracle's reply to a request.
func (t *transaction) follow(request []string, reply resp.Reply) {
	switch name := strings.ToLower(request[0]); {
	case reply.Is("QUEUED"):
		t.queued = append(t.queued, request)
	case name == "multi" && reply.Is("OK"):
		*t = transaction{open: true}
	case name == "exec" && !strings.HasPrefix(string(reply.Text), "ERR wrong number"), name == "discard" && reply.Is("OK"), name == "reset" && reply.Is("RESET"):
		*t = transaction{}
	}
}

// ask sends one more request to both servers.
func (d *Driver) ask(connection int, arguments ...string) (want, got resp.Reply, err error) {
	want, err = d.oracle.connections[connection].Do(arguments...)
	if err == nil {
		got, err = d.underTest.connections[connection].Do(arguments...)
	}
	return want, got, err
}

// own does what isn't a request.
func (d *Driver) own(step Step) *Difference {
	if d.transactions[step.Connection].open && !slices.Contains([]string{"@pause", "@crash", "@digest"}, step.Line[0]) {
		return nil
	}
	difference := &Difference{Step: step}
	var err error
	switch step.Line[0] {
	case "@pause":
		time.Sleep(pause)
	case "@short":
		request := Step{Connection: step.Connection, Line: []string{"pexpire", step.Line[1], strconv.Itoa(1 + int(step.Random%uint64(shortExpiry.Milliseconds())))}}
		return d.Do([]Step{request})
	case "@scan", "@hscan", "@sscan", "@zscan":
		err = d.walk(step, difference)
	case "@exchange":
		if d.Redis72 {
			return nil
		}
		err = d.exchangeDumps(step, difference)
	case "@restore":
		return d.restore(step)
	case "@digest":
		err = d.compareDigests(difference)
	case "@crash":
		err = d.crash(difference)
	default:
		panic("differential: nothing is called " + step.Line[0])
	}
	if err != nil {
		return d.broken(step, &d.underTest, err)
	}
	if difference.Reason == "" {
		return nil
	}
	return difference
}

// walk iterates a SCAN to its end on both servers.
func (d *Driver) walk(step Step, difference *Difference) error {
	var seen [2]map[string]bool
	var first [2]resp.Reply
	for i, s := range []*side{&d.oracle, &d.underTest} {
		var err error
		if first[i], seen[i], err = scanAll(s.connections[step.Connection], step.Line); err != nil {
			return err
		}
	}
	if first[0].IsError() || first[1].IsError() {
		if string(first[0].Raw) != string(first[1].Raw) {
			difference.Reason, difference.Want, difference.Got = "replies differ", first[0].String(), first[1].String()
		}
		return nil
	}
	if missing, additional := subtract(seen[0], seen[1]), subtract(seen[1], seen[0]); len(missing)+len(additional) > 0 {
		difference.Reason = "the walks saw different things"
		difference.Want, difference.Got = fmt.Sprintf("only here: %q", missing), fmt.Sprintf("only here: %q", additional)
	}
	return nil
}

// scanAll returns the first reply and everything that a walk returned: keys, members, or pairs
// joined by NUL.
func scanAll(connection *resp.Connection, step []string) (first resp.Reply, seen map[string]bool, err error) {
	const enough = 100_000 // rounds; a cursor that runs in a circle would never end
	seen = map[string]bool{}
	keys, width := 1, 1
	if step[0] == "@scan" {
		keys = 0
	}
	if step[0] == "@hscan" || step[0] == "@zscan" {
		width = 2
	}
	cursor := "0"
	for round := range enough {
		request := slices.Concat([]string{step[0][1:]}, step[1:1+keys], []string{cursor}, step[1+keys:])
		reply, err := connection.Do(request...)
		if err != nil {
			return reply, nil, err
		}
		if round == 0 {
			first = reply
		}
		if len(reply.Elements) != 2 {
			return reply, seen, nil
		}
		for group := range slices.Chunk(reply.Elements[1].Strings(), width) {
			if width == 2 && step[0] == "@zscan" && len(group) == 2 {
				group[1] = canonicalScore(group[1])
			}
			seen[strings.Join(group, "\x00")] = true
		}
		if cursor = string(reply.Elements[0].Text); cursor == "0" {
			return first, seen, nil
		}
	}
	return first, nil, fmt.Errorf("differential: a walk didn't end after %d rounds", enough)
}

func subtract(a, b map[string]bool) []string {
	var left []string
	for text := range a {
		if !b[text] {
			left = append(left, text)
		}
	}
	slices.Sort(left)
	return left
}

// exchangeDumps lets each server restore what the other dumped.
func (d *Driver) exchangeDumps(step Step, difference *Difference) error {
	key := step.Line[1]
	want, got, err := d.ask(step.Connection, "dump", key)
	if err != nil || (want.Null && got.Null) {
		return err
	}
	difference.Want, difference.Got = want.String(), got.String()
	if want.Kind != resp.BulkString || got.Kind != resp.BulkString || want.Null || got.Null {
		difference.Reason = "DUMP differs in kind"
		return nil
	}
	fromOracle, err := d.underTest.connections[step.Connection].Do("restore", exchangeKey, "0", string(want.Text), "replace")
	if err != nil {
		return err
	}
	// A Redis under test may write a newer version than the oracle reads; Kedis writes one that it
	// does read.
	back := got.Text
	if d.underTest.server.Program.IsRedis {
		back = want.Text
	}
	fromOther, err := d.oracle.connections[step.Connection].Do("restore", exchangeKey, "0", string(back), "replace")
	if err != nil {
		return err
	}
	if !fromOracle.Is("OK") || !fromOther.Is("OK") {
		difference.Reason = fmt.Sprintf("RESTORE of the other's DUMP: redis-server answered %s, the server under test %s", fromOther, fromOracle)
		return nil
	}
	if difference.Reason, err = d.comparePayloads(step.Connection, key, want.Text, got.Text); err != nil || difference.Reason != "" {
		return err
	}
	if want, got, err = d.ask(step.Connection, "debug", "digest-value", exchangeKey, key); err != nil {
		return err
	}
	if string(want.Raw) != string(got.Raw) {
		difference.Reason, difference.Want, difference.Got = "digests differ after exchanging dumps", want.String(), got.String()
	}
	_, _, err = d.ask(step.Connection, "del", exchangeKey)
	return err
}

// comparePayloads compares the bytes of two dumps of values that both servers store alike and in
// one piece: strings, listpacks, intsets. Since compression is free, the oracle shows what it makes
// of the other's dump, which it has just restored; what isn't compressed is compared as it is, too.
func (d *Driver) comparePayloads(connection int, key string, want, got []byte) (reason string, err error) {
	equal, err := d.storedAlike(connection, key)
	if err != nil || !equal {
		return "", err
	}
	again, err := d.oracle.connections[connection].Do("dump", exchangeKey)
	if err != nil {
		return "", err
	}
	const compressed = 0xc3 // the first byte of a string that is; the type's byte comes before it
	if !bytes.Equal(again.Text, want) || want[1] != compressed && got[1] != compressed && !bytes.Equal(want, got) {
		return "the bytes of DUMP differ", nil
	}
	return "", nil
}

// storedAlike reports whether both servers say that a value is one piece of the same encoding.
// Redis 7.0 writes other digits of scores than 7.2 into a listpack; where it did, the value isn't
// stored alike.
func (d *Driver) storedAlike(connection int, key string) (bool, error) {
	kind, _, err := d.ask(connection, "type", key)
	if err != nil || kind.Is("string") {
		return err == nil, err
	}
	want, got, err := d.ask(connection, "object", "encoding", key)
	if err != nil || string(want.Raw) != string(got.Raw) {
		return false, err
	}
	if kind.Is("zset") && string(want.Text) == "listpack" {
		want, got, err = d.ask(connection, "zrange", key, "0", "-1", "withscores")
		return err == nil && string(want.Raw) == string(got.Raw), err
	}
	return slices.Contains([]string{"listpack", "intset"}, string(want.Text)), nil
}

// restore sends a RESTORE of one server's dump to both.
func (d *Driver) restore(step Step) *Difference {
	want, got, err := d.ask(step.Connection, "dump", step.Line[1])
	if err != nil {
		return d.broken(step, &d.underTest, err)
	}
	if want.Kind != resp.BulkString || got.Kind != resp.BulkString || want.Null || got.Null {
		return nil
	}
	payload := slices.Clone(want.Text)
	if step.Random%2 == 0 && !d.underTest.server.Program.IsRedis {
		payload = slices.Clone(got.Text)
	}
	if step.Random%16 < 2 {
		payload[int(step.Random/16%uint64(len(payload)))] ^= 1 << (step.Random >> 60 % 8)
	}
	request := slices.Concat([]string{"restore", step.Line[2], step.Line[3], string(payload)}, step.Line[4:])
	return d.Do([]Step{{Connection: step.Connection, Line: request}})
}

// compareDigests compares the data sets. What is expired may still be there until a server has got
// round to removing it.
func (d *Driver) compareDigests(difference *Difference) error {
	if d.Redis72 {
		return nil
	}
	var want, got resp.Reply
	var err error
	if d.eventually(func() bool {
		want, got, err = d.ask(ownConnection, "debug", "digest")
		return err != nil || (want.Kind == resp.SimpleString && string(want.Raw) == string(got.Raw))
	}) {
		return err
	}
	difference.Reason, difference.Want, difference.Got = "DEBUG DIGEST differs", want.String(), got.String()
	return d.explainDigests(difference)
}

// explainDigests adds which keys differ.
func (d *Driver) explainDigests(difference *Difference) error {
	if err := d.oracle.dial(d.patience); err != nil {
		return err
	}
	if err := d.underTest.dial(d.patience); err != nil {
		return err
	}
	d.transactions = make([]transaction, connections)
	for database := range databaseCount {
		if _, _, err := d.ask(0, "select", strconv.Itoa(database)); err != nil {
			return err
		}
		want, got, err := d.ask(0, "keys", "*")
		if err != nil {
			return err
		}
		keys := append(want.Strings(), got.Strings()...)
		slices.Sort(keys)
		for _, key := range slices.Compact(keys) {
			if err := d.explainKey(database, key, difference); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *Driver) explainKey(database int, key string, difference *Difference) error {
	want, got, err := d.ask(0, "debug", "digest-value", key)
	if err != nil || string(want.Raw) == string(got.Raw) {
		return err
	}
	request := []string{"pttl", key}
	for range 2 {
		if want, got, err = d.ask(0, request...); err != nil {
			return err
		}
		difference.Want += fmt.Sprintf("\n  %d: %s: %s", database, resp.Line(request), want)
		difference.Got += fmt.Sprintf("\n  %d: %s: %s", database, resp.Line(request), got)
		if want, _, err = d.ask(0, "type", key); err != nil {
			return err
		}
		request = contents(string(want.Text), key)
	}
	return nil
}

// contents is the request that shows what a key of some type holds.
func contents(kind, key string) []string {
	switch kind {
	case "hash":
		return []string{"hgetall", key}
	case "list":
		return []string{"lrange", key, "0", "-1"}
	case "set":
		return []string{"smembers", key}
	case "zset":
		return []string{"zrange", key, "0", "-1", "withscores"}
	case "stream":
		return []string{"xrange", key, "-", "+"}
	}
	return []string{"get", key}
}

// crash kills the server under test and starts it on the same data. All connections are new
// afterwards, on both servers.
func (d *Driver) crash(difference *Difference) error {
	if err := d.CountTier(); err != nil {
		return err
	}
	d.underTest.server.Kill()
	if err := d.underTest.restart(d.epoch); err != nil {
		return err
	}
	if err := d.oracle.dial(d.patience); err != nil {
		return err
	}
	if err := d.underTest.dial(d.patience); err != nil {
		return err
	}
	d.transactions = make([]transaction, connections)
	return d.compareDigests(difference)
}

// CountTier adds up what the process under test counts. It is called before that ends.
func (d *Driver) CountTier() error {
	reply, err := d.underTest.connections[ownConnection].Must("info", "tier")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(reply.Text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if count, err := strconv.ParseInt(value, 10, 64); err == nil {
			d.Tier[name] += count
		}
	}
	return nil
}

// eventually repeats a comparison until it holds, for as long as servers may take to remove what is
// expired.
func (d *Driver) eventually(holds func() bool) bool {
	for deadline := time.Now().Add(d.patience); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if holds() {
			return true
		}
	}
	return false
}
