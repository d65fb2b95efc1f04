package cli

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/sealstone/sealstone/engine"
	"github.com/spf13/pflag"
)

// sampleFlag is a part of a store: "5%", "2/10" (the second of ten parts) or
// a size, "20GiB".
type sampleFlag struct {
	engine.Sample
	text string
}

var _ pflag.Value = (*sampleFlag)(nil)

// Set implements pflag.Value.
func (s *sampleFlag) Set(text string) error {
	var v engine.Sample
	if number, ok := strings.CutSuffix(text, "%"); ok {
		percent, err := strconv.ParseFloat(number, 64)
		if err != nil || !(percent > 0 && percent <= 100) {
			return fmt.Errorf("%q is not a share; write 5%%", text)
		}
		if percent < 100 {
			v.Share = percent / 100
		}
	} else if part, parts, ok := strings.Cut(text, "/"); ok {
		var err1, err2 error
		v.Part, err1 = strconv.Atoi(part)
		v.Parts, err2 = strconv.Atoi(parts)
		if err1 != nil || err2 != nil || v.Part < 1 || v.Part > v.Parts {
			return fmt.Errorf("%q is not a part; write 1/10 to 10/10", text)
		}
	} else {
		n, err := parseSize(text)
		if err != nil || n <= 0 {
			return fmt.Errorf("%q is no sample; write 5%%, 2/10 or 20GiB", text)
		}
		v.Bytes = int64(n)
	}
	s.Sample, s.text = v, text
	return nil
}

// Type implements pflag.Value.
func (s *sampleFlag) Type() string { return "sample" }

// String implements pflag.Value.
func (s *sampleFlag) String() string { return s.text }
