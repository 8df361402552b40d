package report

import (
	"embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"strings"

	"github.com/granary-allocator/granary/tool/internal/allocators"
	"github.com/granary-allocator/granary/tool/internal/bench/result"
	"github.com/granary-allocator/granary/tool/internal/inspect"
	"github.com/granary-allocator/granary/tool/internal/term"
)

//go:embed page.html.tmpl
var files embed.FS

var tmpl = template.Must(template.New("page.html.tmpl").Funcs(template.FuncMap{"join": strings.Join}).ParseFS(files, "page.html.tmpl"))

// content is the data of the template.
type content struct {
	Results         *result.Results
	ComparesGranary bool // Granary and a peer are among the allocators
	When            string
	Machine         string
	Losing          []Loss
	Behind          []Loss
	Compared        int // rows that Losing and Behind are of
	Verdict         *verdict
	Others          []verdict // of the other goals
	Rows            []row     // the lead
	Picture         *picture  // the lead
	Phases          []phase
	Groups          []group
	CPU             *CPUTime
	Noise           []noise
	Disturbed       string
	Legend          string
}

type verdict struct {
	Title      string
	Allocators []allocators.Allocator
	Text       []string
	Standings  []standing
	Pairs      [][]string
	Recipes    []Recipe
	Best       string // in words, for the heading
	Deployed   string // the allocator that the recipes deploy
	Confidence string
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

type pageCell struct {
	Value, Spread, Mark, Class, Title string
	Name                              string // of the allocator, for a narrow screen, which shows no head
}

type group struct {
	Title, Text string
	Plots       []picture
}

type picture struct {
	Title string
	Small bool
	SVG   template.HTML
}

type noise struct{ Allocator, Round, Seconds, Own, Others, Stolen string }

// WritePage writes the page. The advice for goal is the first one. cpu is nil if no CPU time was sampled.
func WritePage(out io.Writer, r *result.Results, goal Goal, cpu *CPUTime) error {
	c := content{
		Results: r, CPU: cpu, When: r.Started.UTC().Format("2 January 2006, 15:04 UTC"), Machine: machine(r.Machine),
		Legend: Legend(BestOfAll),
	}
	lines := Compare(r, BestOfAll)
	c.Losing, c.Behind = Losing(r)
	c.Compared = compared(r)
	c.ComparesGranary = HasGranaryAndPeer(r)
	c.Verdict, c.Others = verdicts(r, goal)
	c.Rows = leadRowsOf(lines, goal, r.Allocators)
	c.Phases = phases(lines)
	c.Disturbed = Disturbance(r)
	for _, run := range r.Runs {
		c.Noise = append(c.Noise, noiseOf(run))
	}
	if err := c.draw(r, goal); err != nil {
		return err
	}
	if err := tmpl.Execute(out, c); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	return nil
}

// draw fills in the pictures.
func (c *content) draw(r *result.Results, goal Goal) error {
	if lead, ok := Lead(r, goal); ok {
		p, err := pictureOf(lead)
		if err != nil {
			return err
		}
		c.Picture = &p
	}
	for _, g := range All(r) {
		shown := group{Title: g.Title, Text: g.Text}
		for _, f := range g.Plots {
			p, err := pictureOf(f)
			if err != nil {
				return err
			}
			shown.Plots = append(shown.Plots, p)
		}
		c.Groups = append(c.Groups, shown)
	}
	return nil
}

func pictureOf(f Plot) (picture, error) {
	svg, err := f.Inline()
	return picture{f.Title, f.Kind == Heat, template.HTML(svg)}, err // drawn here, labels escaped by the drawer
}

// compared is the number of rows that compare Granary with a peer.
func compared(r *result.Results) int {
	n := 0
	for _, line := range Compare(r, BestPeer) {
		for i, c := range line.Cells {
			if line.Row.Better != result.Neutral && r.Allocators[i].Name == inspect.Granary && c.Comparison.Rounds > 0 {
				n++
			}
		}
	}
	return n
}

func leadRowsOf(lines []Line, goal Goal, names []allocators.Allocator) []row {
	var out []row
	for _, line := range leading(lines, goal) {
		shown := rowOf(line, line.Row.Phase+": "+Label(line.Row))
		for i := range shown.Cells {
			shown.Cells[i].Name = names[i].Name
		}
		out = append(out, shown)
	}
	return out
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

// verdicts are the one about the chosen goal, nil if no row measures it, and those about the other goals.
func verdicts(r *result.Results, goal Goal) (chosen *verdict, others []verdict) {
	for _, g := range Goals {
		judged, ok := Judge(r, g)
		if !ok {
			continue
		}
		v := verdict{Title: g.Title, Allocators: r.Allocators, Confidence: fmt.Sprintf("%g %%", result.Confidence*100), Text: judged.Text(), Best: judged.Standings[0].Allocator.Name,
			Deployed: judged.Standings[0].Allocator.Name, Recipes: Deploy(judged.Standings[0].Allocator, r.Scenario)}
		if n := judged.Equals(); n > 0 {
			v.Best = fmt.Sprintf("no difference shown between %s and %s", v.Best, term.Counted(n, "other"))
		}
		for i, s := range judged.Standings {
			ratio := "-" // of the best to itself
			if i > 0 {
				ratio = ratioText(s.ToBest)
			}
			v.Standings = append(v.Standings, standing{s.Allocator.Name, costText(s), ratio})
		}
		for i, pairs := range Pairs(r, g) {
			line := []string{r.Allocators[i].Name}
			for j, p := range pairs {
				if i == j {
					line = append(line, "-")
				} else {
					line = append(line, p.Text())
				}
			}
			v.Pairs = append(v.Pairs, line)
		}
		if g.Name == goal.Name {
			chosen = &v
			continue
		}
		others = append(others, v)
	}
	return chosen, others
}

func costText(s Standing) string {
	if s.Missing > 0 {
		return term.Counted(s.Missing, "row") + " missing"
	}
	return fmt.Sprintf("%.3f", s.Cost)
}

func ratioText(c result.Comparison) string {
	if c.Rounds < 2 {
		return ""
	}
	text := fmt.Sprintf("%.3f (%.3f to %.3f)", c.Ratio, c.Interval.Low, c.Interval.High)
	if unbounded(c.Interval) {
		text = fmt.Sprintf("%.3f (too few rounds to bound it)", c.Ratio)
	}
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
		out[len(out)-1].Rows = append(out[len(out)-1].Rows, rowOf(line, Label(line.Row)))
	}
	return out
}

func rowOf(line Line, label string) row {
	shown := row{Label: label}
	for _, c := range line.Cells {
		shown.Cells = append(shown.Cells, cellOf(line, c))
	}
	return shown
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
	return noise{run.Allocator, fmt.Sprint(run.Round + 1), fmt.Sprintf("%.1f", run.Seconds), share(run.OwnCPU), share(run.OthersCPU), share(run.Stolen)}
}
