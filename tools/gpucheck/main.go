// Command gpucheck looks once at a machine with an NVIDIA driver: libraries,
// devices, the verify kernel and its speed, copies, the direct path from a
// directory, and the founding scenarios through a store. It takes less than
// eight minutes, and prints a table and JSON.
//
//	go build -o gpucheck ./tools/gpucheck && ./gpucheck --dir /mnt/nvme --json report.json
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/sealstone/sealstone/tools/gpucheck/internal/check"
)

// Exit statuses: those of command sealstone.
const (
	exitOK          = 0
	exitBroken      = 1 // an error, wrong bytes, or a broken promise
	exitUsage       = 4
	exitInterrupted = 130
)

const usage = `gpucheck looks once at a machine with an NVIDIA driver, in less than eight minutes:
libraries and layouts, devices, the verify kernel and its speed, copies from and
to pinned and pageable memory, the direct path from a directory (in a child
process), and the founding scenarios through a store. What cannot be tried is
"not available", with the reason; that is no failure.

  go run ./tools/gpucheck
  go run ./tools/gpucheck --dir /mnt/nvme --json report.json

FLAGS
%s
EXIT STATUS
  0    nothing found wrong, also where there is no GPU
  1    error, wrong bytes or a broken promise
  4    wrong usage; nothing was done
  130  interrupted; what is done is reported
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the second signal ends the process
	self, err := os.Executable()
	if err != nil {
		fmt.Fprintln(os.Stderr, "gpucheck: find the own program for children:", err)
		os.Exit(exitBroken)
	}
	os.Exit(run(ctx, []string{self}, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run is the program. self is the command that gets back to it.
func run(ctx context.Context, self, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if isChild, err := check.Child(ctx, args, stdin, stdout); isChild {
		return finish(err, stderr)
	}
	c := check.Config{Self: self, Revision: revision()}
	var out, sizes = "", []int{}
	f := pflag.NewFlagSet("gpucheck", pflag.ContinueOnError)
	f.SortFlags = false
	f.SetOutput(io.Discard)
	f.Usage = func() {}
	f.StringVar(&c.Dir, "dir", "", "look at the file system of `DIR` (default: a temporary directory)")
	f.StringVar(&out, "json", "", "report as JSON to `FILE` (-: standard output, instead of the table)")
	f.DurationVar(&c.Timeout, "timeout", check.DefaultTimeout, "end after `D`, whatever was not reached")
	f.IntSliceVar(&sizes, "sizes", []int{1, 16, 64, 256}, "measure with these sizes in `MiB`")
	f.DurationVar(&c.MeasureFor, "measure", 300*time.Millisecond, "measure each figure for `D`")
	f.IntVar(&c.Blocks, "blocks", 64, "play the scenarios with documents of `N` blocks of 1 MiB")
	f.BoolVar(&c.DirectInVM, "direct-in-vm", false, "try the direct path in a virtual machine too, where it may damage memory of others")
	f.StringVar(&c.Libraries.CUDAPath, "cuda-lib", "", "load `FILE` instead of libcuda.so.1 (for tests)")
	f.StringVar(&c.Libraries.CuFilePath, "cufile-lib", "", "load `FILE` instead of libcufile.so.0 (for tests)")
	switch err := f.Parse(args); {
	case errors.Is(err, pflag.ErrHelp):
		fmt.Fprintf(stdout, usage, f.FlagUsages())
		return exitOK
	case err == nil && f.NArg() > 0:
		err = fmt.Errorf("unknown argument %q", f.Arg(0))
		fallthrough
	case err != nil:
		fmt.Fprintf(stderr, "gpucheck: %v; see --help\n", err)
		return exitUsage
	}
	for _, n := range sizes {
		if n < 1 || n > 4096 {
			fmt.Fprintf(stderr, "gpucheck: --sizes must be 1 to 4096 MiB, got %d\n", n)
			return exitUsage
		}
		c.SizesBytes = append(c.SizesBytes, int64(n)<<20)
	}
	if c.Blocks < 2 || c.Blocks > 1024 {
		fmt.Fprintf(stderr, "gpucheck: --blocks must be 2 to 1024, got %d\n", c.Blocks)
		return exitUsage
	}
	if c.Timeout <= 0 || c.MeasureFor <= 0 {
		fmt.Fprintln(stderr, "gpucheck: --timeout and --measure must be more than 0")
		return exitUsage
	}
	c.Progress = func(step string) { fmt.Fprintln(stderr, "gpucheck:", step) }
	report, err := check.Run(ctx, c)
	if err := write(report, out, stdout); err != nil {
		return finish(err, stderr)
	}
	if err == nil && report.Broken > 0 {
		return exitBroken
	}
	return finish(err, stderr)
}

// write prints the report where it is wanted.
func write(r *check.Report, out string, stdout io.Writer) error {
	if out != "-" {
		r.Print(stdout)
	}
	if out == "" {
		return nil
	}
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	b = append(b, '\n')
	if out == "-" {
		_, err = stdout.Write(b)
	} else {
		err = os.WriteFile(out, b, 0o644)
	}
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

func finish(err error, stderr io.Writer) int {
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, context.Canceled):
		fmt.Fprintln(stderr, "gpucheck: interrupted")
		return exitInterrupted
	}
	fmt.Fprintln(stderr, "gpucheck:", err)
	return exitBroken
}

// revision is the commit that the program was built from, as far as it knows.
func revision() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	s := map[string]string{}
	for _, kv := range info.Settings {
		s[kv.Key] = kv.Value
	}
	if s["vcs.modified"] == "true" {
		return s["vcs.revision"] + " with changes"
	}
	return s["vcs.revision"]
}
