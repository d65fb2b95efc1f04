package e

import "testing"

func check(t *testing.T, held bool) {
	t.Helper()
	if !held {
		t.Error("broken")
	}
}

func TestLaw1Guards(t *testing.T)      { check(t, law1()) }
func TestLaw1Bystander(t *testing.T)   { check(t, true) }
func TestLaw2Blind(t *testing.T)       { check(t, true) }
func TestLaw3Crashes(t *testing.T)     { check(t, law3()) }
func TestLaw4AlwaysFails(t *testing.T) { check(t, false) }
func TestLaw5Everywhere(t *testing.T)  { check(t, !broken("law5")) }
