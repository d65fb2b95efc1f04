package cli

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

// versions is what the version command reports.
type versions struct {
	Version  string `json:"version"`
	Revision string `json:"revision"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	Pebble   string `json:"pebble"`
	// Formats are the versions of the on-disk formats that this build writes.
	Formats map[string]uint16 `json:"formats"`
}

func newVersion(env *environment) *cobra.Command {
	var out outputFlags
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the versions of the program and of its formats",
		Long: `version prints the version of this program, of Go, of the index engine, and of
each on-disk format that it writes.

EXAMPLES
  sealstone version
  sealstone version --json

` + exitHelp,
		Args: noArguments,
		RunE: func(*cobra.Command, []string) error {
			if err := out.create(); err != nil {
				return err
			}
			v := currentVersions(env.version, debug.ReadBuildInfo)
			return out.write(env, v, v.print)
		},
	}
	out.register(cmd)
	return cmd
}

func currentVersions(release string, build func() (*debug.BuildInfo, bool)) versions {
	v := versions{
		Version: release, Revision: "unknown", Go: runtime.Version(), Pebble: "unknown",
		Platform: runtime.GOOS + "/" + runtime.GOARCH, Formats: formatVersions,
	}
	info, ok := build()
	if !ok {
		info = &debug.BuildInfo{}
	}
	if v.Version == "" {
		v.Version = info.Main.Version
	}
	if v.Version == "" {
		v.Version = "(devel)"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			v.Revision = s.Value
		}
	}
	for _, d := range info.Deps {
		if d.Path == "github.com/cockroachdb/pebble/v2" {
			v.Pebble = d.Version
		}
	}
	return v
}

func (v versions) print(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	defer t.Flush()
	for _, row := range [][2]string{
		{"sealstone", v.Version}, {"revision", v.Revision}, {"go", v.Go}, {"platform", v.Platform}, {"pebble", v.Pebble},
	} {
		fmt.Fprintf(t, "%s\t%s\n", row[0], row[1])
	}
	for _, name := range sortedKeys(v.Formats) {
		fmt.Fprintf(t, "format %s\t%d\n", name, v.Formats[name])
	}
}
