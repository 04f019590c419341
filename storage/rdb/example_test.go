package rdb_test

import (
	"bytes"
	"fmt"
	"io"

	"kedis/storage/listpack"
	"kedis/storage/rdb"
)

// A payload holds one value. Small collections are packed, and any can be read by its elements.
func ExampleDecoder() {
	w := rdb.NewPayloadWriter()
	w.Begin(nil)
	w.HashListpack(listpack.Empty(0).Append(nil, listpack.Of([]byte("field")), listpack.OfInt(17)))
	payload, err := w.Finish()
	if err != nil {
		fmt.Println(err)
	}

	var d rdb.Decoder
	v, err := d.Payload(payload)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(v.Kind, v.Listpack != nil)
	for v.Next() {
		fmt.Printf("%s = %s\n", v.Element.Bytes, v.Element.Value)
	}
	if err := v.Err(); err != nil {
		fmt.Println(err)
	}
	// Output:
	// hash true
	// field = 17
}

// A file is a sequence of records, most of which are keys.
func ExampleReader() {
	var file bytes.Buffer
	w := rdb.NewWriter(&file, rdb.Redis70)
	w.Aux("redis-ver", "7.0.15")
	w.Database(0)
	w.Key([]byte("greeting"), 0)
	w.String([]byte("hello"))
	w.Key([]byte("members"), 1700000000000)
	w.BeginSet(2)
	w.Member([]byte("a"))
	w.Member([]byte("b"))
	w.End()
	if err := w.Close(); err != nil {
		fmt.Println(err)
	}

	r, err := rdb.NewReader(&file, 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	for {
		record, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		if record.Kind == rdb.RecordKey {
			fmt.Println(record.Value.Kind, string(record.Key), record.ExpireMs)
		}
	}
	// Output:
	// string greeting 0
	// set members 1700000000000
}
