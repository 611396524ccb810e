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
	right, bottom                            = chartWidth - rightRoom, chartHeight - bottomRoom
	// nameRoom is the least distance between two names.
	nameRoom = 16
)

// Colours that are told apart by people who see no red or no green, and as greys by their order.
var colours = []string{"#0072b2", "#000000", "#009e73", "#d55e00", "#cc79a7", "#8c6d1f", "#56b4e9"}

var escaped = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// add adds a point to a line. A logarithm has no place for nothing.
func (c *chart) add(name string, x int, y float64) {
	i := slices.IndexFunc(c.lines, func(l line) bool { return l.name == name })
	if x <= 0 || y <= 0 {
		return
	}
	if i < 0 {
		i = len(c.lines)
		c.lines = append(c.lines, line{name: name})
	}
	c.lines[i].points = append(c.lines[i].points, xy{float64(x), y})
}

// axis places values between two powers of ten.
type axis struct{ low, high, from, to float64 }

func axisOf(values []float64, from, to float64) axis {
	a := axis{
		math.Floor(math.Log10(slices.Min(values))),
		math.Ceil(math.Log10(slices.Max(values))),
		from,
		to,
	}
	if a.low == a.high {
		a.high++
	}
	return a
}

func (a axis) at(v float64) float64 {
	return a.from + (math.Log10(v)-a.low)/(a.high-a.low)*(a.to-a.from)
}

// powers calls draw for each power of ten, as people write it.
func (a axis) powers(draw func(at float64, label string)) {
	for e := a.low; e <= a.high; e++ {
		v := math.Pow(10, e)
		label := fmt.Sprintf("%.*f", int(max(0, -e)), v)
		if e >= 0 {
			label = thousands(int(math.Round(v)))
		}
		draw(a.at(v), label)
	}
}

// svg draws the chart: white behind it, since it is also looked at on dark pages.
func (c *chart) svg() []byte {
	var b bytes.Buffer
	draw := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	draw(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" font-family="sans-serif" font-size="12">`,
		chartWidth, chartHeight)
	draw("<title>%[1]s</title>\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n"+
		"<text x=\"%d\" y=\"22\" font-size=\"15\">%[1]s</text>",
		escaped.Replace(c.title), leftRoom)
	var xs, ys []float64
	for _, l := range c.lines {
		for _, p := range l.points {
			xs, ys = append(xs, p.x), append(ys, p.y)
		}
	}
	if len(xs) == 0 {
		draw("<text x=\"%d\" y=\"60\">not measured</text>\n</svg>", leftRoom)
		return b.Bytes()
	}
	ax, ay := axisOf(xs, leftRoom, right), axisOf(ys, bottom, topRoom)
	ax.powers(func(x float64, label string) {
		draw("<path d=\"M%.1f %dV%d\" stroke=\"#ddd\"/><text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>",
			x, topRoom, bottom, x, bottom+18, label)
	})
	ay.powers(func(y float64, label string) {
		draw("<path d=\"M%d %.1fH%d\" stroke=\"#ddd\"/><text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>",
			leftRoom, y, right, leftRoom-6, y+4, label)
	})
	draw("<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">%s</text>", (leftRoom+right)/2, chartHeight-12, escaped.Replace(c.x))
	draw("<text transform=\"translate(16 %d) rotate(-90)\" text-anchor=\"middle\">%s</text>", (topRoom+bottom)/2, escaped.Replace(c.y))
	c.drawLines(draw, ax, ay)
	draw("</svg>")
	return b.Bytes()
}

func (c *chart) drawLines(draw func(string, ...any), ax, ay axis) {
	type name struct {
		text, colour string
		y            float64
	}
	var names []name
	for i, l := range c.lines {
		colour := colours[i%len(colours)]
		var path []string
		for _, p := range l.points {
			path = append(path, fmt.Sprintf("%.1f %.1f", ax.at(p.x), ay.at(p.y)))
			draw("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>", ax.at(p.x), ay.at(p.y), colour)
		}
		draw("<path d=\"M%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"2\"/>", strings.Join(path, "L"), colour)
		names = append(names, name{l.name, colour, ay.at(l.points[len(l.points)-1].y)})
	}
	slices.SortStableFunc(names, func(a, b name) int { return cmp.Compare(a.y, b.y) })
	for i := 1; i < len(names); i++ {
		names[i].y = max(names[i].y, names[i-1].y+nameRoom)
	}
	// Those that were pushed out of the picture push back.
	lowest := float64(bottom)
	for _, n := range slices.Backward(names) {
		lowest = min(n.y, lowest)
		draw("<text x=\"%d\" y=\"%.1f\" fill=\"%s\">%s</text>", right+8, lowest+4, n.colour, escaped.Replace(n.text))
		lowest -= nameRoom
	}
}
