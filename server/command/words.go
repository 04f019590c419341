package command

import "strconv"

// Words of effects.
var (
	wordDel     = []byte("DEL")
	wordSet     = []byte("SET")
	wordPXAT    = []byte("PXAT")
	wordKeepTTL = []byte("KEEPTTL")
)

func formatInteger(n int64) []byte { return strconv.AppendInt(nil, n, 10) }
