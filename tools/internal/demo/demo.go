package demo

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"time"
)

// Config says where the demonstration takes place.
type Config struct {
	// Dir holds the stores, each in a directory of its own; it must be empty
	// or absent.
	Dir string
	// Child is the command line of the process that is killed; see package
	// replay.
	Child []string
	// Progress is told before each step what it is.
	Progress func(done, total int, what string)
}

// Promise is one promise and what became of it.
type Promise struct {
	Name    string `json:"promise"`
	How     string `json:"how"`     // how it was put to the test
	Outcome string `json:"outcome"` // what happened
	Held    bool   `json:"held"`
}

// Report is the table of promises.
type Report struct {
	Promises []Promise `json:"promises"`
	Held     int       `json:"held"`
	Broken   int       `json:"broken"`
	Seconds  float64   `json:"seconds"`
}

// step puts some promises to the test.
type step struct {
	name string
	run  func(ctx context.Context, c Config, dir string) ([]Promise, error)
}

func steps() []step {
	all := []step{{"workload and kill", workload}}
	for _, s := range scenarios {
		all = append(all, step{s.name, s.run})
	}
	return all
}

// Run demonstrates all promises. The error is about what kept it from doing
// so; broken promises are in the report.
func Run(ctx context.Context, c Config) (*Report, error) {
	if c.Progress == nil {
		c.Progress = func(int, int, string) {}
	}
	if err := emptyDir(c.Dir); err != nil {
		return nil, err
	}
	begin := time.Now()
	report := &Report{}
	all := steps()
	for i, s := range all {
		c.Progress(i, len(all), s.name)
		promises, err := s.run(ctx, c, filepath.Join(c.Dir, fmt.Sprintf("%02d", i)))
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return nil, fmt.Errorf("demo: %s: %w", s.name, err)
		}
		report.Promises = append(report.Promises, promises...)
	}
	c.Progress(len(all), len(all), "done")
	for _, p := range report.Promises {
		if p.Held {
			report.Held++
		} else {
			report.Broken++
		}
	}
	report.Seconds = math.Round(time.Since(begin).Seconds()*10) / 10
	return report, nil
}

// ErrDir: the directory cannot be used. Nothing in it was touched.
var ErrDir = errors.New("demo: directory cannot be used")

// emptyDir makes dir if it is not there, and refuses one with content: the
// demonstration damages what it finds.
func emptyDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("%w: %w", ErrDir, err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDir, err)
	}
	if len(entries) > 0 {
		return fmt.Errorf("%w: %s is not empty; name a new one, the stores in it are damaged on purpose", ErrDir, dir)
	}
	return nil
}
