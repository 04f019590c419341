package binlog

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// segmentFile is a segment as it is found on disk.
type segmentFile struct {
	number uint64
	path   string
	bytes  int64
	seed   uint32
	beginning
	prologueErr  error // errBlank, errDamaged or another
	beginningErr error // errBlank or errDamaged

	// Once the records were read:
	end      int64    // offset behind the last sound one
	position Position // there
	records  int64
}

// begun reports whether the segment's header is whole.
func (f *segmentFile) begun() bool { return f.prologueErr == nil && f.beginningErr == nil }

// survey reads the headers of a directory's segments. A directory that is absent has none. A file
// of another format version is an error, lest a repair destroy what only a newer programme can
// read.
func survey(directory string) ([]*segmentFile, error) {
	numbers, err := listSegments(directory)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var found []*segmentFile
	for _, number := range numbers {
		f := &segmentFile{number: number, path: segmentPath(directory, number)}
		err := f.readHeader()
		if errors.Is(err, os.ErrNotExist) {
			continue // purged by the process that has the log open
		}
		if err != nil {
			return nil, fmt.Errorf("binlog: %s: %w", f.path, err)
		}
		found = append(found, f)
	}
	return found, nil
}

// closing closes what a function has opened, when it returns.
func closing(opened io.Closer, err *error) {
	if failed := opened.Close(); failed != nil {
		*err = errors.Join(*err, failed)
	}
}

func (f *segmentFile) readHeader() (err error) {
	opened, err := os.Open(f.path)
	if err != nil {
		return err
	}
	defer closing(opened, &err)
	if f.bytes, err = opened.Seek(0, io.SeekEnd); err != nil {
		return err
	}
	header, err := readHeader(opened)
	if err != nil {
		return err
	}
	var p prologue
	p, f.seed, f.prologueErr = decodePrologue(header)
	switch {
	case f.prologueErr == errBlank || f.prologueErr == errDamaged:
		return nil
	case f.prologueErr != nil:
		return f.prologueErr
	case p.number != f.number:
		return fmt.Errorf("this is segment %d under another name", p.number)
	}
	f.beginning, f.beginningErr = decodeBeginning(header, f.seed)
	return nil
}

// damage is the first place where a log is not sound.
type damage struct {
	index    int   // of the segment
	offset   int64 // in its file; below headerBytes when the whole segment is lost
	position Position
	reason   string
	crash    bool // a crash can leave this, provided that nothing behind it had been durable
}

// inspection is what the records of a log's last segments look like.
type inspection struct {
	files    []*segmentFile
	vouched  Position                         // durable as others know: the data, or the mark of a clean stop
	durable  Position                         // the highest position that is known to have been durable
	last     int                              // index of the segment in which the sound part ends
	position Position                         // where it ends
	database int                              // selected there
	records  int64                            // seen
	bytes    int64                            // read
	visit    func(recordHeader, []byte) error // gets each sound record; may be nil
	stopped  bool                             // the inspection ended before the log did

	damage *damage
	behind struct { // the damage
		records int64    // that are sound
		end     Position // the highest that is known to have been reached
	}
}

// inspect reads the records of the segments from an index on, where the segment is begun, and finds
// the end of what is sound. Errors are of reading, or visit's.
func (n *inspection) inspect(from int) error {
	for _, f := range n.files {
		if f.begun() {
			n.durable = max(n.durable, f.durable)
		}
	}
	n.position, n.database, n.last = n.files[from].start, n.files[from].database, from
	for i := from; i < len(n.files) && n.damage == nil; i++ {
		if err := n.inspectSegment(i); err != nil {
			return err
		}
	}
	if n.damage == nil {
		return nil
	}
	return n.findEvidence()
}

// inspectSegment reads one segment and sets damage when it is not sound or doesn't continue the one
// before.
func (n *inspection) inspectSegment(i int) (err error) {
	f := n.files[i]
	opened, err := os.Open(f.path)
	if errors.Is(err, os.ErrNotExist) && !f.begun() {
		return nil // the process that has the log open was about to make it, and has had no room
	}
	if err != nil {
		return fmt.Errorf("binlog: %w", err)
	}
	defer closing(opened, &err)
	if !f.begun() {
		return n.inspectUnbegun(i, opened)
	}
	if i > n.last {
		if n.checkContinues(i); n.damage != nil {
			return nil
		}
	}
	n.last, n.database = i, f.database
	f.end, f.position, f.records = headerBytes, f.start, 0
	scan := scanner{file: opened, seed: f.seed, limit: f.bytes, offset: headerBytes, position: f.start}
	defer func() { n.bytes += scan.read }()
	for {
		h, payload, err := scan.next()
		if err != nil {
			return n.inspectEnd(i, &scan, err)
		}
		n.durable = max(n.durable, h.durable)
		if n.visit != nil {
			if err := n.visit(h, payload); err != nil {
				return err
			}
		}
		f.end, f.position, n.position = scan.offset, scan.position, scan.position
		n.database = int(h.after)
		f.records++
		n.records++
	}
}

// inspectUnbegun looks at a segment that has no whole header: it may be one that was made ahead and
// not yet used.
func (n *inspection) inspectUnbegun(i int, opened io.ReaderAt) error {
	f := n.files[i]
	used, err := usedBytes(opened, prologueBytes, f.bytes)
	if err != nil {
		return fmt.Errorf("binlog: %s: %w", f.path, err)
	}
	blankPrologue := f.prologueErr == errBlank
	switch {
	case f.prologueErr == errDamaged:
		n.damage = &damage{index: i, position: n.position, reason: "the file's header has a bad checksum"}
	case used == 0 && i == len(n.files)-1: // a spare, or one that was about to become a spare
	case used == 0:
		n.damage = &damage{index: i, position: n.position, reason: "the segment was never begun, and others follow", crash: true}
	case blankPrologue:
		n.damage = &damage{index: i, position: n.position, reason: "the file's header is lost"}
	default:
		n.damage = &damage{index: i, offset: beginningAt, position: n.position, reason: "the segment's header is not whole", crash: true}
	}
	return nil
}

// checkContinues compares a segment's beginning with the end of the one before.
func (n *inspection) checkContinues(i int) {
	previous, f := n.files[i-1], n.files[i]
	atEnd := damage{index: i - 1, offset: previous.end, position: n.position, crash: true}
	switch {
	case f.number != previous.number+1:
		atEnd.reason = fmt.Sprintf("the next segment, %d, is missing", previous.number+1)
		n.damage = &atEnd
	case f.start > n.position:
		atEnd.reason = fmt.Sprintf("the records end here, and the next segment begins at position %d", f.start)
		n.damage = &atEnd
	case f.start < n.position || !continues(previous.history, f.history, f.start):
		n.damage = &damage{index: i, position: n.position, reason: "the segment doesn't continue the one before"}
	}
}

// continues reports whether a history is the previous one, or branched off from it at a position.
func continues(previous, h History, at Position) bool {
	if h.ID == previous.ID {
		return true
	}
	count := len(h.Ancestors)
	return count > 0 && h.Ancestors[count-1] == Ancestor{ID: previous.ID, Left: at}
}

// inspectEnd judges why a segment's records end.
func (n *inspection) inspectEnd(i int, scan *scanner, err error) error {
	f := n.files[i]
	switch {
	case bad(err):
		n.damage = &damage{index: i, offset: scan.offset, position: scan.position, reason: err.Error(), crash: true}
		return nil
	case err != errEnd:
		return fmt.Errorf("binlog: %s at offset %d: %w", f.path, scan.offset, err)
	}
	used, err := usedBytes(scan.file, scan.offset, f.bytes)
	if err != nil {
		return fmt.Errorf("binlog: %s: %w", f.path, err)
	}
	if used > 0 {
		n.damage = &damage{index: i, offset: scan.offset, position: scan.position, reason: "no record, but bytes of others behind", crash: true}
	}
	return nil
}

// usedBytes tells how many bytes from an offset on a file is in use: up to the last that is not
// zero.
func usedBytes(file io.ReaderAt, offset, size int64) (int64, error) {
	var used int64
	block := make([]byte, blockBytes)
	for at := offset; at < size; {
		n, err := file.ReadAt(block[:min(blockBytes, size-at)], at)
		if n == 0 && err == io.EOF {
			break // the process that has the log open gave back what it did not need
		}
		if n == 0 && err != nil {
			return 0, err
		}
		if !allZero(block[:n]) {
			last := n
			for block[last-1] == 0 {
				last--
			}
			used = at + int64(last) - offset
		}
		at += int64(n)
	}
	return used, nil
}

// findEvidence looks behind the damage for sound records, which tell what had been durable when
// they were written.
func (n *inspection) findEvidence() error {
	var span int64
	for _, f := range n.files[n.damage.index:] {
		span += f.bytes
	}
	n.behind.end = n.durable
	for i := n.damage.index; i < len(n.files); i++ {
		f := n.files[i]
		if f.prologueErr != nil {
			continue
		}
		n.behind.end = max(n.behind.end, f.start)
		offset := int64(headerBytes)
		if i == n.damage.index {
			offset = max(offset, n.damage.offset)
		}
		if err := n.searchRecords(f, offset, span); err != nil {
			return fmt.Errorf("binlog: %s: %w", f.path, err)
		}
	}
	return nil
}

// searchRecords finds the sound records of a segment wherever they are, from an offset on. Their
// checksums continue from a random number of the segment's, so what a client wrote into a value is
// not taken for one.
func (n *inspection) searchRecords(f *segmentFile, offset, span int64) (err error) {
	opened, err := os.Open(f.path)
	if err != nil {
		return err
	}
	defer closing(opened, &err)
	scan := scanner{file: opened, seed: f.seed, limit: f.bytes, offset: offset}
	effort := 64 * f.bytes // a file made to look like records everywhere costs no more than this
	for scan.offset+recordBytes <= scan.limit && effort > 0 {
		b, err := scan.window(scan.offset, recordBytes)
		if err == errTorn {
			return nil // shorter than it was: the process that has the log open cut it
		}
		if err != nil {
			return err
		}
		h := decodeRecordHeader(b)
		if h.length == 0 || int64(h.length) > scan.limit-scan.offset-recordBytes ||
			h.position < n.position || h.position-n.position > span {
			scan.offset++
			continue
		}
		scan.position = h.position
		effort -= int64(h.length)
		switch _, _, err := scan.next(); {
		case err == nil:
			n.durable = max(n.durable, h.durable)
			n.behind.records++
			n.behind.end = max(n.behind.end, h.end())
		case bad(err):
			scan.offset++
		default:
			return err
		}
	}
	return nil
}

// corruption returns why the log must not be used as it is, or nil when it is sound or a crash
// explains the damage.
func (n *inspection) corruption() error {
	d := n.damage
	if d == nil {
		if n.stopped || n.position >= n.durable {
			return nil
		}
		return &CorruptError{Path: n.files[n.last].path, Offset: n.files[n.last].end, Position: n.position, Durable: n.durable, Reason: endsHere}
	}
	if d.crash && d.position >= n.durable {
		return nil
	}
	// Damage that no crash can leave is above no durable position: the header had been durable
	// before its use.
	durable := max(n.durable, d.position+1)
	return &CorruptError{Path: n.files[d.index].path, Offset: d.offset, Position: d.position, Durable: durable, Reason: d.reason}
}

// Cut is what is taken off the end of a log.
type Cut struct {
	Path     string   // of the segment file in which the cut is
	Offset   int64    // in it; 0 when the whole file goes
	Position Position // where the log ends then
	Reason   string

	Segments int      // files that go wholly
	Bytes    int64    // of the files' used parts
	Records  int64    // sound ones behind the first bad one
	End      Position // the highest position that is known to have been reached, at least Position
}

// plan returns what a cut at the damage takes away, and how many segments it leaves.
func (n *inspection) plan() (*Cut, int, error) {
	d := n.damage
	cut := &Cut{Path: n.files[d.index].path, Offset: d.offset, Position: d.position, Reason: d.reason,
		Records: n.behind.records, End: max(n.behind.end, d.position)}
	keep := d.index + 1
	if d.offset < headerBytes {
		keep, cut.Offset = d.index, 0
	} else {
		used, err := n.files[d.index].used(d.offset)
		if err != nil {
			return nil, 0, err
		}
		cut.Bytes = used
	}
	for _, f := range n.files[keep:] {
		used, err := f.used(headerBytes)
		if err != nil {
			return nil, 0, err
		}
		cut.Bytes += used
		if f.begun() || used > 0 { // and not one that was made ahead
			cut.Segments++
		}
	}
	return cut, keep, nil
}

// cut takes off everything from the damage on, in an order in which a crash leaves a log that can
// be cut again.
func (n *inspection) cut(fs files) (*Cut, error) {
	cut, keep, err := n.plan()
	if err != nil {
		return nil, err
	}
	for i := len(n.files) - 1; i >= keep; i-- {
		if err := fs.remove(n.files[i].path); err != nil {
			return nil, fmt.Errorf("binlog: cut: %w", err)
		}
	}
	if err := fs.syncDirectory(filepath.Dir(cut.Path)); err != nil {
		return nil, fmt.Errorf("binlog: cut: %w", err)
	}
	n.files, n.last, n.damage = n.files[:keep], keep-1, nil
	if cut.Offset == 0 {
		return cut, nil
	}
	n.files[n.last].bytes = cut.Offset
	return cut, truncate(fs, cut.Path, cut.Offset)
}

func (f *segmentFile) used(offset int64) (used int64, err error) {
	opened, err := os.Open(f.path)
	if err != nil {
		return 0, fmt.Errorf("binlog: %w", err)
	}
	defer closing(opened, &err)
	return usedBytes(opened, offset, f.bytes)
}

func truncate(fs files, path string, size int64) error {
	f, err := fs.open(path)
	if err != nil {
		return fmt.Errorf("binlog: cut: %w", err)
	}
	err = f.truncate(size)
	if err == nil {
		err = f.sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("binlog: cut: %w", err)
	}
	return nil
}

// Recovered tells what Open found.
type Recovered struct {
	// Clean: no position of the history's id is in doubt. It is false when no clean stop preceded,
	// and remains so over later clean stops until Branch, for replicas may have seen more under
	// this id than the log still holds.
	Clean    bool
	Segments int
	Records  int64 // that were read and checked; those of older segments are checked when they are read
	Bytes    int64 // read from disk
	Cut      *Cut  // the torn tail that was cut off, or nil
	Took     time.Duration
}

// Open opens the log in a directory. It reads and checks the records from the last known durable
// position on. What a crash has left torn at the end it cuts off and logs. Damage below is a
// CorruptError; a directory without a log is ErrNoLog.
func Open(o Options) (*Log, Recovered, error) {
	began := time.Now()
	o = o.withDefaults()
	if numbers, err := listSegments(o.Directory); errors.Is(err, os.ErrNotExist) || (err == nil && len(numbers) == 0) {
		return nil, Recovered{}, fmt.Errorf("%w in %s", ErrNoLog, o.Directory)
	}
	lock, err := lockDirectory(o.Directory)
	if err != nil {
		return nil, Recovered{}, err
	}
	l, recovered, err := openLocked(o, lock)
	if err != nil {
		return nil, Recovered{}, errors.Join(err, lock.Close())
	}
	recovered.Took = time.Since(began)
	l.run()
	return l, recovered, nil
}

func openLocked(o Options, lock *os.File) (*Log, Recovered, error) {
	found, err := survey(o.Directory)
	if err != nil {
		return nil, Recovered{}, err
	}
	mark, clean, err := readMark(o.Directory)
	if err != nil {
		return nil, Recovered{}, err
	}
	vouched := max(o.Persisted, mark.position)
	n := &inspection{files: found, vouched: vouched, durable: vouched}
	recovered := Recovered{Clean: clean}
	if err := n.inspectTail(); err != nil {
		return nil, Recovered{}, err
	}
	if err := n.corruption(); err != nil {
		return nil, Recovered{}, err
	}
	if n.damage != nil {
		if recovered.Cut, err = n.cut(o.files); err != nil {
			return nil, Recovered{}, err
		}
		cut := recovered.Cut
		o.Logger.Warn("binlog: cut off a torn tail", "file", cut.Path, "offset", cut.Offset, "position", cut.Position,
			"reason", cut.Reason, "segments", cut.Segments, "bytes", cut.Bytes, "records", cut.Records, "end", cut.End)
	}
	recovered.Clean = clean && recovered.Cut == nil && mark.position == n.position && mark.id == n.files[n.last].history.ID
	if err := removeMark(o); err != nil {
		return nil, Recovered{}, err
	}
	segments, err := n.reopen(o, recovered.Clean)
	if err != nil {
		return nil, Recovered{}, err
	}
	l := newLog(o, lock, segments, n.database)
	l.settled = recovered.Clean
	l.written.Store(n.position)
	l.durable.Store(n.position)
	recovered.Segments, recovered.Records, recovered.Bytes = len(segments), n.records, n.bytes
	return l, recovered, nil
}

// inspectTail checks all headers, and the records that may lie above the last known durable
// position.
func (n *inspection) inspectTail() error {
	from, known := n.tail()
	if err := n.checkHeaders(from, known); err != nil {
		return err
	}
	return n.inspect(from)
}

// tail returns the index of the segment from which on a start reads the records: the one that holds
// the last position that is known to be durable without reading them.
func (n *inspection) tail() (from int, known Position) {
	known = n.vouched
	for _, f := range n.files {
		if f.begun() {
			known = max(known, f.durable)
		}
	}
	for i, f := range n.files {
		if f.begun() && f.start <= known {
			from = i
		}
	}
	return from, known
}

// checkHeaders checks the headers of the segments up to one.
func (n *inspection) checkHeaders(from int, known Position) error {
	for i, f := range n.files[:from+1] {
		reason := ""
		switch {
		case !f.begun():
			reason = "the segment's header is not whole"
		case i > 0 && f.number != n.files[i-1].number+1:
			reason = fmt.Sprintf("the segment before, %d, is missing", f.number-1)
		case i > 0 && (f.start < n.files[i-1].start || !continues(n.files[i-1].history, f.history, f.start)):
			reason = "the segment doesn't continue the one before"
		default:
			continue
		}
		position := Position(0)
		if i > 0 {
			position = n.files[i-1].start
		}
		return &CorruptError{Path: f.path, Position: position, Durable: max(known, position+1), Reason: reason}
	}
	return nil
}

// unread reports whether the damage lies in records that a start doesn't read.
func (n *inspection) unread() bool {
	from, known := n.tail()
	return n.damage != nil && n.damage.offset >= headerBytes && n.damage.index < from && n.checkHeaders(from, known) == nil
}

// reopen makes the log's segments of the files, the last one open for writing, and sees to it that
// all is durable.
func (n *inspection) reopen(o Options, durable bool) ([]*segment, error) {
	if spare := n.files[len(n.files)-1]; !spare.begun() {
		if err := o.files.remove(spare.path); err != nil {
			return nil, fmt.Errorf("binlog: %w", err)
		}
		n.files = n.files[:len(n.files)-1]
	}
	var segments []*segment
	for i, f := range n.files {
		s := &segment{number: f.number, path: f.path, seed: f.seed, beginning: f.beginning, size: f.bytes}
		s.end.Store(f.bytes)
		if i > 0 {
			segments[i-1].next.Store(s)
		}
		segments = append(segments, s)
		if f.end == 0 {
			continue // below what was inspected
		}
		s.end.Store(f.end)
		if err := n.settle(o, s, durable, i == n.last); err != nil {
			return nil, err
		}
	}
	return segments, nil
}

// settle makes a segment durable, and leaves it open, with room for more, when it is the last one.
func (n *inspection) settle(o Options, s *segment, durable, last bool) (err error) {
	if s.file, err = o.files.open(s.path); err != nil {
		return fmt.Errorf("binlog: %w", err)
	}
	if !durable {
		if err := rewrite(s, n.durable); err != nil {
			return errors.Join(err, s.file.Close())
		}
	}
	if !last {
		err := errors.Join(s.file.truncate(s.end.Load()), s.file.Close())
		s.file = nil
		if err != nil {
			return fmt.Errorf("binlog: %w", err)
		}
		return nil
	}
	err = o.roomFor(max(o.SegmentBytes-s.size, 0))
	if err == nil {
		err = s.reserve(o.SegmentBytes)
	}
	if err != nil {
		o.Logger.Warn("binlog: no room behind the last record, another segment is needed", "file", s.path, "error", err)
	}
	return nil
}
