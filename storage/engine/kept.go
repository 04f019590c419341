package engine

// kept is memory for entries that a transaction's iterators come to. They are valid until its
// Reset.
type kept struct{ memory []byte }

// What keep takes memory by. So much is there for the next command.
const leastMemory, mostMemory = 256, 64 << 10

// keep copies bytes to memory that isn't written to before reset: entries share it, since small
// ones each with their own cost twice the time.
func (k *kept) keep(b []byte) []byte {
	if cap(k.memory)-len(k.memory) < len(b) {
		k.memory = make([]byte, 0, max(len(b), min(max(2*cap(k.memory), leastMemory), mostMemory)))
	}
	from := len(k.memory)
	k.memory = append(k.memory, b...)
	return k.memory[from:len(k.memory):len(k.memory)]
}

// reset has the memory used again: nothing that was kept is valid any more.
func (k *kept) reset() {
	if cap(k.memory) > mostMemory {
		k.memory = nil
	}
	k.memory = k.memory[:0]
}
