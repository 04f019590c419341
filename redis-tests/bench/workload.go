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

// workload is one kind of request, a line of the report.
type workload struct {
	name     string
	test     string   // of redis-benchmark's -t; or else
	request  []string // a request of our own, with place holders
	target   target   // of Redis's requests/s
	requests float64  // share of the ordinary number of requests: less for what answers much
	prepare  func(*plan, *launch.Server) error
	anew     bool               // it is prepared before each round, and not only once
	each     bool               // nearly each of the keys has been asked for when rounds begin to count
	keys     int                // that place holders stand for; 0: as many as the plan has
	takes    int                // elements of a large collection that a request takes away: it must not become empty
	size     int                // bytes of a value; 0: as many as the plan says
	reply    func(*plan) string // what the floor answers to a test; to our own requests it answers what Redis does
}

// Place holders, beside redis-benchmark's own __rand_int__.
const (
	dataHolder    = "__data__"    // a value
	payloadHolder = "__payload__" // DUMP of the key "collection", see client.go
	cursorHolder  = "__cursor__"  // the cursor of a walk, see client.go
)

func status(*plan) string  { return "+OK\r\n" }
func count(*plan) string   { return ":1\r\n" }
func value(p *plan) string { return bulk(strings.Repeat("x", p.valueSize)) }

// values is a hundred elements of a list.
func values(p *plan) string { return "*100\r\n" + strings.Repeat(value(p), 100) }

func bulk(text string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(text), text) }

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

// nearlyEach is how many requests by chance, for each key, leave out one key of fifty.
const nearlyEach = 4

// count is how many requests are sent at a depth in a round. Without pipelining they are more where
// each answers much: their share would be over in a tenth of a second.
func (w *workload) count(p *plan, depth, round int) int {
	if w.each && round == 0 {
		return nearlyEach * w.keys
	}
	share := w.requests
	if depth == 1 {
		share = max(share, min(0.5, 10*share))
	}
	count := max(20, int(share*float64(p.ordinary(depth))))
	if w.takes > 0 {
		const most = 0.45 // of the plan's keys, of which half are there
		count = min(count, int(most*float64(p.keys)/float64(w.takes)))
	}
	return count
}

// withData puts a value of a size, or of the plan's, in the place of its holder, which
// redis-benchmark itself doesn't for requests of others.
func (p *plan) withData(request []string, size int) []string {
	if size == 0 {
		size = p.valueSize
	}
	request = slices.Clone(request)
	for i, word := range request {
		if word == dataHolder {
			request[i] = strings.Repeat("x", size)
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

// figures is how many columns of redis-benchmark's CSV are figures: requests/s, the mean, the
// least, p50, p95, p99 and the most ms.
const figures = 7

// parse reads the last row of redis-benchmark's CSV: the rows before it are for what it does to
// prepare. The title in front is the request as it is, quotes included.
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

// measure runs one workload in turns: who begins changes with each round. Round 0 isn't counted:
// memory that is used for the first time is slow, above all on virtual machines, and so is a
// reactor that hasn't seen yet what comes. Each run begins when nothing is left of the one before.
func (p *plan) measure(servers *pair, w workload, depth int, raw io.Writer) (result, error) {
	r := result{name: w.name, depth: depth, measured: servers[0].name, target: w.target.at(depth)}
	if p.encrypted {
		r.target = 1
	}
	if f := servers[0].floor; f != nil {
		reply, err := p.replyOfRedis(w, &servers[1])
		if err != nil {
			return r, err
		}
		f.answer(reply)
	}
	for round := range 1 + p.roundsAt(depth) {
		for turn := range 2 {
			i := (round + turn) % 2
			c := &servers[i]
			if err := p.begin(w, c, round); err != nil {
				return r, err
			}
			s, err := p.once(w, c, depth, round)
			if err != nil {
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

// once runs a workload and waits until nothing is left of it.
func (p *plan) once(w workload, c *contestant, depth, round int) (s sample, err error) {
	run := func() (sample, int, error) { return p.run(w, c, w.count(p, depth, round), depth) }
	switch {
	case w.walks():
		run = func() (sample, int, error) { return walk(c.server, w.request) }
	case w.hasPayload():
		run = func() (sample, int, error) { return restore(c.server, w.request, w.count(p, depth, round), depth) }
	}
	before, err := launch.ProcessorTime(c.process())
	if err != nil {
		return s, err
	}
	s, requests, err := run()
	if err != nil {
		return s, err
	}
	after, err := launch.ProcessorTime(c.process())
	if err != nil {
		return s, err
	}
	s.processor = float64((after - before).Microseconds()) / float64(requests)
	s.left, err = p.rest()
	return s, err
}

// run has redis-benchmark send a workload's requests.
func (p *plan) run(w workload, c *contestant, requests, depth int) (sample, int, error) {
	arguments := slices.Concat(p.clientFlags, []string{"-P", strconv.Itoa(depth), "-n", strconv.Itoa(requests)})
	if w.keys > 0 {
		arguments = append(arguments, "-r", strconv.Itoa(w.keys))
	}
	if w.test != "" {
		arguments = append(arguments, "-t", w.test)
	} else {
		arguments = append(arguments, p.withData(w.request, w.size)...)
	}
	s, err := p.benchmark(c.port(), arguments...)
	return s, requests, err
}

func (w *workload) hasPayload() bool { return slices.Contains(w.request, payloadHolder) }

// replyOfRedis is what Redis answers to a workload's request, for the floor: the longest of some,
// since some ask for what isn't there.
func (p *plan) replyOfRedis(w workload, redis *contestant) (longest string, err error) {
	if w.reply != nil {
		return w.reply(p), nil
	}
	if err := p.begin(w, redis, 0); err != nil {
		return "", err
	}
	c, err := redis.server.Dial()
	if err != nil {
		return "", err
	}
	defer func() { _ = c.Close() }()
	for number := range 10 {
		reply, err := c.Do(withPlaces(p.withData(w.request, w.size), number)...)
		if err != nil {
			return "", err
		}
		if len(reply.Raw) > len(longest) {
			longest = string(reply.Raw)
		}
	}
	return longest, nil
}

// begin prepares a server for a round, where that is necessary, and waits until that is done. Runs
// wait for their own ends.
func (p *plan) begin(w workload, c *contestant, round int) error {
	if c.floor != nil || w.prepare == nil || round > 0 && !w.anew {
		return nil
	}
	if err := w.prepare(p, c.server); err != nil {
		return err
	}
	_, err := p.rest()
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
