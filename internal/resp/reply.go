package resp

// Kind says what a reply is: the byte that it begins with.
type Kind byte

// The kinds of replies. From KindNull on they exist in RESP3 only.
const (
	KindSimple    Kind = '+' // Text
	KindError     Kind = '-' // Text, which begins with a code such as ERR
	KindInteger   Kind = ':' // Integer
	KindBulk      Kind = '$' // Text, or Null
	KindArray     Kind = '*' // Elements, or Null
	KindNull      Kind = '_' // Null
	KindDouble    Kind = ',' // Double, and Text as it was sent
	KindBool      Kind = '#' // Integer: 1 is true
	KindBigNumber Kind = '(' // Text: an integer of any size in decimal
	KindBulkError Kind = '!' // Text
	KindVerbatim  Kind = '=' // Text, Format
	KindMap       Kind = '%' // Elements: keys and values in turns
	KindSet       Kind = '~' // Elements
	KindPush      Kind = '>' // Elements; no request asked for it

	kindAttribute Kind = '|'
)

// Reply is a reply of another server.
type Reply struct {
	Kind       Kind
	Null       bool
	Format     string // of a verbatim text: three letters, such as txt
	Text       []byte
	Integer    int64
	Double     float64
	Elements   []Reply
	Attributes []Reply // keys and values in turns that stood before the reply
}

// Err returns the error that the reply is, or nil when it is none.
func (r *Reply) Err() error {
	if r.Kind == KindError || r.Kind == KindBulkError {
		return &ReplyError{string(r.Text)}
	}
	return nil
}

// ReplyError is an error reply of another server.
type ReplyError struct {
	Text string // as it was sent: a code and an explanation
}

func (e *ReplyError) Error() string {
	return "resp: error reply: " + e.Text
}
