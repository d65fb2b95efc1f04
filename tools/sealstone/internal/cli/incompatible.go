package cli

import (
	"fmt"

	"github.com/sealstone/sealstone/engine"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// incompatibleFlag is --on-incompatible of the commands that open a store for
// writing.
type incompatibleFlag engine.OnIncompatible

var _ pflag.Value = (*incompatibleFlag)(nil)

// Set implements pflag.Value.
func (f *incompatibleFlag) Set(s string) error {
	c, err := engine.ParseOnIncompatible(s)
	if err != nil || s == "" {
		return fmt.Errorf("%q is not one of %s and %s", s, engine.IncompatibleRefuse, engine.IncompatibleSetAside)
	}
	*f = incompatibleFlag(c)
	return nil
}

// Type implements pflag.Value.
func (f *incompatibleFlag) Type() string { return "choice" }

// String implements pflag.Value.
func (f *incompatibleFlag) String() string { return string(*f) }

func (f *incompatibleFlag) register(cmd *cobra.Command) {
	*f = incompatibleFlag(engine.IncompatibleRefuse)
	cmd.Flags().Var(f, "on-incompatible", "`DO` with a store that cannot be opened: refuse, or\nset-aside")
}
