package result

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

	"github.com/granary-allocator/granary/tool/internal/allocators"
)

// File is the name of the results within a folder.
const File = "results.json"

// Read reads the results at a path, which is the file itself or its folder.
func Read(path string) (*Results, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, File)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var r Results
	if bytes.HasPrefix(data, []byte("\x1f\x8b")) {
		return nil, fmt.Errorf("%s is a compressed file, such as a profile, and no %s: `granary compare` compares profiles", path, File)
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("%s holds no results of `granary bench`: name the folder that --out wrote, or its %s", path, File)
	}
	if r.Schema != Schema {
		return nil, fmt.Errorf("%s has the schema %q; this version reads %s: measure again, or use the command that wrote the file", path, r.Schema, Schema)
	}
	return &r, nil
}

// Extend gives what the folder holds, ready for more rounds: of the same scenario with the same settings,
// with the same libraries under the same names. Where the folder holds nothing, it gives fresh back.
func Extend(dir string, fresh *Results) (*Results, error) {
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
	for _, c := range fresh.Allocators {
		i := slices.IndexFunc(prior.Allocators, func(p allocators.Allocator) bool { return p.Name == c.Name })
		switch {
		case i < 0:
			prior.Allocators = append(prior.Allocators, c)
		case prior.Allocators[i].SHA256 != c.SHA256 || !slices.Equal(prior.Allocators[i].Env, c.Env):
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

// CSV is every measured value as a line.
func CSV(r *Results) ([]byte, error) {
	rows := map[Key]Row{}
	for _, row := range r.Rows {
		rows[row.Key()] = row
	}
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	lines := [][]string{{"scenario", "phase", "metric", "unit", "better", "allocator", "round", "value"}}
	for _, o := range r.Observations {
		row := rows[Key{Phase: o.Phase, Metric: o.Metric}]
		lines = append(lines, []string{r.Scenario, o.Phase, o.Metric, row.Unit, string(row.Better), o.Allocator, strconv.Itoa(o.Round + 1), strconv.FormatFloat(o.Value, 'g', -1, 64)})
	}
	if err := w.WriteAll(lines); err != nil {
		return nil, fmt.Errorf("write the table: %w", err)
	}
	return b.Bytes(), nil
}

// Files are the results files in a folder of several scenarios.
func Files(dir string) ([]string, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*", File))
	if err != nil {
		return nil, fmt.Errorf("find results in %s: %w", dir, err)
	}
	return paths, nil
}

// ReadAll reads the results of every scenario in a folder, in their raw form or in the published one.
func ReadAll(dir string) ([]*Results, error) {
	all, err := ReadRaw(dir)
	if err != nil || len(all) > 0 {
		return all, err
	}
	return readPublished(dir)
}

// ReadRaw reads the results of every scenario in a folder, in their raw form.
func ReadRaw(dir string) ([]*Results, error) {
	paths, err := Files(dir)
	if err != nil {
		return nil, err
	}
	return readEach(paths)
}

func readEach(paths []string) ([]*Results, error) {
	var out []*Results
	for _, path := range paths {
		r, err := Read(path)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}
