//go:build !race

package launch

// RaceDetector says that the tests, and so as a rule the server under test too, were built with the
// race detector.
const RaceDetector = false
