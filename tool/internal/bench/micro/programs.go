// Package micro measures allocators with small programs of known access patterns. The programs, and
// the metrics of each, are data: a suite file.
package micro

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/granary-allocator/granary/tool/internal/bench/result"
	"github.com/granary-allocator/granary/tool/internal/preload"
)

// A Suite is a file of programs.
type Suite struct {
	Programs []Program `toml:"program"`
}

// A Program is one row of a suite: an executable, its arguments, and its metrics.
type Program struct {
	Name       string   `toml:"name"`
	Executable string   `toml:"program"` // like Name when empty
	Args       []string `toml:"args"`
	Quick      []string `toml:"quick"`
	Time       *bool    `toml:"time"` // false: its wall and CPU time are not compared
	RSS        *bool    `toml:"rss"`  // false: its peak RSS is not compared
	Metrics    []Metric `toml:"metric"`
}

// A Metric is a line `metric NAME VALUE UNIT` that a program prints.
type Metric struct {
	Name   string        `toml:"name"`
	Unit   string        `toml:"unit"`
	Better result.Better `toml:"better"`
}

// ReadSuite reads and checks a suite file.
func ReadSuite(path string) (Suite, error) {
	var s Suite
	if err := preload.ReadSuite(path, "suite", &s); err != nil {
		return s, err
	}
	if err := s.check(); err != nil {
		return s, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

func (s Suite) check() error {
	if len(s.Programs) == 0 {
		return errors.New("it has no [[program]]")
	}
	for i, p := range s.Programs {
		if p.Name == "" {
			return fmt.Errorf("program %d has no name", i+1)
		}
		if slices.ContainsFunc(s.Programs[:i], func(o Program) bool { return o.Name == p.Name }) {
			return fmt.Errorf("two programs are called %s", p.Name)
		}
		for _, m := range p.Metrics {
			if m.Better != result.Lower && m.Better != result.Higher && m.Better != result.Neutral {
				return fmt.Errorf("metric %s of %s: better is lower or higher, not %q", m.Name, p.Name, m.Better)
			}
		}
	}
	return nil
}

// Only keeps the programs whose name matches pattern.
func (s Suite) Only(pattern string) (Suite, error) {
	re, err := regexp.Compile(pattern)
	if err != nil {
		return s, fmt.Errorf("--only: %w", err)
	}
	s.Programs = slices.DeleteFunc(slices.Clone(s.Programs), func(p Program) bool { return !re.MatchString(p.Name) })
	if len(s.Programs) == 0 {
		return s, fmt.Errorf("--only %s matches no program of the suite", pattern)
	}
	return s, nil
}

// Names are the programs' names in order.
func (s Suite) Names() []string {
	var out []string
	for _, p := range s.Programs {
		out = append(out, p.Name)
	}
	return out
}

// Find is the program called name.
func (s Suite) Find(name string) Program {
	i := slices.IndexFunc(s.Programs, func(p Program) bool { return p.Name == name })
	return s.Programs[i]
}

// Rows are the metrics of the suite: those measured from outside first, then those that the programs
// print.
func (s Suite) Rows() []result.Row {
	var out []result.Row
	for _, p := range s.Programs {
		row := func(metric, unit string) {
			out = append(out, result.Row{Phase: p.Name, Metric: metric, Unit: unit, Better: result.Lower})
		}
		if given(p.Time) {
			row(result.MetricWall, "s")
			row(result.MetricCPU, "s")
		}
		if given(p.RSS) {
			row(result.MetricPeakRSS, "bytes")
		}
		row(result.MetricFaults, "count")
		for _, m := range p.Metrics {
			out = append(out, result.Row{Phase: p.Name, Metric: m.Name, Unit: m.Unit, Better: m.Better})
		}
	}
	return out
}

func given(flag *bool) bool { return flag == nil || *flag }

// Path is the executable in the folder of programs.
func (p Program) Path(dir string) (string, error) {
	name := p.Executable
	if name == "" {
		name = p.Name
	}
	path, err := filepath.Abs(filepath.Join(dir, name))
	if err != nil {
		return "", fmt.Errorf("the program of %s: %w", p.Name, err)
	}
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("the program of %s is not built (%s); build it with `make bench`, or name its folder with --programs", p.Name, path)
	}
	return path, nil
}

// built returns one error if none of the programs exists, instead of one for each program.
func (s Suite) built(dir string) error {
	var err error
	for _, p := range s.Programs {
		if _, err = p.Path(dir); err == nil {
			return nil
		}
	}
	return err
}

// Arguments are those of a quick or a full run.
func (p Program) Arguments(quick bool) []string {
	if quick {
		return p.Quick
	}
	return p.Args
}

var (
	metricLine = regexp.MustCompile(`(?m)^metric (\S+) (\S+)`)
	pointLine  = regexp.MustCompile(`(?m)^point (\S+) (\S+) (\S+)`)
)

// parseMetrics reads the lines that a program printed.
func parseMetrics(output string) map[string]string {
	out := map[string]string{}
	for _, match := range metricLine.FindAllStringSubmatch(strings.ReplaceAll(output, "\r", ""), -1) {
		out[match[1]] = match[2]
	}
	return out
}

// parseSeries reads what a program printed over time, lines `point NAME SECONDS BYTES`, in the order of the names.
func parseSeries(program, output string) ([]result.Series, error) {
	var out []result.Series
	for _, match := range pointLine.FindAllStringSubmatch(output, -1) {
		seconds, err1 := strconv.ParseFloat(match[2], 64)
		bytes, err2 := strconv.ParseFloat(match[3], 64)
		if err := errors.Join(err1, err2); err != nil {
			return nil, fmt.Errorf("%s over time, of %s: %w", match[1], program, err)
		}
		i := slices.IndexFunc(out, func(s result.Series) bool { return s.Metric == match[1] })
		if i < 0 {
			i = len(out)
			out = append(out, result.Series{Phase: program, Metric: match[1], Unit: "bytes"})
		}
		out[i].Points = append(out[i].Points, [2]float64{seconds, bytes})
	}
	return out, nil
}
