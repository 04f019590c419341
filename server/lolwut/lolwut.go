// Package lolwut draws what the command LOLWUT shows: a small picture, another one each time, and
// the version of the server below it.
//
// It is a pure function of its arguments, chance included, and imports only the standard library.
// It knows nothing of connections; the reply is plain UTF-8 text, which a RESP3 client gets as
// verbatim text.
package lolwut

import "math/rand/v2"

// Default is the piece that LOLWUT shows without VERSION.
const Default = 5

// The sizes that a client may ask for. They bound a picture to 60 kB, and the work to some
// milliseconds.
const (
	maxColumns = 200
	maxRows    = 100
	maxFaults  = 12
)

// Known reports whether there is a piece of that number.
func Known(piece int64) bool { return piece == 5 || piece == 6 }

// Draw returns the picture of a piece, with a line "Kedis ver. " and version at its end. There are
// two pieces, named by the numbers that clients of Redis know: 5 is Strata, whose arguments are the
// columns, the rows and the number of faults, and 6 is Island, whose arguments are the columns and
// the rows. Numbers out of range are taken for the nearest that is in it, those missing have
// defaults, and further ones are ignored. Any other piece is only the line, as in Redis. The same
// arguments give the same text.
func Draw(piece int64, arguments []int64, seed uint64, version string) string {
	random := rand.New(rand.NewPCG(seed, uint64(piece)))
	signature := "Kedis ver. " + version + "\n"
	switch piece {
	case 5:
		columns := argument(arguments, 0, 66, 1, maxColumns)
		rows := argument(arguments, 1, 20, 1, maxRows)
		faults := argument(arguments, 2, int64(1+random.IntN(3)), 0, maxFaults)
		return strata(random, columns, rows, faults) + "\n" + signature
	case 6:
		columns := argument(arguments, 0, 80, 1, maxColumns)
		rows := argument(arguments, 1, 20, 1, maxRows)
		return island(random, columns, rows) + "\n" + signature
	}
	return signature
}

// argument returns one of the arguments, moved between low and high.
func argument(arguments []int64, index int, fallback, low, high int64) int {
	if index < len(arguments) {
		fallback = arguments[index]
	}
	return int(min(max(fallback, low), high))
}
