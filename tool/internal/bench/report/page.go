package report

import (
	"embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/granary-allocator/granary/tool/internal/bench/advice"
	"github.com/granary-allocator/granary/tool/internal/bench/estimate"
	"github.com/granary-allocator/granary/tool/internal/bench/figures"
	"github.com/granary-allocator/granary/tool/internal/bench/result"
	"github.com/granary-allocator/granary/tool/internal/term"
)

//go:embed page.html.tmpl
var files embed.FS

var tmpl = template.Must(template.New("page.html.tmpl").Funcs(template.FuncMap{"join": strings.Join}).ParseFS(files, "page.html.tmpl"))

// content is what the template shows.
type content struct {
	Results         *result.Results
	ComparesGranary bool // Granary and a peer are among the contenders
	When            string
	Machine         string
	Losing          []Loss
	Behind          []Loss
	Verdicts        []verdict
	Phases          []phase
	Groups          []group
	Noise           []noise
	Disturbed       string
	Legend          string
	Confidence      string
}

type verdict struct {
	Title     string
	Chosen    bool
	Text      []string
	Standings []standing
	Pairs     [][]string
	Recipes   []advice.Recipe
	Best      string
}

type standing struct{ Name, Cost, ToBest string }

type phase struct {
	Name string
	Rows []row
}

type row struct {
	Label string
	Cells []pageCell
}

type pageCell struct{ Value, Spread, Mark, Class, Title string }

type group struct {
	Title, Text string
	Open        bool
	Figures     []picture
}

type picture struct {
	Title string
	SVG   template.HTML
}

type noise struct{ Contender, Round, Seconds, Own, Others, Stolen string }

// WritePage writes the page. The advice for goal is the first one.
func WritePage(out io.Writer, r *result.Results, goal advice.Goal) error {
	c := content{
		Results: r, When: r.Started.UTC().Format("2 January 2006, 15:04 UTC"), Machine: machine(r.Machine),
		Legend: Legend(BestOfAll), Confidence: fmt.Sprintf("%g %%", estimate.Confidence*100),
	}
	lines := Compare(r, BestOfAll)
	c.Losing, c.Behind = Losing(r)
	c.ComparesGranary = HasGranaryAndPeer(r)
	c.Verdicts = verdicts(r, goal)
	c.Phases = phases(lines)
	c.Disturbed = Disturbance(r)
	for _, run := range r.Runs {
		c.Noise = append(c.Noise, noiseOf(run))
	}
	for i, g := range figures.All(r) {
		shown := group{Title: g.Title, Text: g.Text, Open: i == 0}
		for _, f := range g.Figures {
			svg, err := f.Inline()
			if err != nil {
				return err
			}
			shown.Figures = append(shown.Figures, picture{f.Title, template.HTML(svg)}) // drawn by us, labels escaped by the drawer
		}
		c.Groups = append(c.Groups, shown)
	}
	if err := tmpl.Execute(out, c); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	return nil
}

func machine(m result.Machine) string {
	parts := []string{m.CPU, fmt.Sprintf("%d CPUs", m.CPUs), fmt.Sprintf("%.1f GiB", float64(m.MemoryBytes)/(1<<30)), m.System, "Linux " + m.Kernel, "huge pages " + m.HugePages}
	if m.Governor != "" {
		parts = append(parts, "governor "+m.Governor)
	}
	if m.MemoryLimit != "" {
		parts = append(parts, "memory limit "+m.MemoryLimit)
	}
	return strings.Join(parts, ", ")
}

func verdicts(r *result.Results, goal advice.Goal) []verdict {
	var out []verdict
	for _, g := range advice.Goals {
		judged, ok := advice.Judge(r, g)
		if !ok {
			continue
		}
		v := verdict{Title: g.Title, Chosen: g.Name == goal.Name, Text: judged.Text(), Best: judged.Standings[0].Contender.Name,
			Recipes: advice.Deploy(judged.Standings[0].Contender, r.Scenario)}
		if n := judged.Equals(); n > 0 {
			v.Best = fmt.Sprintf("no difference shown between %s and %s", v.Best, term.Counted(n, "other"))
		}
		for _, s := range judged.Standings {
			v.Standings = append(v.Standings, standing{s.Contender.Name, costText(s), ratioText(s.ToBest)})
		}
		for i, pairs := range advice.Pairs(r, g) {
			line := []string{r.Contenders[i].Name}
			for _, p := range pairs {
				line = append(line, p.Text())
			}
			v.Pairs = append(v.Pairs, line)
		}
		if v.Chosen {
			out = slices.Insert(out, 0, v)
			continue
		}
		out = append(out, v)
	}
	return out
}

func costText(s advice.Standing) string {
	if s.Missing > 0 {
		return term.Counted(s.Missing, "row") + " missing"
	}
	return fmt.Sprintf("%.3f", s.Cost)
}

func ratioText(c estimate.Comparison) string {
	if c.Rounds < 2 {
		return ""
	}
	text := fmt.Sprintf("%.3f (%.3f to %.3f)", c.Ratio, c.Interval.Low, c.Interval.High)
	if !c.Differs() {
		return "≈ " + text
	}
	return text
}

func phases(lines []Line) []phase {
	var out []phase
	for _, line := range lines {
		if len(out) == 0 || out[len(out)-1].Name != line.Row.Phase {
			out = append(out, phase{Name: line.Row.Phase})
		}
		shown := row{Label: Label(line.Row)}
		for _, c := range line.Cells {
			shown.Cells = append(shown.Cells, cellOf(line, c))
		}
		out[len(out)-1].Rows = append(out[len(out)-1].Rows, shown)
	}
	return out
}

func cellOf(line Line, c Cell) pageCell {
	if c.Rounds == 0 {
		return pageCell{Value: "–", Class: "none"}
	}
	out := pageCell{Value: Number(c.Median, line.Row.Unit), Spread: c.Spread(), Mark: c.Mark()}
	out.Title = fmt.Sprintf("median of %s, %s to %s", term.Counted(c.Rounds, "round"), Number(c.Range.Low, line.Row.Unit), Number(c.Range.High, line.Row.Unit))
	switch {
	case c.Best:
		out.Class = "best"
	case c.Cost == 0 || c.Noise:
	case c.Cost > 1.25:
		out.Class = "bad"
	case c.Cost > 1.05:
		out.Class = "worse"
	}
	return out
}

func noiseOf(run result.Run) noise {
	share := func(v float64) string { return fmt.Sprintf("%.1f %%", 100*v/math.Max(run.Seconds, 1e-9)) }
	return noise{run.Contender, fmt.Sprint(run.Round + 1), fmt.Sprintf("%.1f", run.Seconds), share(run.OwnCPU), share(run.OthersCPU), share(run.Stolen)}
}
