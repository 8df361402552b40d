package redis

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"granary/tool/internal/allocators"
	"granary/tool/internal/bench"
	"granary/tool/internal/procfs"
)

// Settings are the sizes of the scenario.
type Settings struct {
	Requests int           `json:"requests"` // of each redis-benchmark test
	Keys     int           `json:"keys"`     // over which they are spread
	Values   []int         `json:"values"`   // sizes written one after another
	Refill   int           `json:"refill"`   // the size written after three quarters are deleted
	Settle   time.Duration `json:"settle_ns"`
	Poll     time.Duration `json:"poll_ns"`
}

// Full and Quick are the two sizes of the scenario.
var (
	Full  = Settings{Requests: 300_000, Keys: 300_000, Values: []int{3, 100, 1000, 5000}, Refill: 3000, Settle: 2 * time.Second, Poll: 100 * time.Millisecond}
	Quick = Settings{Requests: 30_000, Keys: 30_000, Values: []int{3, 100, 1000, 5000}, Refill: 3000, Settle: 2 * time.Second, Poll: 100 * time.Millisecond}
)

// Names of the phases and metrics that several places must agree on.
const (
	phaseStart  = "start"
	phaseFlush  = "flushed"
	phaseWhole  = "whole run"
	metricRSS   = "RSS"
	metricUsed  = "used memory"
	metricRatio = "RSS / used"
)

// A visit is one contender's run through the scenario.
type visit struct {
	settings Settings
	tools    Tools
	environ  []string
	server   *Server
	sample   bench.Sample
	round    int
	tick     func(string)
	startRSS float64
	lastCPU  float64
}

// A phase is one part of the scenario: what it does, and the rows that it fills.
type phase struct {
	name string
	rows []bench.Row
	do   func(v *visit, ctx context.Context, name string) error
}

// phases lists the scenario in order; rows and work stand side by side.
func phases(s Settings) []phase {
	list := []phase{{phaseStart, rows(phaseStart, metricRSS, metricUsed), (*visit).begin}}
	for _, size := range s.Values {
		set, filled, get := fmt.Sprintf("SET %d B", size), fmt.Sprintf("filled, %d B", size), fmt.Sprintf("GET %d B", size)
		list = append(list,
			phase{set, loadRows(set), load("set", size)},
			phase{filled, rows(filled, metricRSS, metricUsed, metricRatio), fill(size)},
			phase{get, loadRows(get), load("get", size)})
	}
	deleted, refilled := "3/4 deleted", fmt.Sprintf("refilled, %d B", s.Refill)
	after := func(metric string) string { return fmt.Sprintf("%s after %v", metric, s.Settle) }
	return append(list,
		phase{deleted, append(rows(deleted, metricUsed), settledRows(deleted, after(metricRSS), after(metricRatio))...), (*visit).fall},
		phase{refilled, rows(refilled, metricRSS, metricUsed, metricRatio), (*visit).refill},
		phase{phaseFlush, settledRows(phaseFlush, after(metricRSS), after("RSS / start")), (*visit).flush},
		phase{phaseWhole, wholeRows(), (*visit).finish})
}

func rows(phase string, metrics ...string) []bench.Row {
	var out []bench.Row
	for _, m := range metrics {
		unit := "bytes"
		if m == metricRatio {
			unit = "ratio"
		}
		out = append(out, bench.Row{Phase: phase, Metric: m, Unit: unit, Better: bench.Lower})
	}
	return out
}

func settledRows(phase, rss, ratio string) []bench.Row {
	return []bench.Row{
		{Phase: phase, Metric: rss, Unit: "bytes", Better: bench.Lower},
		{Phase: phase, Metric: ratio, Unit: "ratio", Better: bench.Lower},
	}
}

func loadRows(phase string) []bench.Row {
	return []bench.Row{
		{Phase: phase, Metric: "throughput", Unit: "1/s", Better: bench.Higher},
		{Phase: phase, Metric: "p50", Unit: "ms", Better: bench.Lower},
		{Phase: phase, Metric: "p99", Unit: "ms", Better: bench.Lower},
		{Phase: phase, Metric: "p99.9", Unit: "ms", Better: bench.Lower},
		{Phase: phase, Metric: "server CPU", Unit: "s", Better: bench.Lower},
	}
}

func wholeRows() []bench.Row {
	return []bench.Row{
		{Phase: phaseWhole, Metric: "server CPU", Unit: "s", Better: bench.Lower},
		{Phase: phaseWhole, Metric: bench.MetricPeakRSS, Unit: "bytes", Better: bench.Lower},
		{Phase: phaseWhole, Metric: bench.MetricFaults, Unit: "count", Better: bench.Lower},
	}
}

// Rows are all rows of the scenario.
func Rows(s Settings) []bench.Row {
	var out []bench.Row
	for _, p := range phases(s) {
		out = append(out, p.rows...)
	}
	return out
}

// Parts is how often Measure ticks.
func Parts(s Settings) int { return len(phases(s)) }

// Measure takes one contender through the scenario on a server of its own.
func Measure(ctx context.Context, s Settings, tools Tools, proc procfs.FS, environ []string, c allocators.Contender, round int, tick func(string)) (bench.Sample, error) {
	server, err := Start(ctx, tools, proc, environ, c)
	if err != nil {
		return bench.Sample{}, err
	}
	defer server.Stop()
	v := &visit{settings: s, tools: tools, environ: environ, server: server, round: round, tick: tick}
	for _, p := range phases(s) {
		if err := p.do(v, ctx, p.name); err != nil {
			return bench.Sample{}, server.explain(err)
		}
		tick(p.name)
	}
	return v.sample, nil
}

func (v *visit) begin(ctx context.Context, phase string) error {
	m, err := v.memory(ctx, phase)
	v.startRSS = m
	return err
}

// memory records what the server occupies and what it uses.
func (v *visit) memory(ctx context.Context, phase string) (rss float64, err error) {
	used, err := v.server.UsedMemory(ctx)
	if err != nil {
		return 0, err
	}
	if rss, err = v.rss(); err != nil {
		return 0, err
	}
	v.sample.Set(phase, metricRSS, rss)
	v.sample.Set(phase, metricUsed, used)
	v.sample.Set(phase, metricRatio, rss/used)
	return rss, nil
}

func (v *visit) rss() (float64, error) {
	m, err := v.server.proc.Memory(v.server.process.PID())
	return float64(m.RSS), err
}

// cpu is the server's CPU time since the last call.
func (v *visit) cpu() (float64, error) {
	st, err := v.server.proc.Stat(v.server.process.PID())
	spent := st.CPUSeconds() - v.lastCPU
	v.lastCPU = st.CPUSeconds()
	return spent, err
}

func load(test string, size int) func(*visit, context.Context, string) error {
	return func(v *visit, ctx context.Context, phase string) error {
		if _, err := v.cpu(); err != nil {
			return err
		}
		l, err := v.server.Load(ctx, v.tools, v.environ, test, v.settings.Requests, v.settings.Keys, size)
		if err != nil {
			return err
		}
		spent, err := v.cpu()
		v.sample.Set(phase, "throughput", l.Throughput)
		v.sample.Set(phase, "p50", l.P50)
		v.sample.Set(phase, "p99", l.P99)
		v.sample.Set(phase, "p99.9", l.P999)
		v.sample.Set(phase, "server CPU", spent)
		return err
	}
}

// fill writes the keys that the random ones of redis-benchmark left out or left at another size, so
// that the live bytes are the same for every contender.
func fill(size int) func(*visit, context.Context, string) error {
	return func(v *visit, ctx context.Context, phase string) error {
		if err := v.server.Put(ctx, v.shuffled(uint64(size)), size); err != nil {
			return err
		}
		_, err := v.memory(ctx, phase)
		return err
	}
}

// shuffled is every key in a random order that depends on the round alone, not on the contender.
func (v *visit) shuffled(salt uint64) []int {
	return rand.New(rand.NewPCG(uint64(v.round)+1, salt)).Perm(v.settings.Keys)
}

const fallSalt = 1 << 32

func (v *visit) fallen() []int { return v.shuffled(fallSalt)[:v.settings.Keys*3/4] }

func (v *visit) fall(ctx context.Context, phase string) error {
	if err := v.server.Delete(ctx, v.fallen()); err != nil {
		return err
	}
	used, err := v.server.UsedMemory(ctx)
	if err != nil {
		return err
	}
	rss, err := v.settle(ctx, phase)
	v.sample.Set(phase, metricUsed, used)
	v.sample.Set(phase, fmt.Sprintf("%s after %v", metricRatio, v.settings.Settle), rss/used)
	return err
}

func (v *visit) refill(ctx context.Context, phase string) error {
	if err := v.server.Put(ctx, v.fallen(), v.settings.Refill); err != nil {
		return err
	}
	_, err := v.memory(ctx, phase)
	return err
}

func (v *visit) flush(ctx context.Context, phase string) error {
	if err := v.server.Flush(ctx); err != nil {
		return err
	}
	rss, err := v.settle(ctx, phase)
	v.sample.Set(phase, fmt.Sprintf("RSS / start after %v", v.settings.Settle), rss/v.startRSS)
	return err
}

// settle watches the resident size for a while without a word to the server, and records it.
func (v *visit) settle(ctx context.Context, phase string) (rss float64, err error) {
	series := bench.Series{Phase: phase, Metric: metricRSS, Unit: "bytes"}
	start := time.Now()
	for {
		at := time.Since(start)
		if rss, err = v.rss(); err != nil {
			return 0, err
		}
		series.Points = append(series.Points, [2]float64{at.Seconds(), rss})
		if at >= v.settings.Settle {
			break
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(min(v.settings.Poll, v.settings.Settle-at)):
		}
	}
	v.sample.Trace(series)
	v.sample.Set(phase, fmt.Sprintf("%s after %v", metricRSS, v.settings.Settle), rss)
	return rss, nil
}

func (v *visit) finish(_ context.Context, phase string) error {
	pid := v.server.process.PID()
	st, err := v.server.proc.Stat(pid)
	if err != nil {
		return err
	}
	m, err := v.server.proc.Memory(pid)
	v.sample.Set(phase, "server CPU", st.CPUSeconds())
	v.sample.Set(phase, bench.MetricPeakRSS, float64(m.Peak))
	v.sample.Set(phase, bench.MetricFaults, float64(st.MinorFaults+st.MajorFaults))
	return err
}
