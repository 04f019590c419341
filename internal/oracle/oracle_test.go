package oracle

import (
	"reflect"
	"testing"
)

func TestReplies(t *testing.T) {
	server := Start(t)
	for _, test := range []struct {
		command []any
		want    any
	}{
		{[]any{"SET", "key", []byte("a\r\n\x00b")}, "OK"},
		{[]any{"GET", "key"}, "a\r\n\x00b"},
		{[]any{"GET", "missing"}, nil},
		{[]any{"STRLEN", "key"}, int64(5)},
		{[]any{"RPUSH", "list", 1, -2.5, uint64(3)}, int64(3)},
		{[]any{"LRANGE", "list", 0, int64(-1)}, []any{"1", "-2.5", "3"}},
		{[]any{"INCR", "key"}, Error("ERR value is not an integer or out of range")},
	} {
		if got := server.Do(test.command...); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%q: %#v, want %#v", test.command, got, test.want)
		}
	}
}

func TestPipeline(t *testing.T) {
	server := Start(t)
	server.Send("SET", "key", "1")
	server.Send("INCR", "key")
	if first, second := server.Receive(), server.Receive(); first != "OK" || second != int64(2) {
		t.Errorf("replies %v, %v", first, second)
	}
}
