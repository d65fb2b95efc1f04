//go:build race

package engine

// raceDetector: it maps more memory than a limit of address space would allow.
const raceDetector = true
