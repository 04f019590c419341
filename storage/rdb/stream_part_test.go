package rdb

import (
	"reflect"
	"testing"
)

func TestStreamPartsRoundTrip(t *testing.T) {
	for _, p := range []StreamElement{
		{Part: StreamEntry, ID: StreamID{1 << 40, 3}, Node: StreamID{1, 2}, Fields: [][]byte{[]byte("f"), {}}},
		{Part: StreamTotals, Length: 7, ID: StreamID{9, 8}, FirstID: StreamID{1, 0}, MaxDeletedID: StreamID{5, 1<<64 - 1}, EntriesAdded: 12, Groups: 2},
		{Part: StreamGroup, Name: []byte("group"), EntriesRead: -1, Pending: 3},
		{Part: StreamPending, ID: StreamID{9, 8}, DeliveredMs: 1 << 41, Deliveries: 2},
		{Part: StreamConsumer, Name: []byte("consumer"), SeenMs: 5, ActiveMs: -1, Consumers: 4, Pending: 1},
		{Part: StreamOwned, ID: StreamID{9, 8}},
	} {
		whole := p.Append(nil)
		var got StreamElement
		if err := got.Decode(whole); err != nil || string(got.Append(nil)) != string(whole) || !reflect.DeepEqual(got.Fields, p.Fields) || got.ActiveMs != p.ActiveMs {
			t.Errorf("%+v came back as %+v, %v", p, got, err)
		}
		for i := range whole {
			if err := got.Decode(whole[:i]); err == nil {
				t.Errorf("part %d cut at %d of %d bytes was read", p.Part, i, len(whole))
			}
		}
	}
}
