package cli

import (
	"testing"

	"github.com/sealstone/sealstone/engine"
)

func TestSampleFlag(t *testing.T) {
	for text, want := range map[string]engine.Sample{
		"5%": {Share: 0.05}, "0.5%": {Share: 0.005}, "100%": {}, "2/7": {Part: 2, Parts: 7}, "1/1": {Part: 1, Parts: 1},
		"20GiB": {Bytes: 20 << 30}, "4096": {Bytes: 4096},
	} {
		var s sampleFlag
		if err := s.Set(text); err != nil || s.Sample != want || s.String() != text {
			t.Errorf("%q: %+v, %v; want %+v", text, s.Sample, err, want)
		}
	}
	for _, text := range []string{"", "%", "0%", "-1%", "101%", "NaN%", "0/3", "4/3", "1/", "/2", "a/b", "0", "many"} {
		var s sampleFlag
		if err := s.Set(text); err == nil {
			t.Errorf("%q was taken for %+v", text, s.Sample)
		}
	}
}
