package scenarios

import (
	"context"
	"regexp"
	"strconv"

	"github.com/granary-allocator/granary/tool/internal/bench/measure"
	"github.com/granary-allocator/granary/tool/internal/bench/result"
	"github.com/granary-allocator/granary/tool/internal/bench/runner"
)

var soak = runner.Scenario{
	Name:    "soak",
	Summary: "compare allocators over days of a service's load, simulated in minutes",
	About: "Sizes drift from day to day, most objects die young and some live for days, load rises and falls with the hour. " +
		"Shown are RSS for each live byte at noon and by night, and the ratio of the last night to the first.",
	Rounds: measure.Rounds{Full: 5, Quick: 3},
	Needs:  []runner.Need{{Program: "soak"}},
	Params: []runner.Param{
		{Name: "days", Kind: runner.Number, Full: "7", Quick: "2", Long: "28", Least: 2, Help: "number of simulated days"},
		{Name: "seconds", Kind: runner.Number, Full: "10", Quick: "4", Long: "60", Least: 1, Help: "seconds that a simulated day takes"},
		{Name: "mib", Kind: runner.Number, Full: "200", Quick: "50", Long: "500", Least: 1, Help: "MiB that are live at noon"},
		{Name: "threads", Kind: runner.Number, Full: "4", Least: 1, Help: "threads of the service"},
	},
	Phases: func(values runner.Values) []runner.Phase {
		rows := []result.Row{
			runner.LowerRow("RSS/live at noon", "ratio"), runner.LowerRow("RSS/live by night", "ratio"),
			runner.LowerRow("drift of RSS/live by night", "ratio"), runner.LowerRow("RSS 2 s after the end", "bytes"),
		}
		return []runner.Phase{{Name: values["days"] + " days", Rows: append(rows, runner.ProgramRows()...), Do: soakDays}}
	},
}

var pointLine = regexp.MustCompile(`(?m)^point (\S+) (\d+) (\d+)$`)

func soakDays(ctx context.Context, v *runner.Visit) error {
	var args []string
	for _, name := range []string{"days", "seconds", "mib", "threads"} {
		args = append(args, name+"="+v.Values[name])
	}
	out, err := v.Program(ctx, runner.ServerSpec{Name: "soak", Path: v.Paths["soak"], Args: args})
	if err != nil {
		return err
	}
	points := map[string][][2]float64{}
	for _, match := range pointLine.FindAllStringSubmatch(out, -1) {
		day, _ := strconv.ParseFloat(match[2], 64) // the pattern holds digits only
		bytes, _ := strconv.ParseFloat(match[3], 64)
		points[match[1]] = append(points[match[1]], [2]float64{day, bytes})
	}
	for _, name := range []string{"RSS_noon", "live_noon", "RSS_night", "live_night"} {
		v.Trace(name+", by day", "bytes", points[name])
	}
	return nil
}
