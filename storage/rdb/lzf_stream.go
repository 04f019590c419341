package rdb

// lzfStream compresses a long string that comes in parts, to the bytes that compress makes of the
// whole. It holds a window of the string, and one of the output.
type lzfStream struct {
	compressor *lzfCompressor
	run        lzfRun
	in         []byte // from what a match may refer to on
	out        []byte
	limit      int // of out, which shrinks as output leaves
	take       func(output []byte)
	begun      bool
	failed     bool
}

const (
	lzfWindow = 64 << 10
	// lzfHistory is how much before the place that is compressed stays: what a match may refer to.
	lzfHistory = lzfMaxOffset + 1
	// lzfAhead is how much of the string lies behind a place that is compressed, unless it ends
	// there.
	lzfAhead = lzfMaxMatch + 3
)

// begin begins a string of size bytes, whose compressed form is at most limit bytes, or so. What
// take is given is valid during the call.
func (s *lzfStream) begin(c *lzfCompressor, size, limit int, take func(output []byte)) {
	c.prepare(size)
	*s = lzfStream{compressor: c, run: lzfRun{op: 1}, limit: limit, take: take, in: s.in[:0], out: s.out}
	if s.out == nil {
		s.in, s.out = make([]byte, 0, 2*lzfWindow), make([]byte, 2*lzfWindow+2*lzfWindow/lzfMaxLiteral+lzfAhead)
	}
}

// write compresses the next part.
func (s *lzfStream) write(part []byte) {
	for len(part) > 0 && !s.failed {
		n := min(len(part), cap(s.in)-len(s.in))
		s.in = append(s.in, part[:n]...)
		part = part[n:]
		if len(s.in) == cap(s.in) {
			s.compress(len(s.in) - lzfAhead)
			s.slide()
		}
	}
}

// end compresses the rest. It returns false when the output would be more than the limit.
func (s *lzfStream) end() (fits bool) {
	s.compress(len(s.in) - 2)
	n := 0
	if !s.failed {
		n, fits = s.run.finish(s.out, s.in, s.limit)
		s.take(s.out[:n])
	}
	s.forget()
	return fits
}

// forget has the next string find nothing of this one, which needn't have come as a whole.
func (s *lzfStream) forget() { s.compressor.base += uint32(len(s.in)) }

func (s *lzfStream) compress(stop int) {
	if !s.begun {
		s.begun, s.run.three = true, firstTwo(s.in)
	}
	if s.failed = s.failed || !s.compressor.run(&s.run, s.out, s.in, s.limit, stop); s.failed {
		return
	}
	done := s.run.op - s.run.literals - 1 // behind it, a run of literals may go on
	s.take(s.out[:done])
	copy(s.out, s.out[done:s.run.op])
	s.run.op -= done
	s.limit -= done
}

// slide forgets the beginning of the window.
func (s *lzfStream) slide() {
	gone := s.run.ip - lzfHistory
	if s.failed {
		gone = len(s.in)
	}
	s.in = s.in[:copy(s.in, s.in[gone:])]
	s.run.ip -= gone
	s.compressor.base += uint32(gone)
}
