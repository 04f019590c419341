package engine

import "errors"

// Rebase makes another log the one that commits go to. It is the former one up to its own end, and
// what the former one has behind that has changed no data: so the data are those of the new one's
// end. Nothing may be committed meanwhile. Until Persist has returned, a crash leaves the former
// log in use. The caller need not be inside of the gate.
func (s *Store) Rebase(log Log, directory uint64) error {
	return s.whileOpen(func() error { return s.rebase(log, directory) })
}

func (s *Store) rebase(log Log, directory uint64) error {
	// Generations on their way name the former log's positions: they go first.
	if err := s.Settle(); err != nil {
		return err
	}
	s.commit.Lock()
	defer s.commit.Unlock()
	if len(s.tiers.Load().frozen) > 0 {
		return errors.New("storage: something was committed while the log was exchanged")
	}
	s.leaveLog()
	s.commit.attach(log, directory)
	s.commit.reselect = true
	s.positions.visible.Store(log.Position())
	s.positions.persisted.Store(0)
	s.freeze()
	return nil
}
