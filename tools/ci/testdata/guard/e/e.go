// Package e is a fixture of canary.sh.
package e

func law1() bool { return !broken("law1") }

func law3() bool {
	if broken("law3") {
		panic("a crash is no failing test")
	}
	return true
}
