package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/sealstone/sealstone/engine"
	"github.com/spf13/cobra"
)

// blockFlags say which block is meant.
type blockFlags struct {
	out       outputFlags
	dir       string
	namespace uint32
	plain     bool
}

func newInspectBlock(env *environment) *cobra.Command {
	var f blockFlags
	cmd := &cobra.Command{
		Use:   "block [DIR] KEY",
		Short: "One block: where it lies, whether it verifies, what belongs to it",
		Long: `block finds a block and shows its index entry, its extent and the verdict on the
chunks, what bad bytes look like, who shares its bytes, and the blocks before it
in its chain. KEY is its hash in hexadecimal; anything else, or with --plain, is
a plain key, whose SHA-256 is the hash. DIR is the closed store, by default the
current directory or that of --dir.

All namespaces are searched; if more than one has the block, --namespace says
which is meant.

EXAMPLES
  sealstone inspect block DIR 9f86d081884c7d659a2feaa0c55ad015
  sealstone inspect block DIR 9f86d081884c7d659a2feaa0c55ad015 --namespace 2
  sealstone inspect block session-17/prompt --dir /var/lib/sealstone --json

` + exitHelp,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 || len(args) == 2 {
				return nil
			}
			return usageError(cmd, fmt.Errorf("want the store's directory and the block's hash or key; got %d arguments", len(args)))
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, key := f.dir, args[len(args)-1]
			if len(args) == 2 {
				dir = args[0]
			}
			hash := hashOfKey(key, f.plain)
			return look(cmd.Context(), env, &f.out, dir, func(ctx context.Context, i *engine.Inspector) (shown, error) {
				return inspectBlock(ctx, i, f.namespace, hash)
			})
		},
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().Uint32Var(&f.namespace, "namespace", 0, "look in the namespace of number `N` (0 = in all)")
	cmd.Flags().BoolVar(&f.plain, "plain", false, "KEY is a plain key even if it looks like a hash")
	cmd.Flags().StringVar(&f.dir, "dir", ".", "the store's `DIR`, if it is not an argument")
	f.out.register(cmd)
	return cmd
}

// hashOfKey is the block hash that a key on the command line means.
func hashOfKey(key string, plain bool) []byte {
	hash, err := hex.DecodeString(key)
	if !plain && err == nil && len(hash) >= engine.MinHashBytes && len(hash) <= engine.MaxHashBytes {
		return hash
	}
	sum := sha256.Sum256([]byte(key))
	return sum[:]
}

func inspectBlock(ctx context.Context, i *engine.Inspector, namespace uint32, hash []byte) (shown, error) {
	if namespace == 0 {
		var err error
		if namespace, err = namespaceOf(i, hash); err != nil {
			return shown{}, err
		}
	}
	b, err := i.Block(ctx, namespace, hash)
	if err != nil {
		return shown{}, err
	}
	return shown{report: b, table: func(w io.Writer) { printBlock(w, b) }, damaged: b.Problem != ""}, nil
}

// namespaceOf finds the one namespace that has a block.
func namespaceOf(i *engine.Inspector, hash []byte) (uint32, error) {
	var found []uint32
	for _, n := range i.Namespaces() {
		_, err := i.Locate(n.Number, hash)
		switch {
		case errors.Is(err, engine.ErrMiss):
		case err != nil:
			return 0, err
		default:
			found = append(found, n.Number)
		}
	}
	switch len(found) {
	case 0:
		return 0, fmt.Errorf("block %x: %w", hash, engine.ErrMiss)
	case 1:
		return found[0], nil
	}
	return 0, usage{fmt.Errorf("block %x is in the namespaces %v; say which with --namespace", hash, found)}
}

func printBlock(w io.Writer, b *engine.BlockView) {
	t := newRows(w)
	t.row("block", "%s", shortHash(b.Hash))
	t.row("namespace", "%d", b.Namespace)
	t.row("bytes", "%d", b.RawBytes)
	t.row("header", "%s offset %d, %d bytes", b.File, b.HeaderOffset, b.HeaderBytes)
	t.row("payload", "offset %d, %d bytes", b.PayloadOffset, b.PayloadBytes)
	if b.Alias {
		t.row("alias", "%s offset %d", b.AliasFile, b.AliasOffset)
	}
	e := b.Extent
	if b.Alias {
		e = b.Own
	}
	if e != nil && e.PlainKey != "" {
		if key, err := hex.DecodeString(e.PlainKey); err == nil {
			t.row("key", "%.60q", key)
		}
	}
	t.row("sequence", "%d, depth %d", b.Sequence, b.Depth)
	t.row("content id", "%s", b.ContentID)
	for _, s := range first(b.Sharers) {
		t.row("shared with", "%s of namespace %d", shortHash(s.Hash), s.Namespace)
	}
	for _, p := range first(b.Parents) {
		stored := "stored"
		if !p.Stored {
			stored = "not stored"
		}
		t.row("parent", "%s %s", shortHash(p.Hash), stored)
	}
	verdict := "ok"
	if b.Problem != "" {
		verdict = "DAMAGED"
	}
	t.row("verified", "%s", verdict)
	t.flush()
	printChunks(w, b.Chunks)
	if b.Problem != "" {
		printList(w, "", []string{b.Problem})
	}
	for _, d := range b.Diagnoses {
		printList(w, "  -> ", []string{d.String()})
	}
}

// listShown is how many of a list the table of a block has.
const listShown = 8

func first[T any](list []T) []T { return list[:min(len(list), listShown)] }

// printChunks lists the bad chunks, and counts all.
func printChunks(w io.Writer, list []engine.ChunkView) {
	bad := 0
	for i, c := range list {
		if c.Problem == "" {
			continue
		}
		if bad++; bad <= listShown {
			printList(w, fmt.Sprintf("chunk %d: ", i), []string{strings.TrimSpace(fmt.Sprintf("plane %s, offset %d, %d bytes: %s", c.Plane, c.Offset, c.StoredBytes, c.Problem))})
		}
	}
	if len(list) > 0 {
		fmt.Fprintf(w, "%s, %d bad\n", plural(int64(len(list)), "chunk"), bad)
	}
}
