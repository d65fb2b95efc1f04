package cli

import (
	"os"

	"github.com/sealstone/sealstone/gpu/canary"
	"github.com/spf13/cobra"
)

func newGPUCanary(env *environment) *cobra.Command {
	return &cobra.Command{
		Use:    canary.ChildCommand,
		Hidden: true,
		Short:  "The process that tries to read a file straight into a GPU",
		Args:   noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			out := os.NewFile(canary.AnswerFD, "answer")
			// Closed here and not by the end of the process, which a thread
			// that hangs in a driver can keep from ending.
			defer out.Close()
			return canary.Child(cmd.Context(), env.stdin, out)
		},
	}
}
