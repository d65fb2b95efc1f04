package plot

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"math"
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func sample() []Chart {
	return []Chart{
		{Title: "throughput <of rounds>", X: "round", Y: "MiB/s", Series: []Series{
			{"sealstone", []Point{{1, 1000}, {2, 1100}, {3, 900}}},
			{"fio & co", []Point{{1, 1200}, {2, 1150}, {3, 1000}}},
		}},
		{Title: "latency", X: "per cent", Y: "us", LogY: true, Series: []Series{
			{"calls", []Point{{0, 0}, {50, 90}, {99, 2500}, {100, math.Inf(1)}}},
		}},
	}
}

func TestWriteSVGGolden(t *testing.T) {
	var b bytes.Buffer
	if err := WriteSVG(&b, sample()...); err != nil {
		t.Fatal(err)
	}
	const path = "testdata/sample.svg"
	if *update {
		if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b.Bytes(), want) {
		t.Errorf("%s differs; run with -update and look at the picture", path)
	}
}

// elements counts the elements of a well-formed picture.
func elements(t interface{ Fatal(...any) }, src []byte) map[string]int {
	count := map[string]int{}
	for d := xml.NewDecoder(bytes.NewReader(src)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return count
		}
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := token.(xml.StartElement); ok {
			count[e.Name.Local]++
		}
	}
}

func TestWriteSVGIsWellFormed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Chart{
			Title: rapid.String().Draw(t, "title"), X: rapid.String().Draw(t, "x"),
			LogY: rapid.Bool().Draw(t, "log"),
		}
		points := 0
		for range rapid.IntRange(1, 8).Draw(t, "series") {
			s := Series{Name: rapid.String().Draw(t, "name")}
			for range rapid.IntRange(0, 5).Draw(t, "points") {
				s.Points = append(s.Points, Point{
					rapid.Float64Range(-1e9, 1e9).Draw(t, "px"), rapid.Float64Range(-1e9, 1e9).Draw(t, "py")})
			}
			points += len(c.drawable(s))
			c.Series = append(c.Series, s)
		}
		var b bytes.Buffer
		err := WriteSVG(&b, c)
		if points == 0 {
			if !errors.Is(err, ErrNothing) {
				t.Fatalf("nothing to draw: %v", err)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := elements(t, b.Bytes())["circle"]; got != points {
			t.Errorf("%d points drawn of %d", got, points)
		}
		if strings.Contains(b.String(), "NaN") || strings.Contains(b.String(), "Inf") {
			t.Error("a place that is no number")
		}
	})
}

func TestWriteSVGRefuses(t *testing.T) {
	for name, charts := range map[string][]Chart{
		"no chart": nil, "no series": {{Title: "x"}},
		"only what has no place": {{LogY: true, Series: []Series{{"a", []Point{{1, 0}, {1, -1}, {math.NaN(), 1}}}}}},
	} {
		if err := WriteSVG(io.Discard, charts...); !errors.Is(err, ErrNothing) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := WriteSVG(broken{}, sample()...); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("a writer that fails: %v", err)
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestTicks(t *testing.T) {
	for _, c := range []struct {
		from, to float64
		want     string
	}{
		{1, 5, "1 1.5 2 2.5 3 3.5 4 4.5 5"}, {0, 1200, "0 200 400 600 800 1000 1200"}, {0, 100, "0 10 20 30 40 50 60 70 80 90 100"},
		{-1, 1, "-1 -0.8 -0.6 -0.4 -0.2 0 0.2 0.4 0.6 0.8 1"},
	} {
		var got []string
		for _, v := range ticks(c.from, c.to) {
			got = append(got, label(math.Round(v*1e9)/1e9))
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("ticks(%v, %v) = %s, want %s", c.from, c.to, s, c.want)
		}
	}
	e := logExtent(90, 2500)
	if e.from != 10 || e.to != 10000 || len(e.ticks) != 4 || math.Abs(e.at(100)-1.0/3) > 1e-9 {
		t.Errorf("logarithmic: %+v", e)
	}
	if e := logExtent(1e-12, 1e12); len(e.ticks) > maxTicks {
		t.Errorf("%d ticks", len(e.ticks))
	}
}
