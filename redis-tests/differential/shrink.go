package differential

// Shrink returns a part of steps that still fails, from which no further step can be left out.
// fails runs steps from the beginning on empty servers and returns how many of them it took until a
// difference showed, or 0 if none did.
//
// First only the last steps are tried, since most mistakes need few; then it is delta debugging
// (Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", 2002): leave out
// pieces, large ones first.
func Shrink(steps []Step, fails func(steps []Step) int) []Step {
	for length := 8; length < len(steps); length *= 4 {
		if n := fails(steps[len(steps)-length:]); n > 0 {
			steps = steps[len(steps)-length:][:n]
			break
		}
	}
	for piece := len(steps) / 2; piece > 0; piece /= 2 {
		steps = without(steps, piece, fails)
	}
	// With shorter arguments, steps may have become useless.
	return without(shorten(steps, fails), 1, fails)
}

// without tries to leave out each run of piece steps.
func without(steps []Step, piece int, fails func(steps []Step) int) []Step {
	for from := 0; from < len(steps); {
		rest := append(append([]Step{}, steps[:from]...), steps[min(from+piece, len(steps)):]...)
		if n := fails(rest); n > 0 {
			steps = rest[:n]
		} else {
			from += piece
		}
	}
	return steps
}

// shorten tries to leave out arguments, in pieces, and to send each step on its own.
func shorten(steps []Step, fails func(steps []Step) int) []Step {
	// A step that fails earlier is no simpler: only what fails in the same place is taken.
	replace := func(i int, step Step) bool {
		candidate := append([]Step{}, steps...)
		candidate[i] = step
		if n := fails(candidate); n == len(steps) {
			steps = candidate
			return true
		}
		return false
	}
	for i := range steps {
		if steps[i].Joined {
			alone := steps[i]
			alone.Joined = false
			replace(i, alone)
		}
		if isOwn(steps[i].Line) {
			continue
		}
		for j := 1; j < len(steps[i].Line); j++ {
			for shorter := halved(steps[i], j); len(shorter.Line[j]) > 0 && replace(i, shorter); {
				shorter = halved(shorter, j)
			}
		}
		for piece := len(steps[i].Line) / 2; piece > 0; piece /= 2 {
			for from := 1; from+piece <= len(steps[i].Line); {
				if !replace(i, cut(steps[i], from, piece)) {
					from += piece
				}
			}
		}
	}
	return steps
}

// halved is the step with the first half of argument j.
func halved(step Step, j int) Step {
	step.Line = append([]string{}, step.Line...)
	step.Line[j] = step.Line[j][:len(step.Line[j])/2]
	return step
}

// cut is the step without some of its arguments.
func cut(step Step, from, count int) Step {
	step.Line = append(append([]string{}, step.Line[:from]...), step.Line[from+count:]...)
	return step
}
