package storage

import "kedis/storage/layout"

// Usage is about how many bytes a key's records take, before compression: its own, the one in the
// index of expiries, and those of a spread collection's elements, whose size is taken from that of
// the first ones. samples is how many are looked at; 0 is all.
func (d DB) Usage(key []byte, k Key, samples int64) (int64, error) {
	bytes := int64(1 + len(key) + len(k.Metadata.Append(nil)))
	if k.ExpireMs != 0 {
		bytes += int64(len(layout.AppendExpiryKey(nil, k.ExpireMs, key)) + 1)
	}
	if k.Encoding != layout.Spread {
		return bytes, nil
	}
	for _, records := range k.Type.Elements() {
		elements, err := d.elementBytes(records, &k.Metadata, samples)
		if err != nil {
			return 0, err
		}
		bytes += elements
	}
	return bytes, nil
}

func (d DB) elementBytes(records layout.Elements, m *layout.Metadata, samples int64) (int64, error) {
	var bytes, seen int64
	it := d.iterateSome(records.Kind, m)
	for (samples == 0 || seen < samples) && it.Next() {
		bytes += int64(len(it.Key()) + len(it.Value()))
		seen++
	}
	if err := it.Close(); err != nil || seen == 0 {
		return 0, err
	}
	return bytes / seen * int64(records.Count(m)), nil
}

// iterateSome iterates over records of one kind: of a list's single elements, over those at one
// end.
func (d DB) iterateSome(kind byte, m *layout.Metadata) *Iterator {
	if kind != layout.KindListElement {
		return d.iterateCollection(kind, m, false)
	}
	single := singleOf(m)
	if single[0].Length() == 0 {
		return d.iterateSingle(m, single[1])
	}
	return d.iterateSingle(m, single[0])
}
