package storage

import "kedis/storage/layout"

// Encoding is what OBJECT ENCODING answers for a key: what Redis 7.2 calls the form that it would give
// the value.
func Encoding(m *layout.Metadata) string {
	switch {
	case m.Type == layout.String:
		return StringEncoding(m)
	case m.Encoding == layout.Listpack:
		return "listpack"
	case m.Encoding == layout.Intset:
		return "intset"
	case m.Type == layout.List:
		return "quicklist"
	case m.Type == layout.ZSet:
		return "skiplist"
	}
	return "hashtable"
}
