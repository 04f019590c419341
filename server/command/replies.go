package command

// Replies that many commands give. The texts are Redis's.
const (
	ErrNotFloat   = Error("ERR value is not a valid float")
	ErrNoSuchKey  = Error("ERR no such key")
	ErrOutOfRange = Error("ERR index out of range")
	ErrTooLong    = Error("ERR string exceeds maximum allowed size (proto-max-bulk-len)")
	ErrNotReal    = Error("ERR value is out of range, must be positive")
	ErrExecAbort  = Error("EXECABORT Transaction discarded because of previous errors.")
)
