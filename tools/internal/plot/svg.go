package plot

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Sizes in pixels.
const (
	width       = 800
	chartHeight = 360
	left        = 80
	right       = 20
	top         = 50
	bottom      = 50
)

// colours can be told apart by those who see no red or no green.
var colours = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00"}

// WriteSVG draws charts one below the other. Errors: ErrNothing, those of w.
func WriteSVG(w io.Writer, charts ...Chart) error {
	if len(charts) == 0 {
		return fmt.Errorf("%w: no chart", ErrNothing)
	}
	var b bytes.Buffer
	height := len(charts) * chartHeight
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n",
		width, height, width, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="white"/>`+"\n", width, height)
	for i, c := range charts {
		if err := c.draw(&b, float64(i*chartHeight)); err != nil {
			return err
		}
	}
	b.WriteString("</svg>\n")
	_, err := w.Write(b.Bytes())
	return err
}

func (c Chart) draw(b *bytes.Buffer, y0 float64) error {
	x, y, err := c.extents()
	if err != nil {
		return err
	}
	a := area{b: b, x: x, y: y, y0: y0}
	a.text(width/2, y0+20, "middle", "bold", c.Title)
	a.axes(c.X, c.Y)
	for i, s := range c.Series {
		colour := colours[i%len(colours)]
		a.line(c.drawable(s), colour)
		at := float64(left + i*170)
		fmt.Fprintf(b, `<rect x="%.0f" y="%.0f" width="12" height="3" fill="%s"/>`+"\n", at, y0+34, colour)
		a.text(at+16, y0+39, "start", "normal", s.Name)
	}
	return nil
}

// area is the place of one chart in the picture.
type area struct {
	b    *bytes.Buffer
	x, y extent
	y0   float64
}

func (a area) px(v float64) float64 { return left + a.x.at(v)*(width-left-right) }
func (a area) py(v float64) float64 {
	return a.y0 + top + (1-a.y.at(v))*(chartHeight-top-bottom)
}

func (a area) text(x, y float64, anchor, weight, s string) {
	fmt.Fprintf(a.b, `<text x="%.1f" y="%.1f" text-anchor="%s" font-weight="%s">`, x, y, anchor, weight)
	// A bytes.Buffer does not fail.
	_ = xml.EscapeText(a.b, []byte(s))
	a.b.WriteString("</text>\n")
}

func (a area) axes(x, y string) {
	low := a.y0 + chartHeight - bottom
	for _, v := range a.y.ticks {
		fmt.Fprintf(a.b, `<path d="M%d %.1fH%d" stroke="#ddd"/>`+"\n", left, a.py(v), width-right)
		a.text(left-6, a.py(v)+4, "end", "normal", label(v))
	}
	for _, v := range a.x.ticks {
		fmt.Fprintf(a.b, `<path d="M%.1f %.1fv5" stroke="black"/>`+"\n", a.px(v), low)
		a.text(a.px(v), low+18, "middle", "normal", label(v))
	}
	fmt.Fprintf(a.b, `<path d="M%d %.1fV%.1fH%d" fill="none" stroke="black"/>`+"\n", left, a.y0+top, low, width-right)
	a.text(width/2, low+38, "middle", "normal", x)
	fmt.Fprintf(a.b, `<g transform="translate(16 %.1f) rotate(-90)">`+"\n", a.y0+(top+chartHeight-bottom)/2)
	a.text(0, 0, "middle", "normal", y)
	a.b.WriteString("</g>\n")
}

func (a area) line(points []Point, colour string) {
	var path strings.Builder
	for i, p := range points {
		path.WriteString(map[bool]string{true: "M", false: "L"}[i == 0])
		fmt.Fprintf(&path, "%.1f %.1f", a.px(p.X), a.py(p.Y))
	}
	fmt.Fprintf(a.b, `<path d="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n", path.String(), colour)
	for _, p := range points {
		fmt.Fprintf(a.b, `<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>`+"\n", a.px(p.X), a.py(p.Y), colour)
	}
}

// label is a number as people write it; six digits are enough to tell ticks
// apart.
func label(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }
