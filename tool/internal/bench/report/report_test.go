package report

import (
	"bytes"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/granary-allocator/granary/tool/internal/allocators"
	"github.com/granary-allocator/granary/tool/internal/bench/result"

	"github.com/jedib0t/go-pretty/v6/text"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; run with -update if the change is meant. Got:\n%s", path, got)
	}
}

// example has a clear winner, a tie, a missing allocator, and a neutral row.
func example() *result.Results {
	r := &result.Results{
		Schema: result.Schema, Scenario: "example", Version: "1.2.3", Rounds: 3, Seconds: 42,
		Started: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC),
		Machine: result.Machine{CPU: "a CPU", CPUs: 2, MemoryBytes: 8 << 30, Kernel: "6.1", System: "Debian", HugePages: "madvise", LoadBefore: "0.10 0.52 1.75 2/345 6789"},
		Allocators: []allocators.Allocator{{Name: "glibc", Path: "/lib/libc.so.6"}, {Name: "jemalloc", Path: "/lib/j.so", Env: []string{"A=1"}},
			{Name: "granary", Path: "/lib/g.so", SHA256: "0123456789abcdef"}},
		Rows: []result.Row{
			{Phase: "pair", Metric: result.MetricWall, Unit: "s", Better: result.Lower},
			{Phase: "pair", Metric: result.MetricPeakRSS, Unit: "bytes", Better: result.Lower},
			{Phase: "pair", Metric: "cost", Unit: "ns", Better: result.Lower},
			{Phase: "pair", Metric: "seen", Unit: "count"},
			{Phase: "serve", Metric: "throughput", Unit: "1/s", Better: result.Higher},
			{Phase: "serve", Metric: "never measured", Unit: "s", Better: result.Lower},
		},
		Failures: []result.Failure{{Subject: "serve", Allocator: "jemalloc", Round: 1, Reason: "it died"}},
		Notes:    []string{"mimalloc is left out"},
	}
	values := map[string][]float64{ // glibc, jemalloc, granary a row
		"pair/" + result.MetricWall:    {2, 2.02, 1},
		"pair/" + result.MetricPeakRSS: {32 << 20, 48 << 20, 32 << 20},
		"pair/cost":                    {5, 3.4, 2.8},
		"pair/seen":                    {12, 34, 1234567},
		"serve/throughput":             {50e3, 60e3, 99e3},
	}
	for i, c := range r.Allocators {
		for round := range 3 {
			var s result.Sample
			for key, v := range values {
				phase, metric, _ := strings.Cut(key, "/")
				if phase == "serve" && c.Name == "jemalloc" && round > 0 {
					continue
				}
				wobble := 1 + 0.01*float64((round*7+i*5)%3-1)
				s.Set(phase, metric, v[i]*wobble)
			}
			r.Add(c.Name, round, s)
		}
	}
	return r
}

func TestRenderings(t *testing.T) {
	r := example()
	for _, c := range []struct {
		name  string
		write func(*bytes.Buffer)
	}{
		{"terminal.golden", func(b *bytes.Buffer) { Lines("Example", r, Compare(r, BestOfAll)).Terminal(b, 0) }},
		{"terminal-narrow.golden", func(b *bytes.Buffer) { Lines("Example", r, Compare(r, BestPeer)).Terminal(b, 60) }},
		{"report.golden.md", func(b *bytes.Buffer) {
			lines := Compare(r, BestPeer)
			Document(b, r, []Table{Lines("Example", r, lines), Means(r, lines)}, BestPeer)
		}},
	} {
		var b bytes.Buffer
		c.write(&b)
		golden(t, c.name, b.String())
	}
}

func cell(t *testing.T, lines []Line, metric string, allocator int) Cell {
	t.Helper()
	for _, line := range lines {
		if line.Row.Metric == metric {
			return line.Cells[allocator]
		}
	}
	t.Fatalf("no row %s", metric)
	return Cell{}
}

func TestRatiosToTheBestOfAllAndToTheBestPeer(t *testing.T) {
	all, peers := Compare(example(), BestOfAll), Compare(example(), BestPeer)
	for _, c := range []struct {
		lines     []Line
		metric    string
		allocator int
		cost      float64
		best      bool
	}{
		{all, result.MetricWall, 2, 1, true},
		{all, result.MetricWall, 0, 2, false},
		{all, "throughput", 0, 1.98, false},
		{peers, result.MetricWall, 2, 0.5, true},
		{peers, result.MetricWall, 0, 1, false},
		{peers, "throughput", 2, 0.606, true},
		{peers, "cost", 2, 0.8235, true},
	} {
		got := cell(t, c.lines, c.metric, c.allocator)
		if math.Abs(got.Cost-c.cost) > 0.02 || got.Best != c.best {
			t.Errorf("%s, allocator %d: cost %v, best %v; want %v, %v", c.metric, c.allocator, got.Cost, got.Best, c.cost, c.best)
		}
	}
	if !cell(t, all, result.MetricWall, 1).Comparison.Differs() {
		t.Error("a factor of two is not seen")
	}
	if !cell(t, peers, result.MetricWall, 1).Noise {
		t.Error("1 % within 1 % of noise is called a difference")
	}
	if c := cell(t, all, "seen", 2); c.Cost != 0 || c.Best {
		t.Errorf("a neutral row is compared: %+v", c)
	}
}

func TestGeoMeansAreOverCompleteRows(t *testing.T) {
	line := func(phase string, medians ...float64) Line {
		l := Line{Row: result.Row{Phase: phase, Metric: "time", Better: result.Lower}}
		for _, m := range medians {
			c := Cell{Median: m, Rounds: 1}
			if m == 0 {
				c.Rounds = 0
			}
			l.Cells = append(l.Cells, c)
		}
		return l
	}
	lines := []Line{line("a", 1, 2), line("b", 8, 1), line("c", 1, 0), line("d", 0.5, 5)}
	means, rows := GeoMeans(lines, "time", func(best float64) bool { return best >= 1 })
	if rows != 2 || math.Abs(means[0]-math.Sqrt(8)) > 1e-12 || math.Abs(means[1]-math.Sqrt(2)) > 1e-12 {
		t.Errorf("means %v over %d rows", means, rows)
	}
	if means, rows := GeoMeans(lines, "space", func(float64) bool { return true }); means != nil || rows != 0 {
		t.Errorf("means %v over %d rows", means, rows)
	}
}

func TestNumber(t *testing.T) {
	for _, c := range []struct {
		value float64
		unit  string
		want  string
	}{
		{1 << 20, "bytes", "1.00"}, {52_345, "1/s", "52.3"}, {1234.4, "ns", "1234"}, {12.34, "ns", "12.3"}, {0, "s", "0"},
		{0.0123, "s", "0.012"}, {7, "count", "7"}, {math.NaN(), "s", "-"}, {math.Inf(1), "s", "-"}, {0.5, "s", "0.50"},
	} {
		if got := Number(c.value, c.unit); got != c.want {
			t.Errorf("Number(%v, %s) = %s, want %s", c.value, c.unit, got, c.want)
		}
	}
}

func TestDisturbedRunsAreReported(t *testing.T) {
	r := &result.Results{Machine: result.Machine{CPUs: 2}, Runs: []result.Run{{Seconds: 10, OthersCPU: 0.5}, {Seconds: 10, OthersCPU: 4, Stolen: 1}}}
	if got := Disturbance(r); !strings.HasPrefix(got, "In 1 of 2 runs") || !strings.Contains(got, "in the worst 25 %") {
		t.Errorf("said %q", got)
	}
	r.Runs = r.Runs[:1]
	if got := Disturbance(r); got != "" {
		t.Errorf("said %q", got)
	}
}

func TestWhereGranaryLosesComesFirstAndASingleRoundShowsNothing(t *testing.T) {
	several := func(rounds int) *result.Results {
		r := &result.Results{Rounds: rounds, Rows: []result.Row{
			{Phase: "a", Metric: "RSS", Unit: "bytes", Better: result.Lower}, {Phase: "b", Metric: "throughput", Unit: "1/s", Better: result.Higher},
			{Phase: "c", Metric: "RSS", Unit: "bytes", Better: result.Lower}, {Phase: "d", Metric: "seen", Unit: "count"},
		}, Allocators: []allocators.Allocator{{Name: "glibc"}, {Name: "granary"}, {Name: "granary:x=1"}}}
		for round := range rounds {
			wobble := 1 + 0.001*float64(round)
			for _, c := range r.Allocators {
				var s result.Sample
				worse := 1.0
				if c.Name == "granary" {
					worse = 2
				}
				s.Set("a", "RSS", 1e7*(1+worse/10)*wobble)
				s.Set("b", "throughput", 1e5/worse*wobble)
				s.Set("c", "RSS", 1e7/worse*wobble)
				s.Set("d", "seen", worse)
				r.Add(c.Name, round, s)
			}
		}
		return r
	}
	shown, behind := Losing(several(3))
	if len(shown) != 2 || len(behind) != 0 || shown[0].Row != "b: throughput, k/s" || shown[0].By != "×2.00" || shown[0].Who != "glibc" || shown[1].Row != "a: RSS, MiB" {
		t.Errorf("shown %+v, behind %+v", shown, behind)
	}
	if shown, behind := Losing(several(1)); len(shown) != 0 || len(behind) != 2 {
		t.Errorf("of one round: shown %+v, behind %+v", shown, behind)
	}
	var page bytes.Buffer
	Document(&page, several(3), []Table{Lines("Medians", several(3), Compare(several(3), BestOfAll))}, BestOfAll)
	if loses, medians := strings.Index(page.String(), "### Where Granary loses"), strings.Index(page.String(), "### Medians"); loses < 0 || medians < loses {
		t.Errorf("the losses do not come first:\n%s", page.String())
	}
	alone := several(3)
	alone.Allocators = alone.Allocators[1:2]
	if got := Losses(alone); got != nil {
		t.Errorf("alone it loses to %+v", got)
	}
}

// A table of many allocators is divided; each part fits, and no value is lost.
func TestAWideTableIsDividedIntoParts(t *testing.T) {
	table := Table{Title: "Example", Header: []string{""}, Rows: [][]string{{"  wall time, s"}, {"  peak RSS"}}, Breaks: map[int]bool{1: true}}
	for i := 10; i < 21; i++ {
		table.Header = append(table.Header, fmt.Sprintf("allocator%d", i))
		for row := range table.Rows {
			table.Rows[row] = append(table.Rows[row], fmt.Sprintf("%d.%d MiB\n±1 %% ×1.04", i, row))
		}
	}
	for _, width := range []int{30, 80, 120} {
		var out bytes.Buffer
		table.Terminal(&out, width)
		if text.LongestLineLen(out.String()) > width {
			t.Errorf("%d columns:\n%s", width, out.String())
		}
		for i := 10; i < 21; i++ {
			for _, want := range []string{fmt.Sprintf("allocator%d", i), fmt.Sprintf("%d.0 MiB", i), fmt.Sprintf("%d.1 MiB", i)} {
				if strings.Count(out.String(), want) != 1 {
					t.Errorf("%d columns: %q is not there once:\n%s", width, want, out.String())
				}
			}
		}
	}
}
