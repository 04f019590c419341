package main

import (
	"bytes"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"kedis/redis-tests/launch"
)

// workload is one kind of request.
type workload struct {
	name     string
	test     string   // of redis-benchmark's -t; or else
	request  []string // a request of our own, with redis-benchmark's place holders
	prepare  func(*plan, *launch.Server) error
	keys     int                // that place holders stand for; 0: as many as the plan has
	requests float64            // share of the ordinary number of requests: less for what answers much
	anew     bool               // it is prepared before each round, and not only once
	target   float64            // of Redis, at any depth; 0: see targets
	reply    func(*plan) string // what the floor answers
}

// The ratios that issue 4 names, for depths 1, 16 and 64.
var (
	hotReads  = [3]float64{1.2, 1.4, 1.5}
	plainSets = [3]float64{1.0, 1.2, 1.4}
	writes    = [3]float64{1.0, 1.0, 1.0}
	ranges    = [3]float64{0.9, 0.9, 0.9}
)

func targets(name string) [3]float64 {
	switch name {
	case "GET":
		return hotReads
	case "RANDOMKEY":
		return [3]float64{0.1, 0.1, 0.1}
	case "SET":
		return plainSets
	case "LRANGE_100", "HGETALL_100", "HGETALL_100_SHORT", "HGETALL_10_OF_MANY", "ZRANGE_100", "ZREVRANGE_100_OF_MANY",
		"XADD", "XADD_MAXLEN", "XREAD_LAST_10", "XRANGE_10", "XREADGROUP", "XACK", "GEOSEARCH":
		return ranges
	}
	return writes
}

// workloads in the order in which they run. Each begins with what it needs, so that any can run alone.
var workloads = append([]workload{
	{name: "SET", test: "set", requests: 1, reply: status},
	{name: "GET", test: "get", requests: 1, prepare: fillStrings, reply: value},
	{name: "INCR", test: "incr", requests: 1, reply: count},
	{name: "MSET", test: "mset", requests: 0.2, reply: status},
	{name: "HSET", test: "hset", requests: 1, reply: count},
	{name: "SADD", test: "sadd", requests: 1, reply: count},
	{name: "ZADD", test: "zadd", requests: 1, reply: count},
	{name: "LPUSH", test: "lpush", requests: 1, prepare: flush, reply: count},
	{name: "LPOP", test: "lpop", requests: 1, prepare: fillList, anew: true, reply: value},
	{name: "LRANGE_100", test: "lrange_100", requests: 0.1, prepare: flush, reply: values},
	{name: "HGETALL_100", request: []string{"hgetall", "hash100"}, requests: 0.1, prepare: fillHash(wholeText), reply: pairs(wholeText)},
	{name: "HGETALL_100_SHORT", request: []string{"hgetall", "hash100"}, requests: 0.1, prepare: fillHash(shortText), reply: pairs(shortText)},
	{name: "HGETALL_10_OF_MANY", request: []string{"hgetall", "hash:__rand_int__"}, keys: manyHashes, requests: 0.5, prepare: fillHashes, reply: tenPairs},
	{name: "ZRANGE_100", request: []string{"zrange", "zset100", "0", "99"}, requests: 0.1, prepare: fillSortedSet, reply: members},
	{name: "ZREVRANGE_100_OF_MANY", request: []string{"zrevrange", "myzset", "0", "99"}, requests: 0.1, prepare: fillScores, reply: members},
	{name: "GET_ABSENT", request: []string{"get", "absent:__rand_int__"}, keys: unheardOf, requests: 1, prepare: fillOthers, reply: nothing},
	{name: "EXISTS_ABSENT", request: []string{"exists", "absent:__rand_int__"}, keys: unheardOf, requests: 1, prepare: fillOthers, reply: none},
	{name: "HGET_ABSENT", request: []string{"hget", "hash", "absent:__rand_int__"}, keys: unheardOf, requests: 1, prepare: fillOthers, reply: nothing},
	{name: "SET_NEW", request: []string{"set", "key:__rand_int__", "value"}, keys: unheardOf, requests: 2, prepare: flush, anew: true, reply: status},
	{name: "INCR_NEW", request: []string{"incr", "counter:__rand_int__"}, keys: unheardOf, requests: 2, prepare: flush, anew: true, reply: count},
	{name: "HSET_NEW", request: []string{"hset", "hash:__rand_int__", "field", "value"}, keys: unheardOf, requests: 2, prepare: flush, anew: true, reply: count},
	{name: "SADD_NEW", request: []string{"sadd", "set:__rand_int__", "member"}, keys: unheardOf, requests: 2, prepare: flush, anew: true, reply: count},
	{name: "ZADD_NEW", request: []string{"zadd", "zset:__rand_int__", "1", "member"}, keys: unheardOf, requests: 2, prepare: flush, anew: true, reply: count},
	{name: "LPUSH_NEW", request: []string{"lpush", "list:__rand_int__", "element"}, keys: unheardOf, requests: 2, prepare: flush, anew: true, reply: count},
	{name: "RANDOMKEY", request: []string{"randomkey"}, requests: 0.1, prepare: fillStrings, reply: value},
}, slices.Concat(programWorkloads(), collections)...)

// unheardOf is of how many keys one is asked for that nobody has asked for before, nearly always.
const unheardOf = 2_000_000_000

func status(*plan) string  { return "+OK\r\n" }
func count(*plan) string   { return ":1\r\n" }
func none(*plan) string    { return ":0\r\n" }
func nothing(*plan) string { return "$-1\r\n" }
func value(p *plan) string { return bulk(strings.Repeat("x", p.valueSize)) }

// values, pairs and members are a hundred elements of a list, a hash and a sorted set.
func values(p *plan) string { return "*100\r\n" + strings.Repeat(value(p), 100) }
func pairs(most int) func(p *plan) string {
	return func(p *plan) string {
		return "*200\r\n" + strings.Repeat(bulk("field:001")+bulk(text(p, most, 1)), 100)
	}
}
func tenPairs(p *plan) string { return "*20\r\n" + strings.Repeat(bulk("field0")+value(p), 10) }
func members(*plan) string    { return "*100\r\n" + strings.Repeat(bulk("member:001"), 100) }

func bulk(text string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(text), text) }

func flush(_ *plan, server *launch.Server) error {
	_, err := ask(server, "flushall")
	return err
}

// fillStrings writes every key that GET may ask for, and reads them all once: hot means hot.
func fillStrings(p *plan, server *launch.Server) error {
	for _, command := range [][]string{{"set", "key:__rand_int__", "__data__"}, {"get", "key:__rand_int__"}} {
		arguments := []string{"-P", "64", "-n", strconv.Itoa(4 * p.keys), command[0]}
		arguments = append(arguments, p.withData(command[1:])...)
		if err := p.load(server, arguments...); err != nil {
			return err
		}
	}
	return nil
}

// fillOthers writes ten million keys, and a hash of a million fields, among which there are none that are asked for.
func fillOthers(p *plan, server *launch.Server) error {
	if err := flush(p, server); err != nil {
		return err
	}
	for _, c := range []struct {
		count   float64
		request []string
	}{{1e7, []string{"set", "key:__rand_int__", "value"}}, {1e6, []string{"hset", "hash", "field:__rand_int__", "value"}}} {
		arguments := append([]string{"-P", "64", "-r", strconv.Itoa(unheardOf), "-n", strconv.Itoa(int(c.count * p.scale))}, c.request...)
		if err := p.load(server, arguments...); err != nil {
			return err
		}
	}
	return nil
}

// fillList pushes more elements than all of a round's LPOPs can take.
func fillList(p *plan, server *launch.Server) error {
	if err := flush(p, server); err != nil {
		return err
	}
	err := p.load(server, "-P", "64", "-n", strconv.Itoa(p.ordinary(64)), "-t", "lpush")
	return err
}

// wholeText leaves values as large as the plan has them.
const wholeText = 1 << 20

// shortText is a size (bytes) of values of which Redis packs a hash: it is in one piece then.
const shortText = 40

// fillHash makes a hash of 100 values of the plan's size, or of the most, if that is less.
func fillHash(most int) func(p *plan, server *launch.Server) error {
	return func(p *plan, server *launch.Server) error {
		return fill(p, server, "hset", "hash100", func(i int) []string { return []string{fmt.Sprintf("field:%03d", i), text(p, most, i)} })
	}
}

const manyHashes = 100_000

// fillHashes makes nearly all of many hashes with ten fields.
func fillHashes(p *plan, server *launch.Server) error {
	if err := flush(p, server); err != nil {
		return err
	}
	arguments := []string{"-P", "16", "-r", strconv.Itoa(manyHashes), "-n", strconv.Itoa(4 * manyHashes), "hset", "hash:__rand_int__"}
	for i := range 10 {
		arguments = append(arguments, fmt.Sprint("field", i), strings.Repeat("x", p.valueSize))
	}
	err := p.load(server, arguments...)
	return err
}

// fillScores makes a sorted set of the plan's keys.
func fillScores(p *plan, server *launch.Server) error {
	if err := flush(p, server); err != nil {
		return err
	}
	err := p.load(server, "-P", "64", "-n", strconv.Itoa(p.keys), "-t", "zadd")
	return err
}

func fillSortedSet(p *plan, server *launch.Server) error {
	return fill(p, server, "zadd", "zset100", func(i int) []string { return []string{strconv.Itoa(i), fmt.Sprintf("member:%03d", i)} })
}

func fill(p *plan, server *launch.Server, command, key string, element func(int) []string) error {
	if err := flush(p, server); err != nil {
		return err
	}
	request := []string{command, key}
	for i := range 100 {
		request = append(request, element(i)...)
	}
	_, err := ask(server, request...)
	return err
}

// text is a value of the wanted size, or of the most, that differs from the next.
func text(p *plan, most, i int) string { return fmt.Sprintf("%0*d", min(p.valueSize, most), i) }

// ordinary is the number of requests of one run at a depth: some seconds on an ordinary machine.
func (p *plan) ordinary(depth int) int {
	n := 400_000
	switch {
	case depth >= 64:
		n = 3_000_000
	case depth >= 8:
		n = 1_500_000
	}
	return int(float64(n) * p.scale)
}

// share is how many of the ordinary number of requests are sent at a depth. Without pipelining what answers much takes little longer than what
// doesn't, and a run of a tenth of a second tells of its beginning.
func (w *workload) share(depth int) float64 {
	if depth == 1 {
		return max(w.requests, 0.5)
	}
	return w.requests
}

// withData puts a value in the place of __data__, which redis-benchmark itself doesn't for requests of others.
func (p *plan) withData(request []string) []string {
	request = slices.Clone(request)
	for i, word := range request {
		if word == "__data__" {
			request[i] = strings.Repeat("x", p.valueSize)
		}
	}
	return request
}

// sample is what one run of redis-benchmark told.
type sample struct {
	rate                float64 // requests/s
	p50, p95, p99, most float64 // ms
	processor           float64 // us of the server's, for each request
	left                float64 // seconds of processors that were used afterwards
}

// benchmark runs redis-benchmark on a port with what all runs have in common.
func (p *plan) benchmark(port int, arguments ...string) (sample, error) {
	line := append([]string{"-p", strconv.Itoa(port), "-r", strconv.Itoa(p.keys), "-d", strconv.Itoa(p.valueSize),
		"-c", strconv.Itoa(p.clients), "--csv"}, arguments...)
	var standardError bytes.Buffer
	command := exec.Command("redis-benchmark", line...)
	command.Stderr = &standardError
	output, err := command.Output()
	if err != nil {
		return sample{}, fmt.Errorf("redis-benchmark %s: %w: %s", strings.Join(line, " "), err, standardError.String())
	}
	return parse(output)
}

// load has redis-benchmark fill a server, without TLS.
func (p *plan) load(server *launch.Server, arguments ...string) error {
	_, err := p.benchmark(server.Port, arguments...)
	return err
}

// figures is how many columns of redis-benchmark's CSV are figures: requests/s, the mean, the least, p50, p95, p99 and the most ms.
const figures = 7

// parse reads the last row of redis-benchmark's CSV: the rows before it are for what it does to prepare. The title in front is the request as
// it is, quotes included.
func parse(output []byte) (sample, error) {
	lines := strings.Split(strings.TrimSpace(string(output)), "\n")
	columns := strings.Split(strings.Trim(lines[len(lines)-1], `"`), `","`)
	if len(lines) < 2 || len(columns) <= figures {
		return sample{}, fmt.Errorf("redis-benchmark printed %q", output)
	}
	var s sample
	row := columns[len(columns)-figures:]
	for column, field := range map[int]*float64{0: &s.rate, 3: &s.p50, 4: &s.p95, 5: &s.p99, 6: &s.most} {
		var err error
		if *field, err = strconv.ParseFloat(row[column], 64); err != nil {
			return sample{}, fmt.Errorf("redis-benchmark printed %q: %w", output, err)
		}
	}
	return s, nil
}

// result is all rounds of one workload at one depth.
type result struct {
	name     string
	measured string
	depth    int
	target   float64
	samples  [2][]sample
}

// measure runs one workload in turns: who begins changes with each round. Round 0 isn't counted: memory that is used for the first time is
// slow, above all on virtual machines, and so is a reactor that hasn't seen yet what comes. Each run begins when nothing is left of the one before.
func (p *plan) measure(servers *pair, w workload, depth int, raw io.Writer) (result, error) {
	r := result{name: w.name, depth: depth, measured: servers[0].name}
	targets := targets
	if p.encrypted {
		targets = func(string) [3]float64 { return [3]float64{1, 1, 1} }
	}
	switch t := targets(w.name); {
	case w.target > 0:
		r.target = w.target
	case depth >= 64:
		r.target = t[2]
	case depth >= 16:
		r.target = t[1]
	default:
		r.target = t[0]
	}
	requests := max(100, int(w.share(depth)*float64(p.ordinary(depth))))
	arguments := []string{"-P", strconv.Itoa(depth), "-n", strconv.Itoa(requests)}
	if w.keys > 0 {
		arguments = append(arguments, "-r", strconv.Itoa(w.keys))
	}
	if w.test != "" {
		arguments = append(arguments, "-t", w.test)
	} else {
		arguments = append(arguments, p.withData(w.request)...)
	}
	for round := range 1 + p.roundsAt(depth) {
		for turn := range 2 {
			i := (round + turn) % 2
			c := &servers[i]
			if err := p.begin(w, c, round); err != nil {
				return r, err
			}
			before, err := launch.ProcessorTime(c.process())
			if err != nil {
				return r, err
			}
			s, err := p.benchmark(c.port(), slices.Concat(p.clientFlags, arguments)...)
			if err != nil {
				return r, err
			}
			after, err := launch.ProcessorTime(c.process())
			if err != nil {
				return r, err
			}
			s.processor = float64((after - before).Microseconds()) / float64(requests)
			if s.left, err = rest(); err != nil {
				return r, err
			}
			fmt.Fprintf(raw, "%s depth %d round %d %s: %.0f requests/s, p50 %.3f p95 %.3f p99 %.3f max %.3f ms, %.2f us of the server's processor each, %.2f s of processors left\n",
				w.name, depth, round, c.name, s.rate, s.p50, s.p95, s.p99, s.most, s.processor, s.left)
			if round > 0 {
				r.samples[i] = append(r.samples[i], s)
			}
		}
	}
	return r, nil
}

// begin prepares a server for a round, where that is necessary, and waits until that is done. Runs wait for their own ends.
func (p *plan) begin(w workload, c *contestant, round int) error {
	prepares := w.prepare != nil && (round == 0 || w.anew)
	switch {
	case c.floor != nil:
		c.floor.answer(w.reply(p))
	case prepares:
		if err := w.prepare(p, c.server); err != nil {
			return err
		}
	}
	if !prepares {
		return nil
	}
	_, err := rest()
	return err
}

// rates returns a server's rates in ascending order.
func (r result) rates(server int) []float64 {
	var rates []float64
	for _, s := range r.samples[server] {
		rates = append(rates, s.rate)
	}
	slices.Sort(rates)
	return rates
}

// ratio is the first one's median rate divided by Redis's.
func (r result) ratio() float64 { return median(r.rates(0)) / median(r.rates(1)) }

// spread is the lowest and the highest ratio of the rounds, each round's two runs taken together.
func (r result) spread() (least, most float64) {
	var ratios []float64
	for i := range r.samples[0] {
		ratios = append(ratios, r.samples[0][i].rate/r.samples[1][i].rate)
	}
	return slices.Min(ratios), slices.Max(ratios)
}

func (r result) String() string {
	least, most := r.spread()
	return fmt.Sprintf("%-12s depth %2d  %s %9.0f/s  redis %9.0f/s  ratio %.2f (%.2f to %.2f), wanted %.1f",
		r.name, r.depth, r.measured, median(r.rates(0)), median(r.rates(1)), r.ratio(), least, most, r.target)
}

// median of values in ascending order.
func median(values []float64) float64 {
	n := len(values)
	if n%2 == 1 {
		return values[n/2]
	}
	return (values[n/2-1] + values[n/2]) / 2
}

func cores() int { return runtime.NumCPU() }
