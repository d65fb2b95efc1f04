package cli

import (
	"fmt"

	"github.com/sealstone/sealstone/tools/internal/access"
	"github.com/spf13/cobra"
)

func newToken(env *environment) *cobra.Command {
	id := access.Identity{}
	var list string
	cmd := &cobra.Command{
		Use:   "token NAME",
		Short: "Make a secret for a peer of the server",
		Long: `token makes a secret and prints it on standard error, once: it is kept nowhere.
On standard output it prints the entry for the tokens file, which knows the
secret by its sum. The file must be readable for its owner alone; a server that
runs reads it again on SIGHUP.

A peer logs in with AUTH SECRET or AUTH NAME SECRET, over HTTP with the header
"Authorization: Bearer SECRET".

EXAMPLES
  sealstone token engine-1 --tenant team-a >> tokens.toml; chmod 600 tokens.toml
  sealstone token prometheus --tenant ops --rights read >> tokens.toml

` + exitHelp,
		Args: oneArgument("the name of the token"),
		RunE: func(_ *cobra.Command, args []string) error {
			id.Name = args[0]
			if err := id.ParseRights(list); err != nil {
				return usage{err}
			}
			secret, entry, err := access.New(id)
			if err != nil {
				return usage{err}
			}
			fmt.Fprintln(env.stderr, secret)
			_, err = fmt.Fprint(env.stdout, entry)
			return err
		},
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().StringVar(&id.Tenant, "tenant", access.DefaultTenant, "whose blocks the peer sees")
	cmd.Flags().StringVar(&list, "rights", "read,write", "of read, write, drop, admin")
	return cmd
}
