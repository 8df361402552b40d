package report

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/granary-allocator/granary/tool/internal/allocators"
	"github.com/granary-allocator/granary/tool/internal/bench/result"
)

// measured are results of two allocators; each row has a value of both, the same in every round.
func measured(rounds int, rows []result.Row, values [][2]float64) *result.Results {
	r := &result.Results{Rounds: rounds, Rows: rows, Allocators: []allocators.Allocator{{Name: "glibc"}, {Name: "granary"}}}
	for round := range rounds {
		for i, c := range r.Allocators {
			var s result.Sample
			for j, row := range rows {
				s.Set(row.Phase, row.Metric, values[j][i]*(1+0.001*float64(round)))
			}
			r.Add(c.Name, round, s)
		}
	}
	return r
}

func TestThePageBeginsWithTheWidestRowOfEachGoalInTurn(t *testing.T) {
	lower := func(phase, metric, unit string) result.Row {
		return result.Row{Phase: phase, Metric: metric, Unit: unit, Better: result.Lower}
	}
	r := measured(3, []result.Row{
		lower("a", "RSS", "bytes"), lower("b", "RSS", "bytes"), lower("b", "peak RSS", "bytes"), lower("c", "RSS", "bytes"),
		lower("a", "p99", "ms"), lower("b", "p99", "ms"),
		{Phase: "a", Metric: "throughput", Unit: "1/s", Better: result.Higher}, {Phase: "b", Metric: "kept", Unit: "bytes"},
	}, [][2]float64{{10, 11}, {40, 10}, {30, 10}, {10, 20}, {5, 5}, {1, 9}, {100, 50}, {1, 100}})
	goal, err := Find("rss")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, line := range leading(Compare(r, BestOfAll), goal) {
		got = append(got, line.Row.Phase+" "+line.Row.Metric)
	}
	if want := "b RSS, a throughput, b p99, c RSS, a RSS"; strings.Join(got, ", ") != want {
		t.Errorf("the rows are %s, not %s", strings.Join(got, ", "), want)
	}
}

func TestOnlyTheVerdictFiveRowsAndOnePlotAreNotFolded(t *testing.T) {
	goal, err := Find("throughput")
	if err != nil {
		t.Fatal(err)
	}
	var page bytes.Buffer
	if err := WritePage(&page, example(), goal, nil); err != nil {
		t.Fatal(err)
	}
	open := outside(page.String())
	if n := strings.Count(open, "<svg"); n != 1 {
		t.Errorf("%d plots are not folded", n)
	}
	if n := strings.Count(open, "<tr>"); n < 2 || n > 1+leadRows {
		t.Errorf("%d rows of tables are not folded", n)
	}
	for _, wanted := range []string{"Highest throughput: no difference shown", "A peer is better than Granary in 0 of", "serve: throughput"} {
		if !strings.Contains(open, wanted) {
			t.Errorf("%q is not at the start of the page:\n%s", wanted, open)
		}
	}
	for _, allocator := range example().Allocators { // a narrow screen shows no head of the table
		if cells, rows := strings.Count(open, `data-name="`+allocator.Name+`"`), strings.Count(open, "<tr>")-1; cells != rows {
			t.Errorf("%d of %d cells of %s name it", cells, rows, allocator.Name)
		}
	}
	for _, folded := range []string{"Where Granary loses", "Advice for other goals", "Ratios", "All rows", "Allocators and settings"} {
		if strings.Contains(open, folded) || !strings.Contains(page.String(), "<summary>"+folded) {
			t.Errorf("%q is not folded", folded)
		}
	}
}

var fold = regexp.MustCompile(`</?details[^>]*>`)

// outside is the body of a page without its folded parts.
func outside(page string) string {
	_, body, _ := strings.Cut(page, "<body>")
	var out strings.Builder
	depth, from := 0, 0
	for _, at := range fold.FindAllStringIndex(body, -1) {
		if depth == 0 {
			out.WriteString(body[from:at[0]])
		}
		if body[at[0]+1] == '/' {
			depth--
		} else {
			depth++
		}
		from = at[1]
	}
	return out.String() + body[from:]
}
