package report

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/granary-allocator/granary/tool/internal/bench/result"
	"github.com/granary-allocator/granary/tool/internal/term"
)

// Summary is the name of the file that sums a folder of several scenarios' results up.
const Summary = "README.md"

// printed is the maximum number of rows of a table of losses on a terminal; the file has all rows.
const printed = 12

// Summarise writes the summary of a folder whose subfolders hold results: the rows where Granary loses,
// then the best allocators for each goal, the reports, and the remarks. The tables are printed on out, too.
func Summarise(dir string, out io.Writer) error {
	all, err := result.ReadRaw(dir)
	if err != nil || len(all) == 0 {
		return err
	}
	suite, err := result.ReadSuite(dir)
	if err != nil {
		return err
	}
	width, _ := term.Width(out)
	for _, t := range losing(all) {
		if more := len(t.Rows) - printed; more > 0 {
			t.Title, t.Rows = fmt.Sprintf("%s: the worst %d rows of %d", t.Title, printed, len(t.Rows)), t.Rows[:printed]
		}
		t.Terminal(out, width)
	}
	best(all, "").Terminal(out, width)
	if err := os.WriteFile(filepath.Join(dir, Summary), Text(all, suite, "", "%s/report.md"), 0o644); err != nil {
		return fmt.Errorf("write the summary: %w", err)
	}
	return nil
}

// Text returns the summary as Markdown. block is the text before the tables; link returns the file of a
// scenario.
func Text(all []*result.Results, suite result.Suite, block, link string) []byte {
	var b bytes.Buffer
	b.WriteString("# Results\n\n")
	facts(&b, all)
	for _, remark := range suite.Remarks {
		fmt.Fprintf(&b, "%s\n\n", remark)
	}
	b.WriteString(block)
	for _, t := range losing(all) {
		t.Markdown(&b)
	}
	best(all, link).Markdown(&b)
	remarks(&b, all)
	return b.Bytes()
}

// remarks are those of every scenario; a remark of several scenarios appears once.
func remarks(b *bytes.Buffer, all []*result.Results) {
	var order []string
	who := map[string][]string{}
	for _, r := range all {
		var text bytes.Buffer
		Remarks(&text, r)
		for line := range strings.Lines(text.String()) {
			line = strings.TrimPrefix(strings.TrimSpace(line), "Note: ")
			if who[line] == nil {
				order = append(order, line)
			}
			who[line] = append(who[line], r.Scenario)
		}
	}
	if len(order) > 0 {
		b.WriteString("### Remarks\n\n")
	}
	for _, line := range order {
		fmt.Fprintf(b, "- %s: %s\n", strings.Join(who[line], ", "), line)
	}
}

func facts(b *bytes.Buffer, all []*result.Results) {
	m := all[0].Machine
	seconds, others, stolen, ran := 0.0, 0.0, 0.0, 0.0
	for _, r := range all {
		seconds += r.Seconds
		for _, run := range r.Runs {
			others, stolen, ran = others+run.OthersCPU, stolen+run.Stolen, ran+run.Seconds
		}
	}
	fmt.Fprintf(b, "%s: %s in %v with granary %s, on %s, %d CPUs, %.1f GiB, %s, Linux %s, huge pages %s.",
		all[0].Started.UTC().Format("2 January 2006"), term.Counted(len(all), "scenario"), time.Duration(seconds*float64(time.Second)).Round(time.Second),
		all[0].Version, m.CPU, m.CPUs, float64(m.MemoryBytes)/(1<<30), m.System, m.Kernel, m.HugePages)
	if ran > 0 {
		fmt.Fprintf(b, " Other processes took %.1f %% of one CPU meanwhile, the hypervisor %.1f %%.", 100*others/ran, 100*stolen/ran)
	}
	b.WriteString("\n\n")
}

// losing are the tables of all rows where Granary loses, whatever the scenario, the worst first.
func losing(all []*result.Results) []Table {
	shown := Table{Title: LosingTitle}
	behind := Table{Title: BehindTitle}
	type found struct {
		cells []string
		cost  float64
	}
	var out []Table
	for i, t := range []*Table{&shown, &behind} {
		t.Header = []string{"scenario", "row", "Granary", "best peer", "who", "worse by"}
		var rows []found
		for _, r := range all {
			losses, single := Losing(r)
			if i == 1 {
				losses = single
			}
			for _, l := range losses {
				rows = append(rows, found{[]string{r.Scenario, l.Row, l.Granary, l.Best, l.Who, l.By}, l.Cost})
			}
		}
		slices.SortStableFunc(rows, func(x, y found) int { return cmp.Compare(y.cost, x.cost) })
		for _, row := range rows {
			t.Rows = append(t.Rows, row.cells)
		}
		if len(rows) > 0 {
			out = append(out, *t)
		}
	}
	return out
}

// best is the table of the best allocators for each goal; link, if any, is the file of a scenario.
func best(all []*result.Results, link string) Table {
	t := Table{Title: "Best allocators for each goal (bold: the best; then those not statistically different from it)", Header: []string{"scenario", "rounds"}}
	for _, g := range Goals {
		t.Header = append(t.Header, g.Title)
	}
	for _, r := range all {
		row := []string{r.Scenario, strconv.Itoa(r.Rounds)}
		if link != "" {
			row[0] = fmt.Sprintf("[%s](%s)", r.Scenario, fmt.Sprintf(link, r.Scenario))
		}
		for _, g := range Goals {
			row = append(row, leaders(r, g))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// leaders are the best allocator for a goal, and those without a shown difference from it.
func leaders(r *result.Results, g Goal) string {
	v, ok := Judge(r, g)
	if !ok {
		return "-"
	}
	if len(v.Standings) < 2 || v.Standings[1].Missing > 0 {
		return "- (no other allocator was measured)"
	}
	if r.Rounds < 2 {
		return v.Standings[0].Allocator.Name + " (one round)"
	}
	out := []string{"**" + v.Standings[0].Allocator.Name + "**"}
	for _, s := range v.Standings[1:] {
		if s.Missing == 0 && !s.ToBest.Differs() {
			out = append(out, s.Allocator.Name)
		}
	}
	return strings.Join(out, ", ")
}
