// Package archive keeps results in a folder: everything measured as JSON and CSV, and the reports made
// from it. A later run of the same scenario adds its rounds.
package archive

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"granary/tool/internal/allocators"
	"granary/tool/internal/bench"
	"granary/tool/internal/bench/advice"
	"granary/tool/internal/bench/figures"
	"granary/tool/internal/bench/page"
)

// File is the name of the results within a folder.
const File = "results.json"

// Read reads the results at a path, which is the file itself or its folder.
func Read(path string) (*bench.Results, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, File)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read results: %w", err)
	}
	var r bench.Results
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("%s holds no results of this tool: %w", path, err)
	}
	if !slices.Contains(bench.Readable, r.Schema) {
		return nil, fmt.Errorf("%s is of the schema %q, which this version does not read; it reads %v", path, r.Schema, bench.Readable)
	}
	return &r, nil
}

// Extend gives what the folder holds, ready for more rounds: of the same scenario with the same settings,
// with the same libraries under the same names. Where the folder holds nothing, it gives fresh back.
func Extend(dir string, fresh *bench.Results) (*bench.Results, error) {
	prior, err := Read(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return fresh, nil
	}
	if err != nil {
		return nil, err
	}
	if prior.Scenario != fresh.Scenario {
		return nil, fmt.Errorf("%s holds results of %s; give another folder with --out", dir, prior.Scenario)
	}
	if name, differs := differing(prior.Settings, fresh.Settings); differs {
		return nil, fmt.Errorf("%s holds results with %s %v, not %v; give another folder with --out, or the same options", dir, name, prior.Settings[name], fresh.Settings[name])
	}
	for _, c := range fresh.Contenders {
		i := slices.IndexFunc(prior.Contenders, func(p allocators.Contender) bool { return p.Name == c.Name })
		switch {
		case i < 0:
			prior.Contenders = append(prior.Contenders, c)
		case prior.Contenders[i].SHA256 != c.SHA256 || !slices.Equal(prior.Contenders[i].Env, c.Env):
			return nil, fmt.Errorf("%s holds results of another build or setting of %s; give another folder with --out, or name this one apart: NAME=%s", dir, c.Name, c.Path)
		}
	}
	prior.Sessions = append(prior.Sessions, fresh.Sessions...)
	prior.Failures = append(prior.Failures, fresh.Failures...)
	prior.Notes = merged(prior.Notes, fresh.Notes)
	prior.Schema, prior.Version = fresh.Schema, fresh.Version
	return prior, nil
}

// differing names a setting that is not the same. They are compared as JSON holds them.
func differing(a, b map[string]any) (string, bool) {
	for _, name := range slices.Sorted(maps.Keys(b)) {
		x, err1 := json.Marshal(a[name])
		y, err2 := json.Marshal(b[name])
		if err1 != nil || err2 != nil || !bytes.Equal(x, y) {
			return name, true
		}
	}
	return "", false
}

func merged(a, b []string) []string {
	for _, s := range b {
		if !slices.Contains(a, s) {
			a = append(a, s)
		}
	}
	return a
}

// Write writes everything into the folder. markdown is the report in that form.
func Write(dir string, r *bench.Results, goal advice.Goal, markdown []byte) error {
	if err := r.WriteJSON(filepath.Join(dir, File)); err != nil {
		return err
	}
	table, err := CSV(r)
	if err != nil {
		return err
	}
	var html bytes.Buffer
	if err := page.Write(&html, r, goal); err != nil {
		return err
	}
	files := map[string][]byte{"results.csv": table, "report.md": markdown, "report.html": html.Bytes()}
	for _, g := range figures.All(r) {
		for _, f := range g.Figures {
			var svg, png bytes.Buffer
			if err := errors.Join(f.SVG(&svg), f.PNG(&png)); err != nil {
				return err
			}
			files[filepath.Join("figures", f.Name+".svg")], files[filepath.Join("figures", f.Name+".png")] = svg.Bytes(), png.Bytes()
		}
	}
	return writeAll(dir, files)
}

func writeAll(dir string, files map[string][]byte) error {
	if err := os.MkdirAll(filepath.Join(dir, "figures"), 0o755); err != nil {
		return fmt.Errorf("make the folder of the figures: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := os.WriteFile(filepath.Join(dir, name), files[name], 0o644); err != nil {
			return fmt.Errorf("write the report: %w", err)
		}
	}
	return nil
}

// CSV is every measured value as a line.
func CSV(r *bench.Results) ([]byte, error) {
	rows := map[bench.Key]bench.Row{}
	for _, row := range r.Rows {
		rows[row.Key()] = row
	}
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	lines := [][]string{{"scenario", "phase", "metric", "unit", "better", "allocator", "round", "value"}}
	for _, o := range r.Observations {
		row := rows[bench.Key{Phase: o.Phase, Metric: o.Metric}]
		lines = append(lines, []string{r.Scenario, o.Phase, o.Metric, row.Unit, string(row.Better), o.Contender, strconv.Itoa(o.Round + 1), strconv.FormatFloat(o.Value, 'g', -1, 64)})
	}
	if err := w.WriteAll(lines); err != nil {
		return nil, fmt.Errorf("write the table: %w", err)
	}
	return b.Bytes(), nil
}
