package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/big"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
)

// childArgument alone makes the program the child of another one.
const childArgument = "child"

func main() {
	if len(os.Args) == 2 && os.Args[1] == childArgument {
		os.Exit(child())
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "bench:", err)
		}
		os.Exit(1)
	}
}

func child() int {
	if err := runChild(os.Stdin, os.Stdout, killSelf); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// killSelf leaves no time for anything to be put in order.
func killSelf() error { return syscall.Kill(os.Getpid(), syscall.SIGKILL) }

// run is the command with its arguments.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	c, jsonPath, err := parse(args, stderr)
	if err != nil {
		return err
	}
	results, err := compare(ctx, c)
	if err != nil {
		return err
	}
	r := newReport(c, results)
	r.print(stdout)
	if jsonPath == "" {
		return nil
	}
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(jsonPath, append(b, '\n'), 0o644)
}

func parse(args []string, stderr io.Writer) (config, string, error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	dir := flags.String("dir", "", "measure on the file system of this `directory`, which must exist")
	size := bytesFlag(1 << 30)
	block := bytesFlag(1 << 20)
	flags.Var(&size, "bytes", "`size` of all blocks together")
	flags.Var(&block, "block-size", "`size` of a block")
	batch := flags.Int("batch", 64, "blocks of a call")
	rounds := flags.Int("rounds", 5, "rounds of each store")
	names := flags.String("stores", "", "only these, separated by commas")
	jsonPath := flags.String("json", "", "write the report to this `file` as well")
	if err := flags.Parse(args); err != nil {
		return config{}, "", err
	}
	if *dir == "" || *rounds < 1 || flags.NArg() > 0 {
		return config{}, "", fmt.Errorf("%w: --dir is needed, rounds are one or more, and there are no arguments", errUsage)
	}
	w, err := newWork(int64(block), int64(size), *batch)
	if err != nil {
		return config{}, "", err
	}
	c := config{dir: *dir, work: w, rounds: *rounds, stores: contenders, child: self}
	c.progress = func(format string, args ...any) { fmt.Fprintf(stderr, format+"\n", args...) }
	if *names != "" {
		c.stores = nil
		for name := range strings.SplitSeq(*names, ",") {
			s, err := contenderOf(name)
			if err != nil {
				return config{}, "", err
			}
			c.stores = append(c.stores, s)
		}
	}
	return c, *jsonPath, nil
}

// self is this program as a child.
func self(ctx context.Context) *exec.Cmd {
	return exec.CommandContext(ctx, "/proc/self/exe", childArgument)
}

// bytesFlag is a size such as 256KiB, 2GiB or 4096.
type bytesFlag int64

// String implements flag.Value.
func (b *bytesFlag) String() string { return fmt.Sprint(int64(*b)) }

// Set implements flag.Value.
func (b *bytesFlag) Set(s string) error {
	unit := int64(1)
	for suffix, n := range map[string]int64{"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30} {
		if number, ok := strings.CutSuffix(s, suffix); ok {
			s, unit = number, n
			break
		}
	}
	r, ok := new(big.Rat).SetString(s)
	if !ok || strings.ContainsAny(s, "/eE") {
		return fmt.Errorf("%q is no size; write 4096, 256KiB, 1.5GiB", s)
	}
	r.Mul(r, new(big.Rat).SetInt64(unit))
	if !r.IsInt() || r.Sign() <= 0 || !r.Num().IsInt64() {
		return fmt.Errorf("%q is no whole number of bytes above 0", s)
	}
	*b = bytesFlag(r.Num().Int64())
	return nil
}
