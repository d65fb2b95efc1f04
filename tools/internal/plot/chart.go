package plot

import (
	"errors"
	"fmt"
	"math"
)

// ErrNothing: a chart without a point that could be drawn.
var ErrNothing = errors.New("plot: nothing to draw")

// Chart is one pair of axes.
type Chart struct {
	Title, X, Y string // of the chart and its axes, with their units
	// LogY makes equal ratios equal distances; points at 0 and below are left out.
	LogY   bool
	Series []Series
}

// Series is one line; points are drawn in the order given.
type Series struct {
	Name   string
	Points []Point
}

// Point is one sample.
type Point struct{ X, Y float64 }

// extent is the range of an axis, with the places of its ticks.
type extent struct {
	from, to float64
	log      bool
	ticks    []float64
}

// at is where a value lies between the ends, from 0 to 1.
func (e extent) at(v float64) float64 {
	if e.log {
		return (math.Log(v) - math.Log(e.from)) / (math.Log(e.to) - math.Log(e.from))
	}
	return (v - e.from) / (e.to - e.from)
}

// farthest keeps the arithmetic of places from overflowing.
const farthest = 1e100

// drawable are the points of a series that have a place.
func (c Chart) drawable(s Series) []Point {
	var out []Point
	for _, p := range s.Points {
		// Comparisons with NaN are false.
		near := math.Abs(p.X) < farthest && math.Abs(p.Y) < farthest
		if near && (!c.LogY || p.Y > 1/farthest) {
			out = append(out, p)
		}
	}
	return out
}

// extents are those of both axes. A linear Y begins at 0: rates are compared
// by their height.
func (c Chart) extents() (x, y extent, err error) {
	x.from, y.from = math.Inf(1), math.Inf(1)
	x.to, y.to = math.Inf(-1), math.Inf(-1)
	for _, s := range c.Series {
		for _, p := range c.drawable(s) {
			x.from, x.to = min(x.from, p.X), max(x.to, p.X)
			y.from, y.to = min(y.from, p.Y), max(y.to, p.Y)
		}
	}
	if x.from > x.to {
		return x, y, fmt.Errorf("%w: chart %q", ErrNothing, c.Title)
	}
	if x.from == x.to {
		x.from, x.to = x.from-1, x.to+1
	}
	x.ticks = ticks(x.from, x.to)
	if c.LogY {
		return x, logExtent(y.from, y.to), nil
	}
	y.from, y.to = min(y.from, 0), max(y.to, 0)
	if y.from == y.to {
		y.to = 1
	}
	step := tickStep(y.to - y.from)
	y.from, y.to = math.Floor(y.from/step)*step, math.Ceil(y.to/step)*step
	y.ticks = ticks(y.from, y.to)
	return x, y, nil
}

// logExtent goes from a power of ten to another one.
func logExtent(from, to float64) extent {
	lo, hi := math.Floor(math.Log10(from)), math.Ceil(math.Log10(to))
	if lo == hi {
		hi++
	}
	e := extent{from: math.Pow(10, lo), to: math.Pow(10, hi), log: true}
	step := max(1, math.Ceil((hi-lo)/maxTicks))
	for d := lo; d <= hi; d += step {
		e.ticks = append(e.ticks, math.Pow(10, d))
	}
	return e
}

// maxTicks keeps labels from running into each other.
const maxTicks = 10

// tickStep is a step of 1, 2 or 5 times a power of ten with at most maxTicks.
func tickStep(width float64) float64 {
	raw := width / maxTicks
	power := math.Pow(10, math.Floor(math.Log10(raw)))
	for _, m := range []float64{1, 2, 5} {
		if m*power >= raw {
			return m * power
		}
	}
	return 10 * power
}

func ticks(from, to float64) []float64 {
	step := tickStep(to - from)
	var out []float64
	// Adding 0 turns the negative zero of a rounded-up fraction into 0.
	for i := math.Ceil(from/step-1e-9) + 0; i*step <= to+step*1e-9 && len(out) <= 2*maxTicks; i++ {
		out = append(out, i*step)
	}
	return out
}
