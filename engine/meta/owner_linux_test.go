package meta

import "testing"

func TestParseStartTicks(t *testing.T) {
	const tail = " S 1 2 3 0 -1 4194304 5 6 7 8 9 10 11 12 20 0 14 0 98765 1 2 3"
	for stat, want := range map[string]uint64{
		"42 (sealstone)" + tail:       98765,
		"42 (a) b (c d)" + tail:       98765,
		"42 (sealstone) S 1 2":        0,
		"":                            0,
		"42 sealstone S 1 2 3 4 5 6 ": 0,
	} {
		if got := parseStartTicks([]byte(stat)); got != want {
			t.Errorf("%q: %d, want %d", stat, got, want)
		}
	}
}
