package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"image/png"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/granary-allocator/granary/tool/internal/allocators"
	"github.com/granary-allocator/granary/tool/internal/bench/result"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// example has phases by threads, curves of latency and memory over time.
func examplePlots() *result.Results {
	r := &result.Results{Rows: []result.Row{
		{Phase: "serve, 16 threads", Metric: "throughput", Unit: "1/s", Better: result.Higher},
		{Phase: "serve, 256 threads", Metric: "throughput", Unit: "1/s", Better: result.Higher},
		{Phase: "whole run", Metric: "peak RSS", Unit: "bytes", Better: result.Lower},
		{Phase: "whole run", Metric: "seen", Unit: "count"},
	}}
	for i, name := range []string{"glibc", "jemalloc", "granary"} {
		r.Allocators = append(r.Allocators, allocators.Allocator{Name: name})
		for round := range 3 {
			var s result.Sample
			wobble := 1 + 0.01*float64((round*7+i*5)%3-1)
			s.Set("serve, 16 threads", "throughput", 1000*float64(i+1)*wobble)
			s.Set("serve, 256 threads", "throughput", 500*float64(i+1)*wobble)
			s.Set("whole run", "peak RSS", 1e8*wobble)
			s.Set("whole run", "seen", 7)
			s.Trace(result.Series{Phase: "serve, 16 threads", Metric: result.MetricCurve, Unit: "ms", Points: [][2]float64{{0.5, 1}, {0.99, 3}, {0.999, 50}}})
			s.Trace(result.Series{Phase: "whole run", Metric: "RSS", Unit: "bytes", Points: [][2]float64{{0, 1e6}, {1, 2e6}, {2, 5e6}}})
			r.Add(name, round, s)
		}
	}
	return r
}

func plotNamed(t *testing.T, name string) Plot {
	t.Helper()
	var names []string
	for _, g := range All(examplePlots()) {
		for _, f := range g.Plots {
			if f.Name == name {
				return f
			}
			names = append(names, f.Name)
		}
	}
	t.Fatalf("no plot %s among %q", name, names)
	return Plot{}
}

func TestRatiosAreToGranaryAndPointTheSameWay(t *testing.T) {
	f := plotNamed(t, "ratio-throughput")
	if len(f.Labels) != 2 || len(f.Lines) != 2 || f.Lines[0].Name != "glibc" {
		t.Fatalf("%+v", f)
	}
	for _, p := range f.Lines[0].Points { // a third of the throughput is three times worse
		if math.Abs(p.X-3) > 0.1 || p.Low >= p.X || p.High <= p.X {
			t.Errorf("point %+v", p)
		}
	}
	if f := plotNamed(t, "ratio-peak-rss"); math.Abs(f.Lines[1].Points[0].X-1) > 0.03 {
		t.Errorf("%+v", f.Lines)
	}
}

func TestCurvesOverThreads(t *testing.T) {
	f := plotNamed(t, "curve-serve-throughput")
	if p := f.Lines[2].Points; len(p) != 2 || p[0].X != 16 || p[1].X != 256 || p[1].Y != 1500 {
		t.Errorf("%+v", f.Lines)
	}
}

func TestEveryPlotIsDrawnAsSVGAndPNG(t *testing.T) {
	seen := map[string]bool{}
	for _, g := range All(examplePlots()) {
		for _, f := range g.Plots {
			if seen[f.Name] {
				t.Errorf("two plots %s", f.Name)
			}
			seen[f.Name] = true
			inline, err := f.Inline()
			if err != nil || !strings.HasPrefix(inline, "<svg") || !strings.Contains(inline, f.Lines[0].Name) || !wellFormed(inline) {
				t.Errorf("%s: %v\n%.300s", f.Name, err, inline)
			}
			var b bytes.Buffer
			if err := f.PNG(&b); err != nil {
				t.Errorf("%s: %v", f.Name, err)
			}
			if image, err := png.Decode(&b); err != nil || image.Bounds().Dx() < 600 {
				t.Errorf("%s: %v", f.Name, err)
			}
		}
	}
	if len(seen) != 5 {
		t.Errorf("plots %v", seen)
	}
}

func wellFormed(text string) bool {
	d := xml.NewDecoder(strings.NewReader(text))
	for {
		if _, err := d.Token(); err != nil {
			return errors.Is(err, io.EOF)
		}
	}
}

func TestOddResultsAreDrawnToo(t *testing.T) {
	r := examplePlots()
	r.Observations = nil
	r.Series = []result.Series{{Allocator: "glibc", Phase: "x", Metric: "RSS", Unit: "bytes", Points: [][2]float64{{0, 0}, {0, 0}}}}
	for _, g := range All(r) {
		for _, f := range g.Plots {
			if _, err := f.Inline(); err != nil {
				t.Errorf("%s: %v", f.Name, err)
			}
		}
	}
	if got := All(&result.Results{}); len(got) != 0 {
		t.Errorf("plots of nothing: %+v", got)
	}
}

func TestTheAxisOfNines(t *testing.T) {
	f := Plot{Kind: Percent}
	if f.x(0.9) < 0.999 || f.x(0.9) > 1.001 || math.IsInf(f.x(1), 0) {
		t.Errorf("%v, %v", f.x(0.9), f.x(1))
	}
	if n := len((nines{}).Ticks(0, 3)); n != 5 {
		t.Errorf("%d ticks", n)
	}
}

func TestTicksAreRoundAndEnough(t *testing.T) {
	for _, c := range []struct{ low, high float64 }{{0, 2890}, {0, 1}, {0.02, 17.9}, {-3, 4}, {0, 1e9}, {99.5, 100.5}} {
		ticks := (even{}).Ticks(c.low, c.high)
		if len(ticks) < 4 || len(ticks) > 11 {
			t.Errorf("%v: %d ticks", c, len(ticks))
		}
		for _, tick := range ticks {
			if tick.Label == "" || tick.Value < c.low-1e-6 || tick.Value > c.high*1.000001 {
				t.Errorf("%v: tick %+v", c, tick)
			}
		}
	}
	if got := number(1000); got != "1000" {
		t.Errorf("1000 is written %s", got)
	}
}

func TestWordsAreAsLongAsTheyWereLaidOutWhateverTheReadersFont(t *testing.T) {
	f := Plot{Kind: Ratios, Name: "x", Title: "a < b", XLabel: "times", LogX: true, Labels: []string{"one"},
		Lines: []Series{{Name: "glibc", Points: []Point{{X: 2, Low: 1, High: 3}}}}}
	var svg bytes.Buffer
	if err := f.SVG(&svg); err != nil {
		t.Fatal(err)
	}
	words, fits := strings.Count(svg.String(), "<text"), strings.Count(svg.String(), `lengthAdjust="spacingAndGlyphs"`)
	if words < 4 || fits != words || !strings.Contains(svg.String(), ">a &lt; b</text>") {
		t.Errorf("%d of %d words are fitted\n%s", fits, words, svg.String())
	}
	length := func(text string) float64 {
		match := regexp.MustCompile(`textLength="([0-9.]+)"`).FindSubmatch(fitted([]byte(`<text style="font-family:Liberation Sans;font-size:10px">` + text + `</text>`)))
		v, _ := strconv.ParseFloat(string(match[1]), 64)
		return v
	}
	if one, two := length("mmmmmm"), length("mmmmmmmmmmmm"); one < 40 || one > 60 || math.Abs(two-2*one) > 0.1 {
		t.Errorf("six letters are %v long, twelve %v", one, two)
	}
}

func TestNumbersOfAxes(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.5: "0.5", 2.5e6: "2500000", 1e-5: "1e-05"} {
		if got := number(v); got != want {
			t.Errorf("%v is %q", v, got)
		}
	}
	if got := number(math.Copysign(0, -1)); got != "0" {
		t.Errorf("minus nothing is %q", got)
	}
}

func TestLongLabelsAreFoldedInTheMiddle(t *testing.T) {
	for label, want := range map[string]string{
		"SET 100 B": "SET 100 B", "": "",
		"get and set in turn, 5000/s over 64 connections": "get and set in turn,\n5000/s over 64 connections",
		"oltp_read_write_without_a_single_space":          "oltp_read_write_without_a_single_space",
	} {
		if got := folded(label); got != want {
			t.Errorf("%q became %q", label, got)
		}
	}
}

func TestAPictureHoldsItsLegendWhateverTheNumberOfAllocators(t *testing.T) {
	f := Plot{Kind: Ratios, Name: "x", Title: "x", Labels: []string{"whole run"}, LogX: true}
	for i := range 24 {
		f.Lines = append(f.Lines, Series{Name: fmt.Sprintf("allocator-%d", i), Points: []Point{{X: 1 + float64(i)/10}}})
	}
	p, legend, err := f.gonum()
	if err != nil {
		t.Fatal(err)
	}
	c := draw.New(vgsvg.New(f.width(), f.height()))
	if need := legend.Rectangle(c).Size().Y + 0.9*vg.Centimeter; need > f.height() {
		t.Errorf("the legend takes %v of %v, title %q", need, f.height(), p.Title.Text)
	}
}
