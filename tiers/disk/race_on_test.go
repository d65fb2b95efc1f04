//go:build race

package disk

// raceDetector: sync.Pool then drops some of what it is given, on purpose.
const raceDetector = true
