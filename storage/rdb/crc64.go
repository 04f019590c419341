package rdb

import "encoding/binary"

// jonesReversed is the polynomial 0xad93d23594c935a9 with its bits in reverse order.
const jonesReversed = 0x95ac9329ac4bc9b5

// crcTables[i][b] is the checksum of byte b followed by i zero bytes, which lets eight bytes be
// taken in one step (slicing-by-8). The tables never change.
var crcTables = makeCRCTables()

func makeCRCTables() *[8][256]uint64 {
	var tables [8][256]uint64
	for b := range 256 {
		crc := uint64(b)
		for range 8 {
			crc = crc>>1 ^ (crc&1)*jonesReversed
		}
		tables[0][b] = crc
	}
	for b := range 256 {
		crc := tables[0][b]
		for i := 1; i < 8; i++ {
			crc = tables[0][byte(crc)] ^ crc>>8
			tables[i][b] = crc
		}
	}
	return &tables
}

// CRC64 continues the checksum crc, 0 at the start, over p. It is the CRC-64 with the Jones
// polynomial, reflected, without inversion, that protects payloads and RDB files. Its check value,
// that of "123456789", is 0xe9c6d914c4b8d9ca.
func CRC64(crc uint64, p []byte) uint64 {
	t := crcTables
	for ; len(p) >= 8; p = p[8:] {
		crc ^= binary.LittleEndian.Uint64(p)
		crc = t[7][byte(crc)] ^ t[6][byte(crc>>8)] ^ t[5][byte(crc>>16)] ^ t[4][byte(crc>>24)] ^
			t[3][byte(crc>>32)] ^ t[2][byte(crc>>40)] ^ t[1][byte(crc>>48)] ^ t[0][byte(crc>>56)]
	}
	for _, b := range p {
		crc = t[0][byte(crc)^b] ^ crc>>8
	}
	return crc
}
