package replication

import (
	"bytes"
	"fmt"

	"kedis/internal/number"
	"kedis/storage"
	"kedis/storage/rdb"
)

// commandLoader reads a snapshot that comes as commands; see snapshot_commands.go.
type commandLoader struct {
	link    *link
	to      *storage.Import
	decoder rdb.Decoder

	checksum uint64 // of all requests that were read
	before   uint64 // of all but the last
	pending  [][]byte

	database int
	keys     int64

	key    []byte // of the collection whose pieces come
	kind   *storage.DataType
	words  [][]byte // of the piece, what is still to be taken
	pieces *storage.Pieces
	part   rdb.StreamElement
}

// loadCommands reads a snapshot into an import, and returns the database that the stream behind it
// has selected.
func (l *link) loadCommands(to *storage.Import) (database int, err error) {
	c := &commandLoader{link: l, to: to}
	c.decoder.MaxString, c.decoder.Trusted = storage.MaxStringBytes, true
	for {
		args, err := c.request()
		if err != nil {
			return 0, err
		}
		switch name := string(args[0]); {
		case name == "SELECT" && len(args) == 2:
			err = c.selectDatabase(args[1])
		case name == "RESTORE" && len(args) == 5:
			err = c.restore(args)
		case name == "FUNCTION" && len(args) == 3:
			err = l.takeLibrary(to, args[2])
		case name == snapshotComplete && len(args) == 6:
			return c.complete(args[1:])
		default:
			err = fmt.Errorf("replication: the primary sends %.100q in a snapshot", args)
		}
		if err != nil {
			return 0, err
		}
	}
}

// request returns the next request, whose words live until the one after it is asked for.
func (c *commandLoader) request() ([][]byte, error) {
	if args := c.pending; args != nil {
		c.pending = nil
		return args, nil
	}
	args, n, err := c.link.requests.ReadRequest()
	if err != nil {
		return nil, err
	}
	c.link.loaded.Add(int64(n))
	c.before, c.checksum = c.checksum, rdb.CRC64(c.checksum, c.link.requests.Raw())
	return args, nil
}

func (c *commandLoader) selectDatabase(word []byte) error {
	n, err := c.link.databaseOf(word)
	c.database = n
	return err
}

// restore takes one key in, with the pieces that follow if it is a large collection.
func (c *commandLoader) restore(args [][]byte) error {
	c.key = append(c.key[:0], args[1]...)
	expireMs, ok := number.ParseInt(args[2])
	if !ok || expireMs < 0 {
		return fmt.Errorf("replication: key %.200q expires at %.40q", c.key, args[2])
	}
	value, err := c.decoder.Payload(args[3])
	if err != nil {
		return fmt.Errorf("replication: key %.200q: %w", c.key, err)
	}
	c.kind = storage.TypeOfPayload(value.Kind)
	value.Continue(c.nextElement)
	if err := c.to.Restore(c.database, c.key, value, expireMs); err != nil {
		return fmt.Errorf("replication: key %.200q of type %s in database %d: %w", c.key, value.Kind, c.database, err)
	}
	c.keys++
	c.link.keys.Add(1)
	return nil
}

// nextElement takes the next element of a collection from the piece that came last, or from the
// next one, if there is one.
func (c *commandLoader) nextElement(e *rdb.Element) (more bool, err error) {
	for len(c.words) == 0 {
		args, err := c.request()
		if err != nil {
			return false, err
		}
		if !c.isPiece(args) {
			c.pending = args
			return false, nil
		}
		c.words = args[2:]
	}
	e.Stream = &c.part // where a stream's goes
	if c.words, err = c.pieces.Parse(c.words, e); err != nil {
		return false, fmt.Errorf("replication: key %.200q: %w", c.key, err)
	}
	return true, nil
}

// isPiece reports whether a request is a piece of the collection whose pieces come.
func (c *commandLoader) isPiece(args [][]byte) bool {
	if len(args) < 3 || c.kind == nil || !bytes.Equal(args[1], c.key) {
		return false
	}
	c.pieces = c.kind.PiecesNamed(string(args[0]))
	return c.pieces != nil
}

// complete checks that what came is what was sent: words are those of REPL_SNAPSHOT_COMPLETE.
func (c *commandLoader) complete(words [][]byte) (database int, err error) {
	position, ok := number.ParseInt(words[2])
	if string(words[0]) != c.link.full.id || !ok || position != c.link.full.position {
		return 0, fmt.Errorf("replication: the snapshot is of %.40q at %.40q, and not of %s at %d", words[0], words[2], c.link.full.id, c.link.full.position)
	}
	if keys, ok := number.ParseInt(words[3]); !ok || keys != c.keys {
		return 0, fmt.Errorf("replication: %d keys came, of %.40q", c.keys, words[3])
	}
	if want := fmt.Sprintf("%016x", c.before); string(words[4]) != want {
		return 0, fmt.Errorf("replication: the snapshot's checksum is %s, and not %.40q", want, words[4])
	}
	return c.link.databaseOf(words[1])
}
