package bench

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// chart is a picture of lines, both axes logarithmic.
type chart struct {
	title, x, y string
	lines       []line
}

type line struct {
	name   string
	points []xy
}

type xy struct{ x, y float64 }

const (
	chartWidth, chartHeight = 760, 400
	// Room for the words around the picture; names of lines stand right of it.
	leftRoom, rightRoom, topRoom, bottomRoom = 70, 190, 40, 50
	// nameRoom is the least distance between two names.
	nameRoom = 16
)

// Colours that are told apart by people who see no red or no green, and as greys by their order.
var colours = []string{"#0072b2", "#000000", "#009e73", "#d55e00", "#cc79a7", "#8c6d1f", "#56b4e9"}

// axis is the range of one axis, in powers of ten.
type axis struct{ low, high float64 }

func axisOf(values []float64) axis {
	low, high := math.Inf(1), math.Inf(-1)
	for _, v := range values {
		low, high = min(low, math.Log10(v)), max(high, math.Log10(v))
	}
	a := axis{math.Floor(low), math.Ceil(high)}
	if a.low == a.high {
		a.high++
	}
	return a
}

// at is where a value lies, from 0 to 1.
func (a axis) at(v float64) float64 { return (math.Log10(v) - a.low) / (a.high - a.low) }

// svg draws the chart: white behind it, since it is also looked at on dark pages.
func (c chart) svg() []byte {
	var xs, ys []float64
	for i := range c.lines {
		// A logarithm has no place for nothing.
		c.lines[i].points = slices.DeleteFunc(slices.Clone(c.lines[i].points), func(p xy) bool { return p.x <= 0 || p.y <= 0 })
		for _, p := range c.lines[i].points {
			xs, ys = append(xs, p.x), append(ys, p.y)
		}
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" font-family="sans-serif" font-size="12">`+"\n", chartWidth, chartHeight)
	fmt.Fprintf(&b, "<title>%[1]s</title>\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n<text x=\"%d\" y=\"22\" font-size=\"15\">%[1]s</text>\n", escaped(c.title), leftRoom)
	if len(xs) == 0 {
		fmt.Fprintf(&b, "<text x=\"%d\" y=\"60\">not measured</text>\n</svg>\n", leftRoom)
		return b.Bytes()
	}
	ax, ay := axisOf(xs), axisOf(ys)
	px := func(v float64) float64 { return leftRoom + ax.at(v)*(chartWidth-leftRoom-rightRoom) }
	py := func(v float64) float64 { return topRoom + (1-ay.at(v))*(chartHeight-topRoom-bottomRoom) }
	for e := ax.low; e <= ax.high; e++ {
		x := px(math.Pow(10, e))
		fmt.Fprintf(&b, "<path d=\"M%.1f %dV%d\" stroke=\"#ddd\"/><text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n",
			x, topRoom, chartHeight-bottomRoom, x, chartHeight-bottomRoom+18, power(e))
	}
	for e := ay.low; e <= ay.high; e++ {
		y := py(math.Pow(10, e))
		fmt.Fprintf(&b, "<path d=\"M%d %.1fH%d\" stroke=\"#ddd\"/><text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n",
			leftRoom, y, chartWidth-rightRoom, leftRoom-6, y+4, power(e))
	}
	fmt.Fprintf(&b, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">%s</text>\n", (leftRoom+chartWidth-rightRoom)/2, chartHeight-12, escaped(c.x))
	fmt.Fprintf(&b, "<text transform=\"translate(16 %d) rotate(-90)\" text-anchor=\"middle\">%s</text>\n", (topRoom+chartHeight-bottomRoom)/2, escaped(c.y))
	c.drawLines(&b, px, py)
	b.WriteString("</svg>\n")
	return b.Bytes()
}

func (c chart) drawLines(b *bytes.Buffer, px, py func(float64) float64) {
	type name struct {
		text, colour string
		y            float64
	}
	var names []name
	for i, l := range c.lines {
		if len(l.points) == 0 {
			continue
		}
		colour := colours[i%len(colours)]
		var path strings.Builder
		for j, p := range l.points {
			fmt.Fprintf(&path, "%s%.1f %.1f", map[bool]string{true: "M", false: "L"}[j == 0], px(p.x), py(p.y))
			fmt.Fprintf(b, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>\n", px(p.x), py(p.y), colour)
		}
		fmt.Fprintf(b, "<path d=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"2\"/>\n", path.String(), colour)
		names = append(names, name{l.name, colour, py(l.points[len(l.points)-1].y)})
	}
	slices.SortStableFunc(names, func(a, b name) int { return cmp.Compare(a.y, b.y) })
	for i := range names {
		if i > 0 {
			names[i].y = max(names[i].y, names[i-1].y+nameRoom)
		}
	}
	// Those that were pushed out of the picture push back.
	for i := len(names) - 1; i >= 0; i-- {
		lowest := float64(chartHeight - bottomRoom)
		if i < len(names)-1 {
			lowest = names[i+1].y - nameRoom
		}
		names[i].y = min(names[i].y, lowest)
		fmt.Fprintf(b, "<text x=\"%d\" y=\"%.1f\" fill=\"%s\">%s</text>\n", chartWidth-rightRoom+8, names[i].y+4, names[i].colour, escaped(names[i].text))
	}
}

// power is ten to the power of e, as people write it.
func power(e float64) string {
	if e >= 0 {
		return thousands(int(math.Round(math.Pow(10, e))))
	}
	return fmt.Sprintf("%.*f", int(-e), math.Pow(10, e))
}

func escaped(text string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(text)
}
