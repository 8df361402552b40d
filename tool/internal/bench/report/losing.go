package report

import (
	"fmt"
	"math"
	"slices"

	"github.com/granary-allocator/granary/tool/internal/allocators"
	"github.com/granary-allocator/granary/tool/internal/bench/result"
	"github.com/granary-allocator/granary/tool/internal/inspect"
)

// A Loss is a row in which a peer is ahead of Granary.
type Loss struct {
	Row, Granary, Best, Who, By string
	Cost                        float64
}

// HasGranaryAndPeer reports whether the results compare Granary with a peer.
func HasGranaryAndPeer(r *result.Results) bool {
	peer := func(c allocators.Allocator) bool { return !c.IsGranary() }
	granary := func(c allocators.Allocator) bool { return c.Name == inspect.Granary }
	return slices.ContainsFunc(r.Allocators, granary) && slices.ContainsFunc(r.Allocators, peer)
}

// tolerated is the largest ratio at which a row of a single round is not listed as a loss.
const tolerated = 1.05

// Losing returns two lists, the worst rows first: the rows in which the rounds show that a peer is better
// than Granary, and the rows in which Granary is worse in the only round of both, too few to show a
// difference.
func Losing(r *result.Results) (shown, behind []Loss) {
	for _, line := range Compare(r, BestPeer) {
		reference := slices.IndexFunc(line.Cells, func(c Cell) bool { return c.Reference })
		for i, c := range line.Cells {
			if reference < 0 || r.Allocators[i].Name != inspect.Granary || c.Rounds == 0 || c.Cost <= 1 {
				continue
			}
			loss := Loss{
				line.Row.Phase + ": " + Label(line.Row), Number(c.Median, line.Row.Unit),
				Number(line.Cells[reference].Median, line.Row.Unit), r.Allocators[reference].Name, worseBy(c.Cost), c.Cost,
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

// worseBy shows that a small difference is one.
func worseBy(cost float64) string {
	if cost < 1.005 {
		return fmt.Sprintf("×%.4f", cost)
	}
	return "×" + Number(cost, "")
}

// Label is a row's metric with its unit.
func Label(r result.Row) string {
	if unit := Unit(r.Unit); unit != "" && unit != "count" && unit != "ratio" {
		return r.Metric + ", " + unit
	}
	return r.Metric
}

// The titles of the tables of Losing, and the texts for empty tables.
const (
	LosingTitle  = "Where Granary loses"
	BehindTitle  = "Where Granary was behind in the one round that measured both, which shows no difference yet"
	LosesNowhere = "The rounds show no row in which Granary loses."
)

// Losses returns the tables of Losing for the start of a report. It returns none if the results do not
// contain Granary and a peer.
func Losses(r *result.Results) []Table {
	if !HasGranaryAndPeer(r) {
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
		t.Rows = append(t.Rows, []string{l.Row, l.Granary, l.Best, l.Who, l.By})
	}
	return []Table{t}
}
