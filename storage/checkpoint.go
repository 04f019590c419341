package storage

import "fmt"

// Checkpoint makes a copy of the data as RocksDB files in a directory, which must not exist while its
// parent does. Its state record holds the position of the log that it is as of: that of some commit
// between the call and the return. Nobody is stopped meanwhile.
func (s *Store) Checkpoint(directory string) error {
	if err := s.Settle(); err != nil {
		return err
	}
	if err := s.db().Checkpoint(directory); err != nil {
		return fmt.Errorf("storage: checkpoint: %w", err)
	}
	return nil
}
