package migrate

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"kedis/binlog"
	"kedis/internal/resp"
	"kedis/storage/rdb"
)

// Files reads data from files: an RDB file, an AOF, an AOF that begins with an RDB file, the
// several files of an AOF that a manifest lists, or a log of Kedis.
type Files struct {
	Filter   *Filter
	Commands Commands // of AOFs
	Progress *Progress

	// SkipUnsupported passes keys over whose values can't be read or written, instead of failing at
	// the first.
	SkipUnsupported bool
	// Flush says what becomes of FLUSHALL and FLUSHDB in an AOF: "apply", "skip", or else it fails.
	// They are about the data that the AOF is of, and applied they would empty the target.
	Flush string
	// Expired takes in keys that have expired, too, for those to whom it matters that each key is
	// there.
	Expired bool
	// Live says that what is written expires by the clock of the server that has it. Then the
	// expiries of an AOF are held (see expiry.go) until somebody calls Target.Release.
	Live bool
	// Replay, unless nil, is called before anything is written when it shows that commands will be.
	Replay func() error

	Held bool // expiries were

	replayed bool
}

// Read reads what a name says: a file, a manifest, a directory with one, or "-", which is in.
func (f *Files) Read(ctx context.Context, name string, in io.Reader, to Sink) error {
	if name == "-" {
		return f.readAll(ctx, []part{{name: "the standard input", open: func() (io.ReadCloser, error) { return io.NopCloser(in), nil }}}, to)
	}
	parts, total, err := findParts(name)
	if err != nil {
		return err
	}
	f.Progress.Total.Store(total)
	if len(parts) > 1 {
		if err := f.replay(); err != nil {
			return err
		}
	}
	return f.readAll(ctx, parts, to)
}

// replay prepares for commands.
func (f *Files) replay() error {
	if f.replayed {
		return nil
	}
	f.replayed, f.Held = true, f.Live
	if f.Replay == nil {
		return nil
	}
	return f.Replay()
}

// part is one of the files that make up an AOF, or the only one.
type part struct {
	name string
	open func() (io.ReadCloser, error)
}

func (f *Files) readAll(ctx context.Context, parts []part, to Sink) error {
	for i, p := range parts {
		file, err := p.open()
		if err != nil {
			return failure(ExitSource, "%w", err)
		}
		r := fileReader{Files: f, ctx: ctx, name: p.name, to: to, last: i == len(parts)-1, only: len(parts) == 1}
		err = r.read(file)
		if err := errors.Join(err, file.Close()); err != nil {
			return err
		}
	}
	return to.Flush()
}

// ReadSnapshot reads an RDB file that comes from somewhere. A total of 0 is unknown.
func (f *Files) ReadSnapshot(ctx context.Context, name string, file io.Reader, total int64, to Sink) error {
	f.Progress.Total.Store(max(total, 0))
	r := fileReader{Files: f, ctx: ctx, name: name, to: to, last: true, only: true}
	if err := r.snapshot(r.counted(file)); err != nil {
		return err
	}
	return to.Flush()
}

func findParts(name string) (parts []part, total int64, err error) {
	status, err := os.Stat(name)
	if err != nil {
		return nil, 0, failure(ExitSource, "%w", err)
	}
	names := []string{name}
	if status.IsDir() {
		if isLog, err := binlog.HasSegments(name); err == nil && isLog {
			return []part{logPart(name)}, logBytes(name), nil
		}
		if name, err = findManifest(name); err != nil {
			return nil, 0, err
		}
	}
	if strings.HasSuffix(name, ".manifest") {
		if names, err = readManifest(name); err != nil {
			return nil, 0, err
		}
	}
	for _, name := range names {
		status, err := os.Stat(name)
		if err != nil {
			return nil, 0, failure(ExitSource, "%w", err)
		}
		total += status.Size()
		parts = append(parts, part{name, func() (io.ReadCloser, error) { return os.Open(name) }})
	}
	return parts, total, nil
}

func findManifest(directory string) (string, error) {
	entries, err := os.ReadDir(directory)
	if err != nil {
		return "", failure(ExitSource, "%w", err)
	}
	var found []string
	for _, entry := range entries {
		if filepath.Ext(entry.Name()) == ".manifest" {
			found = append(found, filepath.Join(directory, entry.Name()))
		}
	}
	if len(found) != 1 {
		return "", failure(ExitSource, "%s: expected an AOF's directory, with one manifest in it, and there are %d", directory, len(found))
	}
	return found[0], nil
}

// readManifest lists the files of an AOF in order: the base, and what was appended since. A line of
// the manifest is like
//
//	file appendonly.aof.2.incr.aof seq 2 type i
//
// Source: Redis's aof.c.
func readManifest(name string) (names []string, err error) {
	content, err := os.ReadFile(name)
	if err != nil {
		return nil, failure(ExitSource, "%w", err)
	}
	var base, increments []string
	for number, line := range strings.Split(string(content), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		words, _, err := resp.NewReader(strings.NewReader(line+"\n"), longestCommand).ReadRequest()
		fields := map[string]string{}
		for i := 0; i+1 < len(words); i += 2 {
			fields[strings.ToLower(string(words[i]))] = string(words[i+1])
		}
		file := fields["file"]
		if err != nil || file == "" || file != filepath.Base(file) {
			return nil, failure(ExitSource, "%s: line %d is not one of a manifest: %.200q", name, number+1, line)
		}
		file = filepath.Join(filepath.Dir(name), file)
		switch fields["type"] {
		case "b":
			base = append(base, file)
		case "i":
			increments = append(increments, file)
		case "h": // no longer needed
		default:
			return nil, failure(ExitSource, "%s: line %d: a file of type %.20q", name, number+1, fields["type"])
		}
	}
	if len(base) > 1 || len(base)+len(increments) == 0 {
		return nil, failure(ExitSource, "%s lists %d base files and %d others", name, len(base), len(increments))
	}
	return append(base, increments...), nil
}

// fileReader reads one file.
type fileReader struct {
	*Files
	ctx        context.Context
	name       string
	to         Sink
	last, only bool

	offset   int64 // of what is read from the file
	database int
	open     bool // behind MULTI
	group    []Command
}

// Read counts what is read, and ends when the context does.
func (r *fileReader) counted(file io.Reader) io.Reader {
	return readerFunc(func(p []byte) (int, error) {
		if r.ctx.Err() != nil {
			return 0, context.Cause(r.ctx)
		}
		n, err := file.Read(p)
		r.Progress.Bytes.Add(int64(n))
		return n, err
	})
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func (r *fileReader) read(file io.Reader) error {
	buffered := bufio.NewReaderSize(r.counted(file), 64<<10)
	head, err := buffered.Peek(len("REDIS"))
	switch {
	case err != nil && err != io.EOF:
		return r.broken(err)
	case len(head) == 0 && !r.only: // nothing was appended yet
		return nil
	case bytes.HasPrefix(head, []byte("REDIS")), bytes.HasPrefix(head, []byte("VALKE")):
		return r.snapshot(buffered)
	case bytes.HasPrefix(head, []byte("*")), bytes.HasPrefix(head, []byte("#")):
		if err := r.replay(); err != nil {
			return err
		}
		return r.commands(buffered)
	}
	return failure(ExitSource, "%s is neither an RDB file nor an AOF", r.name)
}

// broken explains why a file can't be read on.
func (r *fileReader) broken(err error) error {
	if cause := context.Cause(r.ctx); cause != nil {
		return cause
	}
	return failure(ExitSource, "%s: %w", r.name, err)
}

// snapshot reads an RDB file, and what follows it.
func (r *fileReader) snapshot(file io.Reader) error {
	reader, err := rdb.NewReader(file, 0)
	if err != nil {
		return r.broken(err)
	}
	reader.InParts()
	for {
		record, err := reader.Next()
		var unsupported *rdb.UnsupportedError
		switch {
		case err == io.EOF:
			r.skipEmpty(reader.EmptyKeys)
			return r.follow(reader)
		case errors.As(err, &unsupported) && unsupported.Module != "" && r.SkipUnsupported:
			r.Progress.Skip("keys with values of module " + unsupported.Module)
		case errors.As(err, &unsupported):
			return failure(ExitUnsupported, "%s: key %.200q in database %d: %w", r.name, unsupported.Key, r.database, err)
		case err != nil:
			return r.broken(err)
		case record.Kind == rdb.RecordKey:
			if err := r.key(record); err != nil {
				return err
			}
		case record.Kind == rdb.RecordDatabase:
			r.database = int(record.Database)
		case record.Kind == rdb.RecordAux && isPreamble(record):
			if err := r.replay(); err != nil {
				return err
			}
		case record.Kind == rdb.RecordFunction:
			if err := r.library(record.Data); err != nil {
				return err
			}
		case record.Kind == rdb.RecordModuleAux:
			r.Progress.Skip("data of modules beside the keys")
		}
	}
}

// isPreamble says that an RDB file tells of itself, before its keys, that it is the beginning of an
// AOF: since Redis 4, and by another name since 7.
func isPreamble(record *rdb.Record) bool {
	name := string(record.Name)
	return (name == "aof-preamble" || name == "aof-base") && string(record.Data) == "1"
}

func (r *fileReader) skipEmpty(keys int64) {
	for range keys {
		r.Progress.Skip("keys with empty collections, which Redis passes over, too")
	}
}

// key moves one key.
func (r *fileReader) key(record *rdb.Record) error {
	to, wanted := r.Filter.Database(int(record.Database))
	switch {
	case !wanted || !r.Filter.Wants(record.Key):
		r.Progress.Skip("keys that weren't asked for")
		return nil
	case record.ExpireMs != 0 && record.ExpireMs <= time.Now().UnixMilli() && !r.Expired && !r.Held:
		r.Progress.Skip("keys that had expired")
		return nil
	}
	key := Key{Database: to, Name: r.Filter.Rename(record.Key), ExpireMs: record.ExpireMs, Held: r.Held}
	r.Filter.adapt(record.Value)
	err := r.to.Load(key, record.Value)
	switch {
	case err == nil:
		return nil
	case record.Value.Err() != nil:
		return r.broken(fmt.Errorf("key %.200q in database %d: %w", record.Key, record.Database, record.Value.Err()))
	case ExitCode(err) == ExitUnsupported && r.SkipUnsupported:
		r.Progress.Skip("keys of a type that isn't supported")
		return nil
	}
	return err
}

// follow reads what follows an RDB file: nothing, or the commands of an AOF.
func (r *fileReader) follow(reader *rdb.Reader) error {
	rest := bufio.NewReaderSize(reader.Rest(), 64<<10)
	r.offset, r.database = reader.Offset(), 0
	switch head, err := rest.Peek(1); {
	case err == io.EOF:
		return nil
	case err != nil:
		return r.broken(err)
	case head[0] != '*' && head[0] != '#':
		return r.broken(fmt.Errorf("what follows the RDB file at offset %d is no AOF", r.offset))
	}
	return r.commands(rest)
}

// commands reads an AOF. When it breaks off in its last command, that was never carried out for
// sure, and is left out, as Redis does.
func (r *fileReader) commands(file io.Reader) error {
	reader := resp.NewReader(file, longestCommand)
	for {
		args, n, err := reader.ReadRequest()
		switch {
		case err == io.EOF && !r.open:
			return nil
		case err == io.EOF, errors.Is(err, io.ErrUnexpectedEOF) && r.ctx.Err() == nil:
			if !r.last {
				return r.broken(fmt.Errorf("it breaks off at offset %d, and isn't the last file of the AOF", r.offset))
			}
			r.Progress.Say("%s breaks off at offset %d: the last command, or transaction, is left out", r.name, r.offset)
			return nil
		case err != nil:
			return r.broken(fmt.Errorf("offset %d: %w", r.offset, err))
		}
		if err := r.command(args); err != nil {
			return fmt.Errorf("%s: offset %d: %w", r.name, r.offset, err)
		}
		r.offset += int64(n)
	}
}

func (r *fileReader) command(args [][]byte) error {
	if bytes.HasPrefix(args[0], []byte("#")) || saysNothing(args[0]) { // the former is a time
		return nil
	}
	switch strings.ToUpper(string(args[0])) {
	case "SELECT":
		if len(args) != 2 {
			return failure(ExitSource, "%s is no command", brief(args))
		}
		number, err := strconv.ParseUint(string(args[1]), 10, 31)
		r.database = int(number)
		if err != nil {
			return failure(ExitSource, "%s: %w", brief(args), err)
		}
		return nil
	case "MULTI":
		r.open, r.group = true, nil
		return nil
	case "EXEC":
		group := r.group
		r.open, r.group = false, nil
		if len(group) == 0 {
			return nil
		}
		r.Progress.Commands.Add(int64(len(group)))
		return r.to.Apply(group...)
	case "MSETEX":
		sets, err := setsOf(args)
		for i := 0; i < len(sets) && err == nil; i++ {
			err = r.command(sets[i])
		}
		return err
	}
	command, err := r.translate(args)
	if err != nil || command == nil {
		return err
	}
	commands, err := r.hold(command)
	switch {
	case err != nil:
		return err
	case r.open:
		r.group = append(r.group, commands...)
		return nil
	}
	r.Progress.Commands.Add(1)
	return r.to.Apply(commands...)
}

// translate is what a command is at the target; nil if it is nothing there.
func (r *fileReader) translate(args [][]byte) (*Command, error) {
	words := make([][]byte, len(args))
	for i, word := range args {
		words[i] = bytes.Clone(word)
	}
	switch name := strings.ToUpper(string(words[0])); name {
	case "FLUSHALL", "FLUSHDB", "SWAPDB":
		return r.whole(name, words)
	case "FUNCTION":
		return r.function(words)
	}
	keys, known, err := r.Commands.Keys(nil, words)
	switch {
	case err != nil:
		return nil, failure(ExitUnsupported, "%s: %w", brief(words), err)
	case !known:
		return nil, failure(ExitUnsupported, "%s is a command that isn't known", brief(words))
	case len(keys) == 0:
		return nil, failure(ExitUnsupported, "%s is no command on keys", brief(words))
	}
	command, err := r.Filter.Command(r.database, words, keys)
	if command == nil || err != nil {
		return nil, err
	}
	return r.Filter.otherDatabase(command)
}

// hold returns what carries a command out while expiries are held.
func (r *fileReader) hold(command *Command) ([]Command, error) {
	if !r.Held {
		return []Command{*command}, nil
	}
	command.dropCondition()
	commands, _, err := command.held()
	if err != nil {
		return nil, failure(ExitSource, "%s: %w", brief(command.Args), err)
	}
	return commands, nil
}

// whole is a command on a whole database.
func (r *fileReader) whole(name string, words [][]byte) (*Command, error) {
	switch {
	case name == "SWAPDB" && (r.Flush != "apply" || len(r.Filter.Databases) > 0 || !r.Filter.AllKeys()):
		return nil, failure(ExitUnsupported, "%s exchanges databases, which an import can't repeat", brief(words))
	case r.Flush == "skip":
		r.Progress.Skip("FLUSHALL and FLUSHDB")
		return nil, nil
	case r.Flush != "apply":
		return nil, failure(ExitUnsupported,
			"%s would empty the target, too: --on-flush apply carries it out there, --on-flush skip passes it over", brief(words))
	case !r.Filter.AllKeys() || name == "FLUSHALL" && len(r.Filter.Databases) > 0:
		return nil, failure(ExitUnsupported, "%s can't be carried out when only some keys are imported", brief(words))
	}
	to, wanted := r.Filter.Database(r.database)
	if !wanted {
		return nil, nil
	}
	return &Command{Database: to, Args: words}, nil
}
