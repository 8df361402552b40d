package archive

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"granary/tool/internal/bench"
	"granary/tool/internal/bench/advice"
	"granary/tool/internal/bench/page"
	"granary/tool/internal/bench/report"
)

// Summarise writes README.md of a folder whose subfolders hold results: the rows where Granary loses,
// then who is best for each goal, then where the reports are.
func Summarise(dir string) error {
	all, err := readAll(dir)
	if err != nil || len(all) == 0 {
		return err
	}
	var b bytes.Buffer
	b.WriteString("# Results\n\n")
	facts(&b, all)
	losing(&b, all)
	best(&b, all)
	for _, r := range all {
		report.Remarks(&b, r)
	}
	if err := os.WriteFile(filepath.Join(dir, "README.md"), b.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write the summary: %w", err)
	}
	return nil
}

func readAll(dir string) ([]*bench.Results, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*", File))
	if err != nil {
		return nil, fmt.Errorf("look for results in %s: %w", dir, err)
	}
	var out []*bench.Results
	for _, path := range paths {
		r, err := Read(path)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

func facts(b *bytes.Buffer, all []*bench.Results) {
	m := all[0].Machine
	seconds, others, stolen, ran := 0.0, 0.0, 0.0, 0.0
	for _, r := range all {
		seconds += r.Seconds
		for _, run := range r.Runs {
			others, stolen, ran = others+run.OthersCPU, stolen+run.Stolen, ran+run.Seconds
		}
	}
	fmt.Fprintf(b, "%s: %d scenarios in %.1f hours with granary %s, on %s, %d CPUs, %.1f GiB, %s, Linux %s, huge pages %s.",
		all[0].Started.UTC().Format("2 January 2006"), len(all), seconds/3600, all[0].Version, m.CPU, m.CPUs, float64(m.MemoryBytes)/(1<<30), m.System, m.Kernel, m.HugePages)
	if ran > 0 {
		fmt.Fprintf(b, " Other processes took %.1f %% of one CPU meanwhile, the hypervisor %.1f %%.", 100*others/ran, 100*stolen/ran)
	}
	b.WriteString("\n\n")
}

func losing(b *bytes.Buffer, all []*bench.Results) {
	t := report.Table{Title: "Where Granary loses", Header: []string{"scenario", "row", "Granary", "best peer", "who", "worse by"}}
	type found struct {
		cells []string
		cost  float64
	}
	var rows []found
	for _, r := range all {
		for _, l := range page.Losing(r) {
			rows = append(rows, found{[]string{r.Scenario, l.Row, l.Ours, l.Best, l.Who, l.By}, l.Cost})
		}
	}
	slices.SortStableFunc(rows, func(x, y found) int {
		switch {
		case x.cost > y.cost:
			return -1
		case x.cost < y.cost:
			return 1
		}
		return 0
	})
	for _, row := range rows {
		t.Rows = append(t.Rows, row.cells)
	}
	if len(rows) > 0 {
		t.Markdown(b)
	}
}

func best(b *bytes.Buffer, all []*bench.Results) {
	t := report.Table{Title: "Who is best, and who is not shown to be worse", Header: []string{"scenario"}}
	for _, g := range advice.Goals {
		t.Header = append(t.Header, g.Title)
	}
	for _, r := range all {
		row := []string{fmt.Sprintf("[%s](%s/report.md)", r.Scenario, r.Scenario)}
		for _, g := range advice.Goals {
			row = append(row, leaders(r, g))
		}
		t.Rows = append(t.Rows, row)
	}
	t.Markdown(b)
}

// leaders are the best contender for a goal and those that no difference is shown to.
func leaders(r *bench.Results, g advice.Goal) string {
	v, ok := advice.Judge(r, g)
	if !ok {
		return "-"
	}
	out := []string{"**" + v.Standings[0].Contender.Name + "**"}
	for _, s := range v.Standings[1:] {
		if s.Missing == 0 && !s.ToBest.Differs() {
			out = append(out, s.Contender.Name)
		}
	}
	return strings.Join(out, ", ")
}
