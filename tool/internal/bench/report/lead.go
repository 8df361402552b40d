package report

// leadRows is the number of rows at the start of a page.
const leadRows = 5

// A place is a phase from which a goal has its row already.
type place struct{ goal, phase string }

// leading are the rows at the start of a page: from each goal in turn, the chosen one first, the row in
// which the allocators differ most. A goal has no two rows of a phase, as these mostly say the same.
func leading(lines []Line, goal Goal) []Line {
	goals := []Goal{goal}
	for _, g := range Goals {
		if g.Name != goal.Name {
			goals = append(goals, g)
		}
	}
	var out []Line
	taken := map[place]bool{}
	for found := true; found; {
		found = false
		for _, g := range goals {
			if i := widest(lines, g, taken); i >= 0 && len(out) < leadRows {
				taken[place{g.Name, lines[i].Row.Phase}], found = true, true
				out = append(out, lines[i])
			}
		}
	}
	return out
}

// widest is the row of a goal with the largest difference between two allocators, -1 without any. If a row
// has several rounds, only differences that these show are considered.
func widest(lines []Line, goal Goal, taken map[place]bool) int {
	best, most := -1, 1.0
	for i, line := range lines {
		if taken[place{goal.Name, line.Row.Phase}] || !goal.Takes(line.Row) {
			continue
		}
		for _, c := range line.Cells {
			if (c.Comparison.Rounds == 1 || c.Comparison.Differs()) && c.Cost > most {
				best, most = i, c.Cost
			}
		}
	}
	return best
}
