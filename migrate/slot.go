package migrate

import (
	"bytes"
	"strconv"
	"sync"
)

// slots is how many slots a Redis Cluster has. Source:
// https://redis.io/docs/reference/cluster-spec.
const slots = 16384

// slotOf is the slot of a key: the CRC-16 (XMODEM) of what stands in its first {}, or of all of it.
func slotOf(key []byte) int {
	if open := bytes.IndexByte(key, '{'); open >= 0 {
		if length := bytes.IndexByte(key[open+1:], '}'); length > 0 {
			key = key[open+1 : open+1+length]
		}
	}
	var crc uint16
	for _, b := range key {
		crc ^= uint16(b) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return int(crc % slots)
}

// slotTags are short words, one for each slot.
var slotTags = sync.OnceValue(func() *[slots]string {
	var tags [slots]string
	for n, found := 0, 0; found < slots; n++ {
		word := strconv.Itoa(n)
		if slot := slotOf([]byte(word)); tags[slot] == "" {
			tags[slot] = word
			found++
		}
	}
	return &tags
})
