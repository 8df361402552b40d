package trace

import (
	"slices"
	"time"
)

// What the events of a run cost, in CPU time: orders of magnitude, which decide between settings and predict nothing.
const (
	priceOfMiss   = 60 * time.Nanosecond  // a batch from the depot or the slabs
	priceOfFault  = 700 * time.Nanosecond // of a small page
	priceOfHuge   = 120 * time.Microsecond
	priceOfPurged = 90 * time.Nanosecond // for each page
	priceOfCall   = 900 * time.Nanosecond
)

// Cost is an estimate of the CPU time that misses, page faults, purges and system calls take; hits are the same in all settings.
func (r Result) Cost() time.Duration {
	return time.Duration(r.Misses+r.Overflows)*priceOfMiss + time.Duration(r.Faults)*priceOfFault + time.Duration(r.HugeFaults)*priceOfHuge +
		time.Duration(r.Purged)*priceOfPurged + time.Duration(r.Calls())*priceOfCall
}

// goals are the figures that a goal minimises: the first one, and the second one among settings that are level.
var goals = map[string][2]func(Result) float64{
	"rss":   {meanRSS, cost},
	"speed": {cost, meanRSS},
}

func meanRSS(r Result) float64 { return float64(r.MeanRSS) }
func cost(r Result) float64    { return float64(r.Cost()) }

// level is how much worse than the best a setting may be to be as good.
const level = 1.02

// best is the setting for a goal, by its index.
func best(results []Result, goal string) int {
	figures := goals[goal]
	least := figures[0](slices.MinFunc(results, by(figures[0])))
	chosen := -1
	for i, r := range results {
		if figures[0](r) <= least*level && (chosen < 0 || figures[1](r) < figures[1](results[chosen])) {
			chosen = i
		}
	}
	return chosen
}

func by(figure func(Result) float64) func(a, b Result) int {
	return func(a, b Result) int {
		switch x, y := figure(a), figure(b); {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	}
}
