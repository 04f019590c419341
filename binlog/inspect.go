package binlog

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Range is a part of a log. The zero value is all of it.
type Range struct {
	From  Position
	To    Position  // 0 is no limit
	Until time.Time // the first record that is later ends the range; zero is no limit
}

// limit returns To, or a position that no log reaches.
func (r Range) limit() Position {
	if r.To == 0 {
		return math.MaxInt64
	}
	return r.To
}

// later reports whether a record was written after the time at which the range ends.
func (r Range) later(h recordHeader) bool {
	return !r.Until.IsZero() && time.UnixMilli(h.timeMs).After(r.Until)
}

// endsBefore reports whether a record lies behind the range.
func (r Range) endsBefore(h recordHeader) bool {
	return h.position >= r.limit() || r.later(h)
}

var errStop = errors.New("the end of the range")

// load prepares the inspection of the log in a directory. The data that belongs to it has reached
// the position persisted; 0 if that isn't known.
func load(directory string, persisted Position) (*inspection, error) {
	found, err := survey(directory)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%w in %s", ErrNoLog, directory)
	}
	m, _, err := readMark(directory)
	if err != nil {
		return nil, err
	}
	vouched := max(m.position, persisted)
	return &inspection{files: found, vouched: vouched, durable: vouched}, nil
}

// examine reads the records of a range, and all of the segment before it, without changing
// anything. visit may be nil.
func (n *inspection) examine(r Range, visit func(recordHeader, []byte) error) error {
	n.visit = func(h recordHeader, payload []byte) error {
		switch {
		case h.end() <= r.From && r.later(h):
			return fmt.Errorf("%w: %d was reached at %s", ErrLater, h.end(), time.UnixMilli(h.timeMs).UTC().Format(time.RFC3339Nano))
		case r.endsBefore(h):
			return errStop
		case visit == nil || h.end() <= r.From:
			return nil
		}
		return visit(h, payload)
	}
	from := 0
	for i, f := range n.files {
		// The time of a position is that of the record which ends there.
		if f.begun() && (f.start < r.From || f.start == r.From && r.Until.IsZero()) {
			from = i
		}
	}
	if !n.files[from].begun() {
		n.damage = &damage{index: from, reason: "the first segment has no whole header"}
		return n.findEvidence()
	}
	err := n.inspect(from)
	if err == errStop {
		n.stopped = true
		return nil
	}
	if err == nil && n.damage != nil {
		return n.confirm()
	}
	return err
}

// confirm looks a second time where the records seemed bad. In a log that another process writes
// to, the end moves on while it is read, and has then been seen half before and half behind a
// write.
func (n *inspection) confirm() error {
	again, err := load(filepath.Dir(n.files[0].path), n.vouched)
	if err != nil {
		return err
	}
	number := n.files[n.last].number
	from := slices.IndexFunc(again.files, func(f *segmentFile) bool { return f.number == number && f.begun() })
	if from >= 0 {
		if err := again.inspect(from); err != nil {
			return err
		}
		if again.position == n.position && again.damage != nil {
			return nil
		}
	}
	n.damage, n.stopped = nil, true
	return nil
}

// Scan passes the records of a range to visit, in order; of those at its ends only the commands
// that lie wholly in it. From must be a border between two commands (ErrNotBorder) that the log
// holds (ErrPurged, ErrBeyondEnd) and that was reached by the time Until (ErrLater), and the log
// must reach To (ErrBeyondEnd). When To cuts a command off, that command is left out. A log that
// ends before Until is no error. Scan changes and locks nothing on disk: the log may be open, and a
// record that is being written is not seen. Damage other than the torn end of a crash is a
// CorruptError, after the records before it. An error of visit ends the scan.
func Scan(directory string, r Range, visit func(Record) error) error {
	n, err := load(directory, 0)
	if err != nil {
		return err
	}
	if first := n.files[0]; first.begun() && r.From < first.start {
		return fmt.Errorf("%w: %d, the log begins at %d", ErrPurged, r.From, first.start)
	}
	err = n.examine(r, func(h recordHeader, payload []byte) error {
		record, err := r.clip(h, payload)
		if err != nil || len(record.Payload) == 0 {
			return err
		}
		return visit(record)
	})
	if err == nil {
		err = n.corruption()
	}
	if err == nil {
		err = n.checkReached(max(r.From, r.To))
	}
	return err
}

// checkReached returns ErrBeyondEnd for a position that the log doesn't reach.
func (n *inspection) checkReached(position Position) error {
	if position > n.position && !n.stopped {
		return fmt.Errorf("%w: %d, the log ends at %d", ErrBeyondEnd, position, n.position)
	}
	return nil
}

// clip returns the part of a record that lies in the range.
func (r Range) clip(h recordHeader, payload []byte) (Record, error) {
	record := Record{Start: h.position, End: h.end(), Time: time.UnixMilli(h.timeMs), Database: int(h.database), Payload: payload}
	if before := r.From - h.position; before > 0 {
		database, err := databaseAfter(payload[:before], record.Database)
		if err != nil {
			return Record{}, fmt.Errorf("%w: %d, in the record at %d: %w", ErrNotBorder, r.From, h.position, err)
		}
		record.Start, record.Database, record.Payload = r.From, database, payload[before:]
	}
	if r.limit() < record.End {
		whole := wholeCommands(record.Payload[:r.limit()-record.Start])
		record.Payload = record.Payload[:whole]
		record.End = record.Start + Position(whole)
	}
	return record, nil
}

// Dump writes the commands of a range as text, one to a line: position, time, database, and the
// words as redis-cli reads them. Commands that begin before From or end behind To are left out.
// Like Scan, it changes nothing and stops with a CorruptError at damage. A position From that the
// log no longer or not yet holds is ErrPurged or ErrBeyondEnd.
func Dump(directory string, r Range, w io.Writer) error {
	n, err := load(directory, 0)
	if err != nil {
		return err
	}
	if first := n.files[0]; first.begun() && r.From > 0 && r.From < first.start {
		return fmt.Errorf("%w: %d, the log begins at %d", ErrPurged, r.From, first.start)
	}
	out := bufio.NewWriter(w)
	err = n.examine(r, func(h recordHeader, payload []byte) error {
		return dumpRecord(out, r, h, payload)
	})
	if err == nil {
		err = n.corruption()
	}
	if err == nil {
		err = n.checkReached(r.From)
	}
	return errors.Join(err, out.Flush())
}

func dumpRecord(out *bufio.Writer, r Range, h recordHeader, payload []byte) error {
	var line []byte
	var arguments [][]byte
	database := int(h.database)
	for position, rest := h.position, payload; len(rest) > 0; {
		command, after, err := splitCommand(rest, arguments[:0])
		if err != nil {
			command, after = nil, nil
		}
		end := position + Position(len(rest)-len(after))
		if position >= r.From && end <= r.limit() {
			line = appendRecordInfo(line[:0], position, h.timeMs, database)
			for _, word := range command {
				line = appendQuoted(append(line, ' '), word)
			}
			if err != nil {
				line = append(line, " # not a command: "...)
				line = appendQuoted(line, rest)
			}
			if _, err := out.Write(append(line, '\n')); err != nil {
				return fmt.Errorf("binlog: dump: %w", err)
			}
		}
		if number, ok := selected(command); ok {
			database = number
		}
		arguments, position, rest = command, end, after
	}
	return nil
}

func appendRecordInfo(line []byte, position Position, timeMs int64, database int) []byte {
	line = append(strconv.AppendInt(line, position, 10), ' ')
	line = append(time.UnixMilli(timeMs).UTC().AppendFormat(line, "2006-01-02T15:04:05.000Z"), ' ')
	return strconv.AppendInt(line, int64(database), 10)
}

// appendQuoted appends a word in double quotes, with the escapes that redis-cli knows.
func appendQuoted(line, word []byte) []byte {
	const digits = "0123456789abcdef"
	line = append(line, '"')
	for _, c := range word {
		switch {
		case c == '"' || c == '\\':
			line = append(line, '\\', c)
		case c == '\n':
			line = append(line, `\n`...)
		case c == '\r':
			line = append(line, `\r`...)
		case c == '\t':
			line = append(line, `\t`...)
		case c < ' ' || c > '~':
			line = append(line, '\\', 'x', digits[c>>4], digits[c&15])
		default:
			line = append(line, c)
		}
	}
	return append(line, '"')
}

// SegmentReport is what Verify has found in one segment.
type SegmentReport struct {
	Path    string
	Number  uint64
	History History
	Began   time.Time
	Start   Position
	End     Position // where its sound records end
	Records int64    // sound ones
	Bytes   int64    // of the file, behind which nothing is in use
}

// Report is what Verify has found.
type Report struct {
	Segments  []SegmentReport // those that hold records of the range, in order
	Position  Position        // where the sound records end
	Durable   Position        // up to here the log is known to have been durable
	Persisted Position        // what the data that belongs to the log has reached; 0 if that isn't known
	Bad       *Cut            // the first bad record, and what a cut there loses; nil when there is none
	Torn      bool            // Bad is what a crash leaves: the next start cuts it off
	Short     bool            // all records are sound, and up to Durable some are missing
	Unread    bool            // Bad lies where a start doesn't read; it needs only what is above Persisted
}

// Verify reads every record of a range and reports on each segment and the first bad record. The
// data that belongs to the log has reached the position persisted; 0 if that isn't known. Nothing
// on disk is changed or locked; a record that is being written while it reads shows as a torn end.
// It stops at the range's end.
func Verify(directory string, r Range, persisted Position) (Report, error) {
	n, err := load(directory, persisted)
	if err != nil {
		return Report{}, err
	}
	if err := n.examine(r, nil); err != nil {
		return Report{}, err
	}
	report, err := n.report()
	report.Persisted = persisted
	return report, err
}

func (n *inspection) report() (Report, error) {
	report := Report{Position: n.position, Durable: n.durable}
	for _, f := range n.files {
		if f.end == 0 {
			continue // outside of the range, or behind the damage
		}
		report.Segments = append(report.Segments, SegmentReport{
			Path:    f.path,
			Number:  f.number,
			History: f.history,
			Began:   time.UnixMilli(f.timeMs),
			Start:   f.start,
			End:     f.position,
			Records: f.records,
			Bytes:   f.end,
		})
	}
	if n.damage == nil {
		report.Short = n.corruption() != nil
		return report, nil
	}
	var err error
	report.Torn = n.corruption() == nil
	report.Unread = n.unread()
	report.Bad, _, err = n.plan()
	return report, err
}

// String returns the report as lines of text for people.
func (r Report) String() string {
	var b strings.Builder
	var records int64
	for _, s := range r.Segments {
		fmt.Fprintf(&b, "%s  positions %d to %d, %d records, %d bytes, begun %s, history %s\n", filepath.Base(s.Path),
			s.Start, s.End, s.Records, s.Bytes, s.Began.UTC().Format(time.RFC3339), s.History.ID)
		records += s.Records
	}
	if r.Short {
		fmt.Fprintf(&b, "%d segments, %d sound records, up to position %d\n", len(r.Segments), records, r.Position)
		fmt.Fprintf(&b, "the log had been durable up to position %d: what follows is missing, and the server refuses to start\n", r.Durable)
		return b.String()
	}
	if r.Bad == nil {
		fmt.Fprintf(&b, "sound: %d segments, %d records, up to position %d\n", len(r.Segments), records, r.Position)
		return b.String()
	}
	fmt.Fprintf(&b, "bad record in %s at offset %d, position %d: %s\n", r.Bad.Path, r.Bad.Offset, r.Bad.Position, r.Bad.Reason)
	if r.Torn {
		b.WriteString("nothing behind it is known to have been durable: the torn end of a crash, which the next start cuts off\n")
	} else {
		fmt.Fprintf(&b, "the log had been durable up to position %d: this is damage, %s\n", r.Durable, r.consequence())
	}
	fmt.Fprintf(&b, "a cut there loses %s\n", r.Bad.loss())
	if r.BelowData() {
		fmt.Fprintf(&b, "the data has reached position %d: with a log that ends below, the server would not start\n", r.Persisted)
	}
	return b.String()
}

// consequence says what a server makes of damage.
func (r Report) consequence() string {
	switch {
	case r.Unread && r.Persisted == 0:
		return "with which a server starts only if its data has passed it"
	case r.Unread && r.BelowData():
		return "which the data has passed: the server starts, but replicas and restores that need these records fail"
	}
	return "and the server refuses to start with it"
}

// BelowData reports whether a cut at the bad record would end the log below what the data has
// reached, so that the server would not start.
func (r Report) BelowData() bool { return r.Bad != nil && r.Bad.Position < r.Persisted }

// loss says in words what a cut takes away.
func (c *Cut) loss() string {
	upTo := ""
	if c.End > c.Position {
		upTo = fmt.Sprintf(" to %d or more", c.End)
	}
	return fmt.Sprintf("what follows position %d%s: %d bytes (sound records behind the bad one: %d, whole segment files: %d)",
		c.Position, upTo, c.Bytes, c.Records, c.Segments)
}

// String returns one line that says where the log was cut and what that lost.
func (c *Cut) String() string {
	return fmt.Sprintf("cut %s at offset %d (%s), lost %s", c.Path, c.Offset, c.Reason, c.loss())
}

// Repair checks the whole log and cuts it at the first bad record, if there is one. The log must
// not be open. The returned Cut says what was lost; nil is a sound log, which is left alone.
//
// When the log then ends before the position that the data has reached, the data no longer fits the
// log.
func Repair(directory string) (*Cut, error) {
	lock, err := lockDirectory(directory)
	if err != nil {
		return nil, err
	}
	cut, err := repair(Options{Directory: directory}.withDefaults())
	return cut, errors.Join(err, lock.Close())
}

func repair(o Options) (*Cut, error) {
	n, err := load(o.Directory, 0)
	if err != nil {
		return nil, err
	}
	if err := n.examine(Range{}, nil); err != nil || n.damage == nil {
		return nil, err
	}
	if !n.files[0].begun() {
		return nil, fmt.Errorf("binlog: %s: the first segment has no whole header, so a cut would leave nothing", n.files[0].path)
	}
	// The mark of a clean stop vouches for positions that the cut may take away.
	if err := removeMark(o); err != nil {
		return nil, err
	}
	return n.cut(o.files)
}
