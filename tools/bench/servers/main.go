package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
)

// config is what the command line says.
type config struct {
	sealstone, dir, json string
	bytes, memoryBytes   int64
	rounds               int
	connections          []int
	sizes                []int
	only                 string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "servers:", err)
		}
		os.Exit(1)
	}
}

func parse(args []string, stderr io.Writer) (*config, error) {
	c := &config{connections: []int{1, 8}, sizes: []int{1 << 20, 4 << 10}}
	flags := flag.NewFlagSet("servers", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&c.sealstone, "sealstone", "", "the `program` sealstone")
	flags.StringVar(&c.dir, "dir", "", "keep files in this `directory`, which must exist")
	flags.StringVar(&c.json, "json", "", "write all samples to this `file` as well")
	flags.StringVar(&c.only, "servers", "", "only these, separated by semicolons")
	flags.IntVar(&c.rounds, "rounds", 5, "rounds of each server")
	mib := flags.Int64("mib", 384, "values of so many `MiB` together; of values of 4 KiB a quarter")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if c.sealstone == "" || c.dir == "" || c.rounds < 1 || *mib < 16 || flags.NArg() > 0 {
		return nil, errors.New("--sealstone and --dir are needed, rounds are one or more, MiB 16 or more, and there are no arguments")
	}
	c.bytes = *mib << 20
	c.memoryBytes = 2*c.bytes + 256<<20
	return c, nil
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	c, err := parse(args, stderr)
	if err != nil {
		return err
	}
	var all []sample
	for _, size := range c.sizes {
		sized := *c
		if size < 1<<20 {
			sized.bytes /= 4
		}
		for number := range c.rounds {
			for i := range contenders {
				// The order turns, so that none is always behind the same one.
				s := &contenders[(i+number)%len(contenders)]
				if !c.takes(s) {
					continue
				}
				fmt.Fprintf(stderr, "%d bytes, round %d of %d: %s\n", size, number+1, c.rounds, s.name)
				samples, err := sized.round(ctx, s, size, number)
				if err != nil {
					return err
				}
				all = append(all, samples...)
			}
		}
	}
	print(stdout, all)
	if c.json == "" {
		return nil
	}
	b, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(c.json, append(b, '\n'), 0o644)
}

// takes reports whether a server is asked for and there.
func (c *config) takes(s *contender) bool {
	if c.only != "" && !slices.Contains(strings.Split(c.only, ";"), s.name) {
		return false
	}
	if s.program == sealstone {
		return true
	}
	_, err := exec.LookPath(s.program)
	return err == nil
}
