package runner

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/granary-allocator/granary/tool/internal/bench/measure"
	"github.com/granary-allocator/granary/tool/internal/bench/report"
	"github.com/granary-allocator/granary/tool/internal/bench/result"
	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/term"
)

// A tunable is a value of an option that may serve a goal. A mistake is one that people make: it is
// measured to show its price, and never proposed.
type tunable struct {
	allocator string // an allocator whose name contains it has the option
	goals     []string
	option    string
	value     string
	mistake   string
}

// tunables are the few options that matter, by allocator. Each has at most some values: the search is
// one option at a time, then the helpful ones together.
var tunables = []tunable{
	{"granary", []string{"rss"}, "dirty_decay_ms", "0", ""},
	{"granary", []string{"rss"}, "dirty_decay_ms", "100", ""},
	{"granary", []string{"throughput", "cpu", "p99"}, "dirty_decay_ms", "10000", ""},
	{"granary", []string{"rss"}, "cache_bytes", "262144", ""},
	{"granary", []string{"throughput", "cpu", "p99"}, "cache_bytes", "16777216", ""},
	{"granary", []string{"rss", "p99"}, "huge_pages", "never", ""},
	{"granary", []string{"throughput", "cpu"}, "huge_pages", "always", ""},
	{"granary", nil, "cache", "false", "no caches"},
	{"jemalloc", nil, "background_thread", "true", ""},
	{"jemalloc", []string{"rss"}, "dirty_decay_ms", "1000", ""},
	{"jemalloc", []string{"throughput", "cpu", "p99"}, "dirty_decay_ms", "30000", ""},
	{"jemalloc", []string{"throughput", "cpu"}, "metadata_thp", "auto", ""},
	{"jemalloc", nil, "narenas", "1", "too few arenas"},
	{"jemalloc", nil, "lg_tcache_max", "22", "too large a cache"},
	{"glibc", nil, "MALLOC_ARENA_MAX", "2", ""},
	{"glibc", []string{"rss"}, "MALLOC_TRIM_THRESHOLD_", "131072", ""},
	{"glibc", []string{"throughput", "cpu", "p99"}, "MALLOC_TOP_PAD_", "67108864", ""},
	{"glibc", nil, "MALLOC_ARENA_MAX", "1", "too few arenas"},
	{"mimalloc", []string{"rss"}, "purge_delay", "0", ""},
	{"mimalloc", []string{"throughput", "cpu", "p99"}, "purge_delay", "1000", ""},
	{"mimalloc", []string{"throughput", "cpu"}, "allow_large_os_pages", "1", ""},
}

// candidates are the settings of an allocator to try for a goal.
func candidates(allocator, goal string) []tunable {
	var out []tunable
	for _, t := range tunables {
		if strings.Contains(allocator, t.allocator) && (t.goals == nil || slices.Contains(t.goals, goal)) {
			out = append(out, t)
		}
	}
	return out
}

func (t tunable) setting() string { return t.option + "=" + t.value }

func (t tunable) variant(base string) string { return base + ":" + t.setting() }

// tune measures each setting beside the plain allocator, then the helpful ones together.
func (s Scenario) tune(ctx context.Context, env cli.Env, in Invocation) error {
	goal, err := report.Find(in.Goal)
	if err != nil {
		return cli.Usagef("--goal: %w", err)
	}
	base, tried := in.tune, candidates(in.tune, in.Goal)
	if len(tried) == 0 {
		return cli.Usagef("it is not known which settings of %s matter; compare some yourself: --allocators %s,%s:SETTING=VALUE", base, base, base)
	}
	names := []string{base}
	for _, t := range tried {
		names = append(names, t.variant(base))
	}
	in.budget /= 2 // one half for each step
	results, err := s.step(ctx, env, in, names, "settings")
	if results == nil || len(results.Observations) == 0 {
		return err
	}
	effects(env.Stdout, results, base, tried)
	if err != nil {
		return err
	}
	chosen := improving(results, goal, base, tried)
	if len(chosen) == 0 {
		_, err := fmt.Fprintf(env.Stdout, "%s: no setting is shown to serve this goal better than %s as it is.\n", goal.Title, base)
		return err
	}
	best := base + ":" + strings.Join(chosen, "+")
	if len(chosen) > 1 {
		if results, err = s.step(ctx, env, in, []string{base, best}, "together"); err != nil {
			return err
		}
	}
	return conclude(env.Stdout, results, goal, best, base, s.Name)
}

// step measures allocators; with --out into a separate folder.
func (s Scenario) step(ctx context.Context, env cli.Env, in Invocation, selected []string, folder string) (*result.Results, error) {
	in.Allocators, in.Variants = measure.Names(strings.Join(selected, ",")), false
	if in.Out != "" {
		in.Out = filepath.Join(in.Out, folder)
	}
	return s.run(ctx, env, in)
}

// effects prints the effect of each setting on every goal.
func effects(out io.Writer, r *result.Results, base string, tried []tunable) {
	t := report.Table{Title: "The effect of each setting against " + base + " as it is: cost of the goal, 1.00 is equal, less is better", Header: []string{"setting"}}
	for _, g := range report.Goals {
		t.Header = append(t.Header, g.Name)
	}
	t.Header = append(t.Header, "")
	for _, candidate := range tried {
		row := []string{candidate.setting()}
		costs, serves := false, false
		for _, g := range report.Goals {
			text := "-"
			if c, ok := report.Effect(r, g, candidate.variant(base), base); ok {
				if text = fmt.Sprintf("%.3f", c.Ratio); !c.Differs() {
					text = "≈" + text
				}
				costs, serves = costs || c.Differs() && c.Ratio > 1, serves || c.Differs() && c.Ratio < 1
			}
			row = append(row, text)
		}
		t.Rows = append(t.Rows, append(row, candidate.note(costs, serves)))
	}
	width, _ := term.Width(out)
	t.Terminal(out, width)
}

// note returns a remark on a known mistake: whether these rounds show its cost. It is empty for other
// options.
func (t tunable) note(costs, serves bool) string {
	switch {
	case t.mistake == "":
		return ""
	case costs:
		return "a mistake: " + t.mistake
	case serves:
		return "known as a mistake: " + t.mistake + "; no cost is shown here, and it is not proposed"
	}
	return "known as a mistake: " + t.mistake + "; no cost is shown here"
}

// improving are the settings that are shown to serve the goal, the best value of each option.
func improving(r *result.Results, goal report.Goal, base string, tried []tunable) []string {
	best := map[string]float64{}
	values := map[string]tunable{}
	var order []string
	for _, t := range tried {
		c, ok := report.Effect(r, goal, t.variant(base), base)
		if !ok || t.mistake != "" || !c.Differs() || c.Ratio >= 1 {
			continue
		}
		if old, known := best[t.option]; known && old <= c.Ratio {
			continue
		} else if !known {
			order = append(order, t.option)
		}
		best[t.option], values[t.option] = c.Ratio, t
	}
	var out []string
	for _, option := range order {
		out = append(out, values[option].setting())
	}
	return out
}

// conclude prints the result of the search and the lines that deploy it.
func conclude(out io.Writer, r *result.Results, goal report.Goal, best, base, service string) error {
	c, ok := report.Effect(r, goal, best, base)
	if !ok || !c.Differs() || c.Ratio >= 1 {
		_, err := fmt.Fprintf(out, "%s: the settings that helped alone are not shown to help together; keep %s as it is.\n", goal.Title, base)
		return err
	}
	fmt.Fprintf(out, "%s: %s needs %.1f %% less %s than %s as it is (98 %% interval %+.1f to %+.1f %%).\n",
		goal.Title, best, (1-c.Ratio)*100, goal.Word, base, (c.Interval.Low-1)*100, (c.Interval.High-1)*100)
	for _, allocator := range r.Allocators {
		if allocator.Name != best {
			continue
		}
		for _, recipe := range report.Deploy(allocator, service) {
			fmt.Fprintf(out, "\n%s:\n%s\n", recipe.Where, recipe.Lines)
		}
	}
	return nil
}
