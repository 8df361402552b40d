package result

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/granary-allocator/granary/tool/internal/allocators"
)

// The published form of a result set is small enough for a source tree: a CSV file for each scenario with the
// value of every round, and one file with the facts that all of them share. Time series stay in the raw form.
const (
	setFile   = "set.json"
	setSchema = "granary-results/1"
	noValue   = "-"
)

// A set is the content of the file of shared facts.
type set struct {
	Schema     string                 `json:"schema"`
	Machine    Machine                `json:"machine"`
	Allocators []allocators.Allocator `json:"allocators"`
	Scenarios  []setScenario          `json:"scenarios"`
}

type setScenario struct {
	Name     string         `json:"name"`
	Version  string         `json:"version"`
	Started  time.Time      `json:"started"`
	Seconds  float64        `json:"seconds"`
	Rounds   int            `json:"rounds"`
	Settings map[string]any `json:"settings,omitempty"`
	Failures []Failure      `json:"failures,omitempty"`
	Notes    []string       `json:"notes,omitempty"`
}

// fixed are the columns of a scenario's CSV file before those of the allocators.
var fixed = []string{"phase", "metric", "unit", "better"}

// Publish writes results in their published form, and the size and the sessions of their suite.
func Publish(dir string, all []*Results, suite Suite) error {
	s := set{Schema: setSchema, Machine: all[0].Machine}
	files := map[string][]byte{}
	for _, r := range all {
		for _, c := range r.Allocators {
			i := slices.IndexFunc(s.Allocators, func(known allocators.Allocator) bool { return known.Name == c.Name })
			if i < 0 {
				s.Allocators = append(s.Allocators, c)
			} else if s.Allocators[i].SHA256 != c.SHA256 {
				return fmt.Errorf("%s was measured with two builds of %s; publish results of one build", r.Scenario, c.Name)
			}
		}
		s.Scenarios = append(s.Scenarios, setScenario{r.Scenario, r.Version, r.Started, r.Seconds, r.Rounds, r.Settings, r.Failures, r.Notes})
		table, err := wide(r)
		if err != nil {
			return err
		}
		files[r.Scenario+".csv"] = table
	}
	data, err := json.MarshalIndent(s, "", " ")
	if err != nil {
		return fmt.Errorf("encode the facts of the set: %w", err)
	}
	files[setFile] = append(data, '\n')
	if err := suite.Write(dir); err != nil {
		return err
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			return fmt.Errorf("write the published results: %w", err)
		}
	}
	return nil
}

// wide is a line for each row; an allocator's cell holds its values in the order of the rounds.
func wide(r *Results) ([]byte, error) {
	header := slices.Clone(fixed)
	for _, c := range r.Allocators {
		header = append(header, c.Name)
	}
	lines := [][]string{header}
	for _, row := range r.Rows {
		line := []string{row.Phase, row.Metric, row.Unit, string(row.Better)}
		for _, c := range r.Allocators {
			line = append(line, cell(r.Values(c.Name, row.Key()), r.Rounds))
		}
		lines = append(lines, line)
	}
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	if err := w.WriteAll(lines); err != nil {
		return nil, fmt.Errorf("write the table of %s: %w", r.Scenario, err)
	}
	return b.Bytes(), nil
}

// cell keeps five significant digits, more than any of these measurements repeats.
func cell(values map[int]float64, rounds int) string {
	out := make([]string, rounds)
	for i := range out {
		out[i] = noValue
		if v, ok := values[i]; ok {
			out[i] = strconv.FormatFloat(v, 'g', 5, 64)
		}
	}
	if len(values) == 0 {
		return ""
	}
	return strings.Join(out, " ")
}

// readPublished reads a published set; nothing where the folder holds none.
func readPublished(dir string) ([]*Results, error) {
	data, err := os.ReadFile(filepath.Join(dir, setFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read published results: %w", err)
	}
	var s set
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, fmt.Errorf("%s holds no published results: %w", filepath.Join(dir, setFile), err)
	}
	if s.Schema != setSchema {
		return nil, fmt.Errorf("%s has the schema %q, which this version does not read; it reads %q", filepath.Join(dir, setFile), s.Schema, setSchema)
	}
	var out []*Results
	for _, scenario := range s.Scenarios {
		r := &Results{
			Schema: Schema, Scenario: scenario.Name, Version: scenario.Version, Started: scenario.Started, Seconds: scenario.Seconds,
			Rounds: scenario.Rounds, Settings: scenario.Settings, Machine: s.Machine, Failures: scenario.Failures, Notes: scenario.Notes,
		}
		if err := s.fill(r, filepath.Join(dir, scenario.Name+".csv")); err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

// fill reads the rows, the allocators and the values of a scenario.
func (s set) fill(r *Results, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("read published results: %w", err)
	}
	defer file.Close()
	lines, err := csv.NewReader(file).ReadAll()
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	if len(lines) == 0 || len(lines[0]) < len(fixed) || !slices.Equal(lines[0][:len(fixed)], fixed) {
		return fmt.Errorf("%s does not begin with the columns %s", path, strings.Join(fixed, ", "))
	}
	for _, name := range lines[0][len(fixed):] {
		i := slices.IndexFunc(s.Allocators, func(c allocators.Allocator) bool { return c.Name == name })
		if i < 0 {
			return fmt.Errorf("%s has a column %q, which %s does not list as an allocator", path, name, setFile)
		}
		r.Allocators = append(r.Allocators, s.Allocators[i])
	}
	for n, line := range lines[1:] {
		row := Row{Phase: line[0], Metric: line[1], Unit: line[2], Better: Better(line[3])}
		r.Rows = append(r.Rows, row)
		for i, text := range line[len(fixed):] {
			if err := observe(r, row, r.Allocators[i].Name, text); err != nil {
				return fmt.Errorf("%s, line %d: %w", path, n+2, err)
			}
		}
	}
	return nil
}

func observe(r *Results, row Row, allocator, text string) error {
	for round, field := range strings.Fields(text) {
		if field == noValue {
			continue
		}
		value, err := strconv.ParseFloat(field, 64)
		if err != nil {
			return fmt.Errorf("%q is no number: %w", field, err)
		}
		r.Observations = append(r.Observations, Observation{Allocator: allocator, Round: round, Phase: row.Phase, Metric: row.Metric, Value: value})
	}
	return nil
}
