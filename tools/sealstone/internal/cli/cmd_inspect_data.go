package cli

import (
	"context"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/sealstone/sealstone/engine"
	"github.com/spf13/cobra"
)

func newInspectSegments(env *environment) *cobra.Command {
	var out outputFlags
	cmd := &cobra.Command{
		Use:   "segments DIR",
		Short: "The segment files, oldest first",
		Long: `segments lists the segment files of the store in DIR, oldest first, with what is
live in each. It reads footers and headers, no blocks; see verify for those.

EXAMPLES
  sealstone inspect segments /var/lib/sealstone
  sealstone inspect segments /var/lib/sealstone --json segments.json

` + exitHelp,
		Args: oneArgument("the store's directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return look(cmd.Context(), env, &out, args[0], func(ctx context.Context, i *engine.Inspector) (shown, error) {
				v, err := i.Segments(ctx)
				s := shown{report: v, table: func(w io.Writer) { printSegments(w, v) }}
				for _, g := range v {
					s.damaged = s.damaged || g.Problem != ""
				}
				return s, err
			})
		},
	}
	out.register(cmd)
	return cmd
}

func printSegments(w io.Writer, list []engine.SegmentView) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "segment\tclass\tsealed\tsize\textents\taliases\tlive\tdead\ttombs\t")
	for _, g := range list {
		fmt.Fprintf(t, "0x%x\t%s\t%s\t%s\t%d\t%d\t%s\t%s\t%d\t\n", g.ID, g.Class, yesNo(g.Sealed),
			formatBytes(g.SizeBytes), g.Extents, g.Aliases, formatBytes(g.LiveBytes), formatBytes(g.DeadBytes), g.Tombstones)
	}
	t.Flush()
	for _, g := range list {
		if g.Problem != "" {
			printList(w, fmt.Sprintf("segment 0x%x: ", g.ID), []string{g.Problem})
		}
	}
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func newInspectExtent(env *environment) *cobra.Command {
	var out outputFlags
	cmd := &cobra.Command{
		Use:   "extent DIR SEGMENT PAGE",
		Short: "One extent: its header, and whether its bytes verify",
		Long: `extent decodes the extent header at a page of a segment and verifies the bytes
behind it. SEGMENT is the file's name, or the number that it stands for; PAGE is
a number of pages of 4096 bytes, as verify reports it.

EXAMPLES
  sealstone inspect extent DIR 000000000000000c.seg 1
  sealstone inspect extent DIR 12 1 --json

` + exitHelp,
		Args: arguments("DIR", "SEGMENT", "PAGE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			segment, err := parseSegment(args[1])
			if err != nil {
				return usageError(cmd, err)
			}
			page, err := strconv.ParseUint(args[2], 0, 32)
			if err != nil {
				return usageError(cmd, fmt.Errorf("%q is not a page number", args[2]))
			}
			return look(cmd.Context(), env, &out, args[0], func(ctx context.Context, i *engine.Inspector) (shown, error) {
				v, err := i.Extent(ctx, segment, uint32(page))
				if err != nil {
					return shown{}, err
				}
				return shown{report: v, table: func(w io.Writer) { printExtent(w, v) }, damaged: !v.Verified}, nil
			})
		},
	}
	out.register(cmd)
	return cmd
}

// parseSegment reads a segment's number, or the name of its file, which is
// the number in hexadecimal.
func parseSegment(s string) (uint64, error) {
	base, hexadecimal := s, 0
	if name, ok := strings.CutSuffix(path.Base(s), ".seg"); ok {
		base, hexadecimal = name, 16
	}
	n, err := strconv.ParseUint(base, hexadecimal, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is neither a segment's file nor its number", s)
	}
	return n, nil
}

func printExtent(w io.Writer, v *engine.ExtentView) {
	t := newRows(w)
	t.row("extent", "%s offset %d (page %d)", v.File, v.Offset, v.Page)
	t.row("pages", "%d header, %d payload", v.HeaderPages, v.PayloadPages)
	t.row("header sum", "%s", v.HeaderSum)
	t.row("kind", "%s, codec %d", v.Kind, v.Codec)
	t.row("block", "%s", shortHash(v.Hash))
	t.row("namespace", "%d", v.Namespace)
	if v.Parent != "" {
		t.row("parent", "%s", shortHash(v.Parent))
	}
	t.row("sequence", "%d, depth %d", v.Sequence, v.Depth)
	t.row("content id", "%s", v.ContentID)
	if v.Target != "" {
		t.row("target", "%s", v.Target)
	}
	t.row("bytes", "%d in %d chunks", v.RawBytes, len(v.ChunkSums))
	for _, p := range v.Planes {
		t.row("  "+p.Name, "%d bytes at %d", p.RawBytes, p.OffsetBytes)
	}
	verdict := "ok"
	if !v.Verified {
		verdict = "DAMAGED"
	}
	t.row("verified", "%s", verdict)
	t.flush()
	if v.Problem != "" {
		printList(w, "", []string{v.Problem})
	}
}
