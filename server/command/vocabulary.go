package command

// oneKey is a single key at a word.
func oneKey(index int, flags KeyFlags) KeySpec {
	return KeySpec{Flags: flags, Index: index, Step: 1}
}

// keyRange is several keys from a word on; last counts from there, or from the end if negative.
func keyRange(index, last, step int, flags KeyFlags) KeySpec {
	return KeySpec{Flags: flags, Index: index, Last: last, Step: step}
}

// countedKeys is a number of keys at a word, and the keys behind it.
func countedKeys(index int, flags KeyFlags) KeySpec {
	return KeySpec{Flags: flags, Index: index, Counted: true, Count: 0, First: 1, Step: 1}
}
