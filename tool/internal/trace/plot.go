package trace

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/granary-allocator/granary/tool/internal/bench/report"
	"github.com/granary-allocator/granary/tool/internal/term"
)

// drawn writes a plot to a file, if the user named one.
func drawn(path string, f report.Plot) error {
	if path == "" {
		return nil
	}
	if len(f.Lines) == 0 {
		return errors.New("the trace holds nothing to draw")
	}
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("draw the trace: %w", err)
	}
	return errors.Join(f.SVG(file), file.Close())
}

func memoryPlot(b Bound) report.Plot {
	f := report.Plot{Kind: report.Time, Name: "memory", Title: "Memory that an allocator needs at least", XLabel: "s", YLabel: "MiB"}
	for _, course := range []struct {
		name string
		of   Course
	}{{"live bytes", b.Live}, {"placed by known ends", b.Placed}} {
		line := report.Series{Name: course.name}
		for i, bytes := range course.of.Points {
			y := float64(bytes) / (1 << 20)
			line.Points = append(line.Points, report.Point{X: (time.Duration(i) * course.of.step).Seconds(), Y: y, Low: y, High: y})
		}
		if len(line.Points) > 1 {
			f.Lines = append(f.Lines, line)
		}
	}
	return f
}

// drawnSizes is how many ranges of sizes are drawn: those with the most objects.
const drawnSizes = 6

func lifetimePlot(s Summary) report.Plot {
	f := report.Plot{Kind: report.Curve, Name: "lifetimes", Title: "Objects that have ended, by size", XLabel: "lifetime, s", YLabel: "% of the ended objects", LogX: true}
	groups := slices.DeleteFunc(slices.Clone(s.ByDoubled), func(g Group) bool { return g.Objects == g.AtEnd })
	slices.SortStableFunc(groups, func(a, b Group) int { return cmp.Compare(b.Objects, a.Objects) })
	groups = groups[:min(drawnSizes, len(groups))]
	slices.SortFunc(groups, func(a, b Group) int { return cmp.Compare(a.Size, b.Size) })
	for _, g := range groups {
		f.Lines = append(f.Lines, report.Series{Name: "up to " + term.Bytes(g.Size), Points: shares(g)})
	}
	return f
}

// shares are how many percent of a group's ended objects lived at most so long, in seconds.
func shares(g Group) []report.Point {
	ended := uint64(0)
	for _, n := range g.lives {
		ended += n
	}
	var out []report.Point
	passed := uint64(0)
	for i, n := range g.lives {
		passed += n
		if passed == 0 {
			continue
		}
		y := 100 * float64(passed) / float64(ended)
		out = append(out, report.Point{X: (time.Duration(1) << i).Seconds(), Y: y, Low: y, High: y})
		if passed == ended {
			break
		}
	}
	return out
}
