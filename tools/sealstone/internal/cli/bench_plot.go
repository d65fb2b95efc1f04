package cli

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"github.com/sealstone/sealstone/tools/internal/bench"
	"github.com/sealstone/sealstone/tools/internal/plot"
)

// plotFile is where a picture goes; "" is nowhere.
type plotFile string

// newPlotFile makes the file before the work begins, as with reports.
func newPlotFile(path string) (plotFile, error) {
	if path == "" {
		return "", nil
	}
	if ext := filepath.Ext(path); ext != ".svg" {
		return "", fmt.Errorf("plot: %s: only .svg can be drawn; browsers show it and turn it into others", path)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return "", fmt.Errorf("plot: %w", err)
	}
	return plotFile(path), f.Close()
}

func (p plotFile) write(r *bench.Report) error {
	if p == "" {
		return nil
	}
	var b bytes.Buffer
	if err := plot.WriteSVG(&b, benchCharts(r)...); err != nil {
		return err
	}
	if err := os.WriteFile(string(p), b.Bytes(), 0o644); err != nil {
		return fmt.Errorf("plot: %w", err)
	}
	return nil
}

// benchCharts are, for each workload, the rates of the rounds and the
// latencies.
func benchCharts(r *bench.Report) []plot.Chart {
	var charts []plot.Chart
	for _, x := range r.Results {
		if x.MiBPerSecondMax > 0 {
			charts = append(charts, rateChart(x))
		}
		charts = append(charts, plot.Chart{
			Title: x.Workload + ": latency of a call", X: "per cent of the calls", Y: "us or less", LogY: true,
			Series: []plot.Series{{Name: fmt.Sprintf("calls of %d", r.BatchBlocks), Points: curvePoints(x.Curve)}},
		})
		if l := x.Latency; l != nil {
			c := plot.Chart{
				Title: x.Workload + ": one block at a time", X: "per cent", Y: "us or less", LogY: true,
				Series: []plot.Series{{Name: "sealstone", Points: curvePoints(l.Curve)}},
			}
			if l.Fio != nil {
				c.Series = append(c.Series, plot.Series{Name: "fio " + l.FioEngine, Points: curvePoints(l.FioCurve)})
			}
			charts = append(charts, c)
		}
	}
	return charts
}

func rateChart(x bench.Result) plot.Chart {
	store, fio := plot.Series{Name: "sealstone, " + x.Path}, plot.Series{}
	for i, r := range x.RoundRates {
		store.Points = append(store.Points, plot.Point{X: float64(i + 1), Y: r.MiBPerSecond})
		fio.Points = append(fio.Points, plot.Point{X: float64(i + 1), Y: r.FioMiBPerSecond})
	}
	c := plot.Chart{Title: x.Workload + ": rate of each round", X: "round", Y: "MiB/s", Series: []plot.Series{store}}
	if x.Beside != nil {
		fio.Name = "fio " + x.FioEngine
		c.Series = append(c.Series, fio)
	}
	return c
}

func curvePoints(c bench.Curve) []plot.Point {
	out := make([]plot.Point, len(c))
	for i, p := range c {
		out[i] = plot.Point{X: p.Percent, Y: p.US}
	}
	return out
}
