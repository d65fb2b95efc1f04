package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// byteRate is a flag in bytes a second: "200MiB/s", "200MiB". 0 is no limit.
type byteRate int64

var _ pflag.Value = (*byteRate)(nil)

// Set implements pflag.Value.
func (r *byteRate) Set(s string) error {
	number := strings.TrimSpace(s)
	if strings.HasSuffix(strings.ToLower(number), "/s") {
		number = number[:len(number)-len("/s")]
	}
	n, err := parseSize(number)
	if err != nil {
		return fmt.Errorf("%q is not a rate; write 200MiB/s", s)
	}
	*r = byteRate(n)
	return nil
}

// Type implements pflag.Value.
func (r *byteRate) Type() string { return "rate" }

// String implements pflag.Value.
func (r *byteRate) String() string {
	if *r == 0 {
		return ""
	}
	n := size(*r)
	return n.String() + "/s"
}

// register adds --rate to a command that reads or writes much.
func (r *byteRate) register(cmd *cobra.Command) {
	cmd.Flags().Var(r, "rate", "read and write at most `RATE`, as 200MiB/s")
}
