package measure

import (
	"math"
	"time"

	"github.com/granary-allocator/granary/tool/internal/bench/result"
)

// A grid counts latencies by the time at which the requests were due: coarse in both directions, as a
// picture shows it.
type grid struct {
	interval time.Duration
	counts   [][levels]uint32
}

// A grid has this many intervals, and this many levels of latency, from one microsecond to ten minutes.
const (
	intervals = 50
	levels    = 9 * result.LevelsADecade
)

func newGrid(during time.Duration) grid {
	return grid{max(1, during/intervals), make([][levels]uint32, intervals)}
}

func (g *grid) record(due, latency time.Duration) {
	level := int(math.Floor(result.LevelsADecade * math.Log10(math.Max(1, latency.Seconds()*1e6))))
	g.counts[min(int(due/g.interval), intervals-1)][min(level, levels-1)]++
}

func (g *grid) merge(other grid) {
	for i := range g.counts {
		for level, count := range other.counts[i] {
			g.counts[i][level] += count
		}
	}
}

// buckets are those that are not empty; their bounds are in milliseconds.
func (g *grid) buckets() []result.Bucket {
	var out []result.Bucket
	for i := range g.counts {
		for level, count := range g.counts[i] {
			if count > 0 {
				out = append(out, result.Bucket{Interval: i, Bound: math.Pow(10, float64(level+1)/result.LevelsADecade-3), Count: uint64(count)})
			}
		}
	}
	return out
}
