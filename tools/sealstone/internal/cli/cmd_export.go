package cli

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/sealstone/sealstone/engine"
	"github.com/spf13/cobra"
)

type exportFlags struct {
	out        outputFlags
	rate       byteRate
	namespaces []uint
	tenant     string
	hashes     []string
	since      uint64
	overwrite  bool
}

func newExport(env *environment) *cobra.Command {
	var f exportFlags
	cmd := &cobra.Command{
		Use:   "export DIR FILE",
		Short: "Write blocks of a closed store to one portable file",
		Long: `export writes blocks of the closed store in DIR to FILE (- = standard output),
with their layouts, tenants, parents and seals. All flags that are given must
hold; without any, every block is meant. Nothing in DIR is changed, and nothing
in FILE depends on the store: import puts it into any other.

Every block is verified before it is written. Damaged ones are left out and
reported. FILE appears under its name only when it is whole and durable.

The report says where the next export goes on: --since with that number means
what was put after this one.

EXAMPLES
  sealstone export /var/lib/sealstone blocks.slexport
  sealstone export /mnt/nvme/store - --tenant acme | zstd > acme.zst
  sealstone export /mnt/nvme/store new.slexport --since 1048577 --rate 200MiB/s

` + exitHelp,
		Args: arguments("the store's directory", "the file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var tenant *string
			if cmd.Flags().Changed("tenant") {
				tenant = &f.tenant
			}
			return runExport(cmd.Context(), env, f, tenant, args[0], args[1])
		},
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().UintSliceVar(&f.namespaces, "namespace", nil, "blocks of namespace `N`; may be repeated")
	cmd.Flags().StringVar(&f.tenant, "tenant", "", "blocks of tenant `T`")
	cmd.Flags().StringSliceVar(&f.hashes, "hash", nil, "the block with this `HASH`, hexadecimal; may be repeated")
	cmd.Flags().Uint64Var(&f.since, "since", 0, "blocks with put sequence `SEQ` and later")
	cmd.Flags().BoolVar(&f.overwrite, "overwrite", false, "replace FILE if it exists")
	f.rate.register(cmd)
	f.out.register(cmd)
	return cmd
}

func runExport(ctx context.Context, env *environment, f exportFlags, tenant *string, dir, file string) error {
	o := engine.ExportOptions{Selection: engine.Selection{Tenant: tenant, FirstSequence: f.since}, BytesPerSecond: int64(f.rate)}
	var err error
	if o.Namespaces, err = namespaceNumbers(f.namespaces); err != nil {
		return err
	}
	for _, h := range f.hashes {
		hash, err := hex.DecodeString(h)
		if err != nil {
			return fmt.Errorf("%w: --hash %q is not hexadecimal", errUsage, h)
		}
		o.Hashes = append(o.Hashes, hash)
	}
	if file == "-" && f.out.toStdout() {
		return fmt.Errorf("%w: the export and --json can not both go to standard output", errUsage)
	}
	if err := f.out.create(); err != nil {
		return err
	}
	bar := newProgress(env, f.out.quiet, "export")
	o.Progress = bar.set
	var r *engine.ExportReport
	write := func(w io.Writer) error {
		r, err = engine.ExportDir(ctx, dir, w, o)
		return err
	}
	if file == "-" {
		err = write(env.stdout)
		f.out.quiet = true // standard output is the export's
	} else {
		err = writeWhole(file, f.overwrite, write)
	}
	bar.end()
	if err != nil {
		return err
	}
	if err := f.out.write(env, r, func(w io.Writer) { printExport(w, r) }); err != nil {
		return err
	}
	if r.Damaged > 0 {
		fmt.Fprintf(env.stderr, "sealstone: %s left out of the export: damaged\n", plural(r.Damaged, "block"))
		return exitStatus(exitDamaged)
	}
	return nil
}

// writeWhole lets a file appear under its name only once it is whole and
// durable. A name that is taken is refused before the work begins.
func writeWhole(path string, overwrite bool, write func(io.Writer) error) (err error) {
	if _, err := os.Lstat(path); err == nil && !overwrite {
		return fmt.Errorf("%s exists; give another name, or --overwrite", path)
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.tmp")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name()) // whatever it says: it is no export
		}
	}()
	if err := errors.Join(write(f), f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func printExport(w io.Writer, r *engine.ExportReport) {
	t := newRows(w)
	t.row("exported", "%s of %s, %s", plural(r.Blocks, "block"), plural(int64(r.Namespaces), "namespace"), formatBytes(r.RawBytes))
	t.row("file", "%s", formatBytes(r.FileBytes))
	if r.NextSequence > 0 {
		t.row("next", "--since %d", r.NextSequence)
	}
	t.flush()
	for _, b := range r.Bad {
		fmt.Fprintf(w, "\nDAMAGED, left out\n  block %s of namespace %d\n", shortHash(b.Hash), b.Namespace)
		for _, line := range wrap(b.Reason, 77) {
			fmt.Fprintln(w, "  "+line)
		}
	}
}

// openInput opens a file to be read, - being standard input.
func openInput(env *environment, path string) (r io.Reader, sizeBytes int64, done func() error, err error) {
	if path == "-" {
		return bufio.NewReaderSize(env.stdin, 1<<20), 0, func() error { return nil }, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, nil, err
	}
	i, err := f.Stat()
	if err != nil {
		return nil, 0, nil, errors.Join(err, f.Close())
	}
	return bufio.NewReaderSize(f, 1<<20), i.Size(), f.Close, nil
}
