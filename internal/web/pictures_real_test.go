//go:build realservers

package web_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"image"
	"image/color"
	"image/png"
	"log/slog"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/chatstack-exporter/chatstack_exporter/internal/history"
	"github.com/chatstack-exporter/chatstack_exporter/internal/status"
	"github.com/chatstack-exporter/chatstack_exporter/internal/web"
)

var pictures = flag.String("pictures", "", "directory to put the README's pictures into")

// pictured is the report on the simulated stack as if the exporter had watched it for a day: times and charts are invented, texts
// and values are not. So no fault may have a time in its texts or values, except the container's.
type pictured struct {
	shown

	charts map[string]status.History
	past   *history.Report
}

func (p pictured) Availability() *history.Report { return p.past }

func (p pictured) Chart(name string) (status.History, bool) {
	h, ok := p.charts[name]
	return h, ok
}

// pictureTime is the time on all pictures, at night.
var pictureTime = time.Date(2026, time.March, 14, 3, 17, 0, 0, time.UTC)

// picture changes the times of an exporter's report. Outages have lasted twelve minutes; a container's problem keeps its duration,
// since the table of thresholds shows it too.
func picture(t *testing.T, e exporter) pictured {
	t.Helper()
	var r status.Report
	must(t, json.Unmarshal([]byte(e.get(t, "api/v1/status")), &r))
	p := pictured{shown{report: &r}, map[string]status.History{}, nil}
	now, made := pictureTime, r.Made
	since := func(l status.Level) time.Time {
		if l > status.Maintenance {
			return now.Add(-12 * time.Minute)
		}
		return now.Add(-53 * time.Hour)
	}
	r.Made, r.Time, r.Since, r.Version, r.SinceAtLeast = now, now, since(r.Level), "", false
	day := func(names []string, level status.Level) {
		for i, name := range names {
			var h status.History
			must(t, json.Unmarshal([]byte(e.get(t, "api/v1/history/"+name)), &h))
			p.charts[name] = invented(h, now, level, i)
		}
	}
	for i := range r.Services {
		s := &r.Services[i]
		s.Since, s.LastAttempt, s.LastSuccess = since(s.Level), now, now
		s.ProblemSince, s.ProblemSinceAtLeast = since(s.Level), false
		if s.State == "down" {
			s.LastSuccess = since(s.Level)
		}
		day(s.Charts, s.Level)
	}
	began := map[string]time.Time{}
	for i := range r.Containers {
		c := &r.Containers[i]
		c.Since = since(c.Level)
		if !c.ProblemSince.IsZero() {
			c.Since = now.Add(-made.Sub(c.ProblemSince).Truncate(time.Second))
		}
		c.ProblemSince, c.ProblemSinceAtLeast = c.Since, false
		began[c.Name] = c.Since
		day(c.Charts, c.Level)
	}
	for i := range r.Causes {
		c := &r.Causes[i]
		c.Since, c.SinceAtLeast = since(c.Level), false
		if at, ok := began[c.Members[0].Name]; ok && c.Members[0].Kind == "container" {
			c.Since = at
		}
	}
	slices.SortStableFunc(r.Transitions, func(a, b status.Transition) int {
		return cmp.Or(int(b.Level-a.Level), strings.Compare(a.Name, b.Name))
	})
	for i := range r.Transitions {
		change := &r.Transitions[i]
		change.Time = since(change.Level)
		if at, ok := began[change.Name]; ok && change.Kind == "container" {
			change.Time = at
		}
		change.Until = change.Time
	}
	p.past = p.months()
	return p
}

// months are 90 days that end with the present states. Each third target was down once before.
func (p pictured) months() *history.Report {
	const minutes = 91 * 24 * 60
	return p.record(minutes, func(i, minute int, at time.Time) history.State {
		s, left := &p.report.Services[i], minutes-minute
		before := left/(24*60) == 9+7*i && left%(24*60) < 5+i
		if s.State == "down" && !at.Before(s.Since) || i%3 == 1 && before {
			return history.Down
		}
		return history.Up
	}, func(c *status.Container, _ int, at time.Time) history.State {
		if c.Level == status.Warning && !at.Before(c.Since) {
			return history.Degraded
		}
		return history.Up
	})
}

// invented returns a day that ends with the present value.
func invented(h status.History, now time.Time, level status.Level, which int) status.History {
	last := 1.0
	for _, v := range h.Values {
		if v != nil {
			last = *v
		}
	}
	h.Start = now.Add(-24 * time.Hour)
	steps, spread := len(h.Values), h.Keeps == "mean"
	h.Values, h.Min, h.Max = make([]*float64, steps), nil, nil
	if spread {
		h.Min, h.Max = make([]*float64, steps), make([]*float64, steps)
	}
	for i := range h.Values {
		at := float64(i) / float64(steps)
		v := last * (1 + 0.2*math.Sin(7*at+float64(len(h.Name))) + 0.05*math.Sin(90*at*float64(which+1)))
		if h.Unit == "" || strings.HasSuffix(h.Name, "/up") {
			v = last
			if level > status.Maintenance && at < 0.99 {
				v = 1
			}
		}
		h.Values[i] = &v
		if spread {
			h.Min[i], h.Max[i] = &v, &v
		}
	}
	return h
}

// TestRealBrowserTakesPictures takes the pictures of the README and puts them where -pictures says.
func TestRealBrowserTakesPictures(t *testing.T) {
	browser := chromium(t)
	e := startExporter(t)
	until(t, "everything is all right, and rates are known", func() bool {
		page := e.get(t, "")
		return strings.Contains(page, `data-level="ok"`) && !strings.Contains(page, "a rate needs two probes")
	})
	take(t, browser, "healthy", look{width: 1280, height: 860}, picture(t, e))
	for service, fault := range map[string]string{
		"irc_services": "stopped", "proxy": "other_certificate", "irc_rpc": "wrong_credentials", "docker": "unhealthy",
	} {
		must(t, e.stack.Switch(service, fault, true))
	}
	until(t, "the faults are critical", func() bool { return strings.Count(e.get(t, ""), `<details class="row critical">`) >= 3 })
	faulty := picture(t, e)
	take(t, browser, "faults", look{width: 1280, height: 860, dark: true}, faulty)
	take(t, browser, "phone", look{width: 360, height: 740, phone: true}, faulty)
}

func take(t *testing.T, browser chrome, name string, l look, source pictured) {
	t.Helper()
	address := serveHandler(t, web.NewAt(source, web.Options{Log: slog.New(slog.DiscardHandler)}, pictureTime))
	t.Run(name, func(t *testing.T) {
		b := newTab(t, browser, l)
		b.open(t, address)
		b.waitFor(t, `(document.querySelector(".asof time").textContent = "1 s", true)`) // or each picture would be another one
		shot, err := chromedp.Run(b, chromedp.CaptureScreenshot())
		must(t, err)
		small := fewerColours(t, shot)
		if len(small) > 150<<10 {
			t.Errorf("the picture has %d bytes", len(small))
		}
		text := ask[string](t, b, "document.body.innerText")
		agree(t, name, text)
		if *pictures != "" {
			must(t, os.WriteFile(*pictures+"_"+name+".txt", []byte(text+"\n"), 0o644)) //nolint:gosec // as the picture
			must(t, os.WriteFile(filepath.Join(*pictures, name+".png"), small, 0o644)) //nolint:gosec // pictures are for everybody
		}
	})
}

// fewerColours shrinks a picture: it maps each colour to the nearest of the 256 most frequent ones.
func fewerColours(t *testing.T, picture []byte) []byte {
	t.Helper()
	decoded, err := png.Decode(bytes.NewReader(picture))
	must(t, err)
	bounds := decoded.Bounds()
	count := map[color.RGBA]int{}
	at := func(x, y int) color.RGBA { return color.RGBAModel.Convert(decoded.At(x, y)).(color.RGBA) }
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			count[at(x, y)]++
		}
	}
	colours := slices.SortedFunc(maps.Keys(count), func(a, b color.RGBA) int {
		return cmp.Or(count[b]-count[a], int(a.R)-int(b.R), int(a.G)-int(b.G), int(a.B)-int(b.B))
	})
	palette := make(color.Palette, 0, 256)
	for _, c := range colours[:min(256, len(colours))] {
		palette = append(palette, c)
	}
	nearest := map[color.RGBA]uint8{}
	for _, c := range colours {
		nearest[c] = uint8(palette.Index(c)) //nolint:gosec // one of 256
	}
	small := image.NewPaletted(bounds, palette)
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			small.SetColorIndex(x, y, nearest[at(x, y)])
		}
	}
	var b bytes.Buffer
	must(t, (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&b, small))
	return b.Bytes()
}
