package gputest

import "testing"

func TestFaultSpec(t *testing.T) {
	for want, f := range map[string]Fault{
		"cuX=5027":           {Code: 5027},
		"cuX=-5":             {Code: -5},
		"cuX=stale@3+1":      {Kind: Stale, From: 3, Count: 1},
		"cuX=errno:5027/0":   {Kind: Errno, Code: 5027, Only: OnDevice(0)},
		"cuX=limit:4096":     {Kind: Limit, Code: 4096},
		"cuX=hang@1+2":       {Kind: Hang, Count: 2},
		"cuX=late/7@2":       {Kind: Late, From: 2, Only: OnDevice(7)},
		"cuX=lost:700/1@2+1": {Kind: Lost, Code: 700, From: 2, Count: 1, Only: OnDevice(1)},
	} {
		if got := f.spec("cuX"); got != want {
			t.Errorf("%+v is %q, want %q", f, got, want)
		}
	}
}
