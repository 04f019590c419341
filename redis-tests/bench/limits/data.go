package main

import (
	"math/rand/v2"
	"strconv"
)

// keySize is the bytes of every key: "key:" and sixteen digits.
const keySize = 20

// data is what the server is filled with: keys 0 to count-1, with values of one size.
type data struct {
	count     int
	valueSize int
	random    []byte // values are pieces of it, so no compression makes them smaller
}

func newData(bytes int64, valueSize int) *data {
	d := &data{count: max(int(bytes/int64(keySize+valueSize)), 2), valueSize: valueSize, random: make([]byte, 16<<20)}
	random := rand.NewChaCha8([32]byte{})
	_, _ = random.Read(d.random) // never fails
	return d
}

// bytes is the size of all keys and values.
func (d *data) bytes() int64 { return int64(d.count) * int64(keySize+d.valueSize) }

// appendKey appends the key with number i. Neighbouring numbers have keys that lie far apart, so
// neither the load nor the keys that a Zipf distribution favours follow the order on disk.
func appendKey(destination []byte, i int) []byte {
	const digits = "0123456789abcdef"
	destination = append(destination, "key:"...)
	mixed := mix(uint64(i))
	for shift := 60; shift >= 0; shift -= 4 {
		destination = append(destination, digits[mixed>>shift&15])
	}
	return destination
}

// mix is a permutation of the 64-bit numbers: the finalizer of SplitMix64.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// appendGet appends a GET of key i.
func appendGet(destination []byte, i int) []byte {
	destination = append(destination, "*2\r\n$3\r\nGET\r\n$20\r\n"...)
	return append(appendKey(destination, i), "\r\n"...)
}

// appendSet appends a SET of key i to a value that random chooses.
func (d *data) appendSet(destination []byte, i int, random *rand.Rand) []byte {
	destination = append(destination, "*3\r\n$3\r\nSET\r\n$20\r\n"...)
	destination = append(appendKey(destination, i), "\r\n$"...)
	destination = append(strconv.AppendInt(destination, int64(d.valueSize), 10), "\r\n"...)
	from := random.IntN(len(d.random) - d.valueSize)
	return append(append(destination, d.random[from:from+d.valueSize]...), "\r\n"...)
}
