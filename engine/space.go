package engine

import "fmt"

// noSpace: the file system is full whatever the capacity says. Puts are shed
// by the write that fails; the evictor is asked for room.
func (s *Store) noSpace(err error) {
	s.events.add(s.o.private.now(), EventHealth, fmt.Sprintf("the file system has no room: %v", err))
	kick(s.kickEvict)
}
