package rdb

import (
	"errors"
	"slices"
	"testing"
)

// TestContinue has a set go on with members from elsewhere, which may fail.
func TestContinue(t *testing.T) {
	w := NewPayloadWriter()
	w.Begin(nil)
	w.BeginSet(2)
	w.Member([]byte("a"))
	w.Member([]byte("b"))
	w.End()
	payload, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	var d Decoder
	for _, c := range []struct {
		more []string
		fail error
		want []string
	}{
		{nil, nil, []string{"a", "b"}},
		{[]string{"c", "d"}, nil, []string{"a", "b", "c", "d"}},
		{[]string{"c"}, broken, []string{"a", "b", "c"}},
	} {
		v, err := d.Payload(payload)
		if err != nil {
			t.Fatal(err)
		}
		more := c.more
		v.Continue(func(e *Element) (bool, error) {
			if len(more) == 0 {
				return false, c.fail
			}
			e.Bytes, more = []byte(more[0]), more[1:]
			return true, nil
		})
		var got []string
		for v.Next() {
			got = append(got, string(v.Element.Bytes))
		}
		if !slices.Equal(got, c.want) || !errors.Is(v.Err(), c.fail) || v.Next() {
			t.Errorf("with %q: %q, %v", c.more, got, v.Err())
		}
	}
	v, err := d.Payload(payload)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for v.Next() {
		n++
	}
	if n != 2 {
		t.Errorf("the next value goes on too: %d members", n)
	}
}
