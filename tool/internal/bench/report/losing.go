package report

import (
	"math"
	"slices"

	"github.com/granary-allocator/granary/tool/internal/allocators"
	"github.com/granary-allocator/granary/tool/internal/bench/result"
	"github.com/granary-allocator/granary/tool/internal/inspect"
)

// A Loss is a row in which a peer is ahead of Granary.
type Loss struct {
	Row, Ours, Best, Who, By string
	Cost                     float64
}

// HasOurs is true of results that hold Granary against somebody.
func HasOurs(r *result.Results) bool {
	peer := func(c allocators.Contender) bool { return !c.Ours() }
	ours := func(c allocators.Contender) bool { return c.Name == inspect.Ours }
	return slices.ContainsFunc(r.Contenders, ours) && slices.ContainsFunc(r.Contenders, peer)
}

// tolerated is how far a row of a single round may be behind and not be listed.
const tolerated = 1.05

// Losing are the rows in which the rounds show a difference to a better peer, the worst first; and those that
// are behind and were measured under both in one round only, which shows no difference yet.
func Losing(r *result.Results) (shown, behind []Loss) {
	for _, line := range Compare(r, BestPeer) {
		reference := slices.IndexFunc(line.Cells, func(c Cell) bool { return c.Reference })
		for i, c := range line.Cells {
			if reference < 0 || r.Contenders[i].Name != inspect.Ours || c.Rounds == 0 || c.Cost <= 1 {
				continue
			}
			loss := Loss{
				line.Row.Phase + ": " + Label(line.Row), Number(c.Median, line.Row.Unit),
				Number(line.Cells[reference].Median, line.Row.Unit), r.Contenders[reference].Name, "×" + Number(c.Cost, ""), c.Cost,
			}
			switch {
			case c.Comparison.Differs():
				shown = append(shown, loss)
			case c.Comparison.Rounds == 1 && c.Cost > tolerated:
				behind = append(behind, loss)
			}
		}
	}
	for _, list := range [][]Loss{shown, behind} {
		slices.SortStableFunc(list, func(a, b Loss) int { return int(math.Copysign(1, b.Cost-a.Cost)) })
	}
	return shown, behind
}

// Label is a row's metric with its unit.
func Label(r result.Row) string {
	if unit := Unit(r.Unit); unit != "" && unit != "count" && unit != "ratio" {
		return r.Metric + ", " + unit
	}
	return r.Metric
}

// The titles of the tables of Losing, and what is said where there is nothing to list.
const (
	LosingTitle  = "Where Granary loses"
	BehindTitle  = "Where Granary was behind in the one round that measured both, which shows no difference yet"
	LosesNowhere = "The rounds show no row in which Granary loses."
)

// Losses are the tables of Losing, to be put first; none where Granary was not measured, or alone.
func Losses(r *result.Results) []Table {
	if !HasOurs(r) {
		return nil
	}
	shown, behind := Losing(r)
	return append(lossTable(LosingTitle, shown), lossTable(BehindTitle, behind)...)
}

func lossTable(title string, losses []Loss) []Table {
	if len(losses) == 0 {
		return nil
	}
	t := Table{Title: title, Header: []string{"row", "Granary", "best peer", "who", "worse by"}}
	for _, l := range losses {
		t.Rows = append(t.Rows, []string{l.Row, l.Ours, l.Best, l.Who, l.By})
	}
	return []Table{t}
}
