package replication

import "fmt"

// State is how far a replica has come with its primary.
type State int32

// The states of the protocol.
const (
	Connect   State = iota // there is no connection
	Auth                   // it says who it is, if it is to
	Replconf               // it tells of itself
	Psync                  // it asks for the stream from where it is
	FullSync               // it takes a snapshot
	Connected              // it takes the stream
)

// next lists the moves that there are.
var next = map[State][]State{
	Connect:   {Auth, Connect},
	Auth:      {Replconf, Connect},
	Replconf:  {Psync, Connect},
	Psync:     {FullSync, Connected, Connect},
	FullSync:  {Connected, Connect},
	Connected: {Connect},
}

// String is the name that ROLE has for the state.
func (s State) String() string {
	switch s {
	case Connect:
		return "connect"
	case Auth, Replconf, Psync:
		return "handshake"
	case FullSync:
		return "sync"
	case Connected:
		return "connected"
	}
	return fmt.Sprintf("State(%d)", int32(s))
}
