package failover

import (
	"fmt"
	"strings"

	"github.com/anishathalye/porcupine"
)

// kind is what an operation does.
type kind int

const (
	set     kind = iota // of a register
	get                 // of it
	push                // to a list; the output is its length
	list                // all of a list
	setBoth             // two keys in one transaction
	getBoth             // of them
)

// input is what a client asks for, of an object.
type input struct {
	kind   kind
	object string
	value  string // that is written, another one each time
}

// output is what it was told.
type output struct {
	text    string
	unknown bool // it was told nothing, or that nobody knows
}

func (i input) writes() bool { return i.kind == set || i.kind == push || i.kind == setBoth }

// bounded gives an end to writes of unknown outcome; without one a long history takes too long to
// check. Values are unique, and all objects are read at last. So a write that a read shows ended
// before that read did, and one that no read shows is left out: it made no difference.
func bounded(history []porcupine.Operation) (known []porcupine.Operation) {
	type value struct{ object, text string }
	seen := map[value]int64{} // when the first read that shows it had ended
	for _, o := range history {
		in := o.Input.(input)
		if in.writes() {
			continue
		}
		for text := range strings.FieldsSeq(o.Output.(output).text) {
			v := value{in.object, text}
			if first, found := seen[v]; !found || o.Return < first {
				seen[v] = o.Return
			}
		}
	}
	for _, o := range history {
		if o.Output.(output).unknown {
			in := o.Input.(input)
			end, found := seen[value{in.object, in.value}]
			if !found {
				continue
			}
			o.Return = end
		}
		known = append(known, o)
	}
	return known
}

// model is one server that never fails. Objects are independent of each other.
var model = porcupine.Model{
	Partition: func(history []porcupine.Operation) (parts [][]porcupine.Operation) {
		byObject := map[string]int{}
		for _, o := range history {
			object := o.Input.(input).object
			at, known := byObject[object]
			if !known {
				at = len(parts)
				byObject[object] = at
				parts = append(parts, nil)
			}
			parts[at] = append(parts[at], o)
		}
		return parts
	},
	Init: func() any { return "" },
	Step: func(state, in, out any) (bool, any) {
		now, i, o := state.(string), in.(input), out.(output)
		switch i.kind {
		case set, setBoth:
			return true, i.value
		case push:
			next := now + i.value + " "
			return o.unknown || o.text == fmt.Sprint(strings.Count(next, " ")), next
		}
		return o.text == now, now
	},
	DescribeOperation: func(in, out any) string { return fmt.Sprintf("%+v: %+v", in, out) },
}
