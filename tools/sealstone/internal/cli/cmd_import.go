package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/sealstone/sealstone/engine"
	"github.com/spf13/cobra"
)

type importFlags struct {
	out          outputFlags
	rate         byteRate
	tenant       string
	requireMatch bool
	capacity     size
	dryRun       bool
}

func newImport(env *environment) *cobra.Command {
	var f importFlags
	cmd := &cobra.Command{
		Use:   "import DIR FILE",
		Short: "Put the blocks of an exported file into a closed store",
		Long: `import puts the blocks of FILE (- = standard input), which export has written,
into the closed store in DIR. Each is verified against its sums first, and by
the store again. Blocks that are stored already stay as they are.

A file that is damaged or cut short ends the import with status 2. What it had
stored by then is whole and right; --dry-run verifies the whole file before.

The tenants are those in the file unless --tenant says otherwise. A layout that
differs a little from one the tenant has makes a namespace of its own, whose
blocks are not found under the other: the differences are shown, and
--require-match refuses it. Without --capacity, which should be what the store's
owner gives, the store may fill the file system.

EXAMPLES
  sealstone import /var/lib/sealstone blocks.slexport --dry-run
  sealstone import /var/lib/sealstone blocks.slexport --capacity 500GiB
  zstdcat acme.zst | sealstone import /mnt/nvme/store - --tenant other

` + exitHelp,
		Args: arguments("the store's directory", "the file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var tenant *string
			if cmd.Flags().Changed("tenant") {
				tenant = &f.tenant
			}
			return runImport(cmd.Context(), env, f, tenant, args[0], args[1])
		},
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().StringVar(&f.tenant, "tenant", "", "put all blocks under tenant `T`")
	cmd.Flags().BoolVar(&f.requireMatch, "require-match", false, "refuse a layout that only resembles a stored one")
	cmd.Flags().Var(&f.capacity, "capacity", "the store's capacity (default: what there is room for)")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "verify the file, and change nothing")
	f.rate.register(cmd)
	f.out.register(cmd)
	return cmd
}

func runImport(ctx context.Context, env *environment, f importFlags, tenant *string, dir, file string) error {
	if err := f.out.create(); err != nil {
		return err
	}
	in, sizeBytes, done, err := openInput(env, file)
	if err != nil {
		return err
	}
	defer func() { _ = done() }() // it was only read
	bar := newProgress(env, f.out.quiet, "import")
	o := engine.ImportOptions{
		Tenant: tenant, RequireMatch: f.requireMatch, BytesPerSecond: int64(f.rate),
		Progress: func(n int64) { bar.set(n, sizeBytes) },
	}
	var r *engine.ImportReport
	if f.dryRun {
		r, err = engine.CheckExport(ctx, in, o)
	} else {
		r, err = engine.ImportDir(ctx, dir, in, int64(f.capacity), o)
	}
	bar.end()
	if r == nil {
		return err
	}
	return errors.Join(f.out.write(env, r, func(w io.Writer) { printImport(w, f.dryRun, r) }), err)
}

func printImport(w io.Writer, dryRun bool, r *engine.ImportReport) {
	t := newRows(w)
	t.row("read", "%s, %s", plural(r.Blocks, "block"), formatBytes(r.RawBytes))
	if !dryRun {
		t.row("stored", "%d", r.Stored)
		t.row("existed", "%d, of which %d have other content", r.Existed, r.Differs)
	}
	for _, n := range r.Namespaces {
		name := "namespace"
		if !dryRun {
			name = fmt.Sprintf("namespace %d", n.Number)
		}
		t.row(name, "%s of tenant %s", plural(n.Blocks, "block"), shorten(fmt.Sprintf("%q", n.Tenant), 40))
	}
	t.flush()
	for _, n := range r.Namespaces {
		for _, d := range n.Differences {
			printList(w, "note: ", []string{fmt.Sprintf("namespace %d differs from a stored layout of its tenant in %s: stored %s, imported %s", n.Number, d.Field, d.A, d.B)})
		}
		printList(w, "warning: ", n.Warnings)
	}
	switch {
	case !r.Complete:
		fmt.Fprintln(w, "\nnot complete")
	case dryRun:
		fmt.Fprintln(w, "\nthe file is whole; dry run: nothing was changed")
	}
}
