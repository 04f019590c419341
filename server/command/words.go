package command

import "strconv"

// Words of effects.
var (
	wordDel       = []byte("DEL")
	wordKeepTTL   = []byte("KEEPTTL")
	wordPExpireAt = []byte("PEXPIREAT")
	wordPersist   = []byte("PERSIST")
	wordPXAT      = []byte("PXAT")
	wordSet       = []byte("SET")
	wordSetRange  = []byte("SETRANGE")
)

func formatInteger(n int64) []byte { return strconv.AppendInt(nil, n, 10) }
