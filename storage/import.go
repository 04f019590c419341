package storage

import (
	"kedis/storage/engine"
	"kedis/storage/rdb"
)

// Import is a whole data set that comes from elsewhere, key by key: see engine.Import.
type Import struct {
	*engine.Import
	txn *Txn
}

// NewImport begins an import.
func (s *Store) NewImport() (*Import, error) {
	t := s.NewTxn()
	i, err := s.Store.NewImport(&t.Txn)
	if err != nil {
		return nil, err
	}
	return &Import{i, t}, nil
}

// NewSortedImport is NewImport for a store that nobody uses yet: see engine.Store.NewSortedImport.
func (s *Store) NewSortedImport(directory string, runBytes int) (*Import, error) {
	t := s.NewTxn()
	i, err := s.Store.NewSortedImport(&t.Txn, directory, runBytes)
	if err != nil {
		return nil, err
	}
	return &Import{i, t}, nil
}

// Restore takes in one key, which must not have come before. Errors: those of DB.Restore, and
// ErrIncomplete.
func (i *Import) Restore(database int, key []byte, v *rdb.Value, expireMs int64) error {
	defer i.txn.scratch.slim()
	return i.Take(database, key, func() error { return i.txn.DB(database).Restore(key, Key{}, v, expireMs) })
}
