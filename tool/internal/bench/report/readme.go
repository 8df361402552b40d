// The table and the plot of a README, from a folder of results. The file bench/suites/readme.toml selects
// the rows and columns.

package report

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/granary-allocator/granary/tool/internal/bench/result"
	"github.com/granary-allocator/granary/tool/internal/preload"
)

// A Layout describes the table and the plot of a README.
type Layout struct {
	Plot    string     `toml:"plot"` // the file of the plot, beside the README; none where it is empty
	Columns []Column   `toml:"column"`
	Goals   []PlotGoal `toml:"goal"`
	Rows    []Row      `toml:"row"`
}

// A PlotGoal is a Goal with its title in the plot, which has a row for each in each scenario.
type PlotGoal struct {
	Name  string `toml:"name"`
	Title string `toml:"title"`

	goal Goal
}

// A Column is an allocator; it uses the first of its names that was measured.
type Column struct {
	Title string   `toml:"title"`
	From  []string `toml:"from"`
}

// A Row is a metric of the first phase that matches, or with Mean the geometric mean of a metric over all
// programs.
type Row struct {
	Title    string  `toml:"title"`
	Scenario string  `toml:"scenario"`
	Phase    string  `toml:"phase"` // a regular expression
	Metric   string  `toml:"metric"`
	Mean     bool    `toml:"mean"`
	Least    float64 `toml:"least"` // of the mean: only programs whose best value is as large

	phase *regexp.Regexp
}

// ReadLayout reads and checks a layout file.
func ReadLayout(path string) (Layout, error) {
	var l Layout
	err := preload.ReadSuite(path, "layout", &l)
	if err != nil {
		return l, err
	}
	for i := range l.Rows {
		r := &l.Rows[i]
		if r.Title == "" || r.Scenario == "" || r.Metric == "" || r.Mean == (r.Phase != "") {
			return l, fmt.Errorf("%s: row %d needs title, scenario, metric, and either phase or mean", path, i+1)
		}
		if r.phase, err = regexp.Compile(r.Phase); err != nil {
			return l, fmt.Errorf("%s: row %q: %w", path, r.Title, err)
		}
	}
	for i := range l.Goals {
		if l.Goals[i].goal, err = Find(l.Goals[i].Name); err != nil {
			return l, fmt.Errorf("%s: %w", path, err)
		}
	}
	if len(l.Columns) == 0 || len(l.Rows) == 0 {
		return l, fmt.Errorf("%s: it needs a [[column]] and a [[row]]", path)
	}
	if (l.Plot == "") != (len(l.Goals) == 0) {
		return l, fmt.Errorf("%s: a plot needs a [[goal]], and a [[goal]] needs `plot = \"FILE\"`", path)
	}
	return l, nil
}

// allocator is the column's allocator in some results; empty where it was not measured.
func (c Column) allocator(r *result.Results) string {
	for _, name := range c.From {
		for _, known := range r.Allocators {
			if known.Name == name {
				return name
			}
		}
	}
	return ""
}

// The generated block of a README is between these lines; the first names the folder of the results.
var block = regexp.MustCompile(`(?s)<!-- measured: begin(?: ([^\s]+))? -->\n.*?<!-- measured: end -->`)

var errNoBlock = errors.New("there is no block between `<!-- measured: begin FOLDER -->` and `<!-- measured: end -->` in it")

// A Drawing is the new content of a README and its picture.
type Drawing struct {
	Text  []byte // the whole README
	Image []byte // SVG; empty where the layout has no plot
	plot  string // the file of the image, relative to the README
}

// Draw draws the block of the README at path. dir is the folder of the results, relative to the README's
// folder; if it is empty, Draw uses the folder that the README names.
func Draw(path, dir string, layout Layout) (Drawing, error) {
	var d Drawing
	text, err := os.ReadFile(path)
	if err != nil {
		return d, fmt.Errorf("read the README: %w", err)
	}
	found := block.FindSubmatchIndex(text)
	if found == nil {
		return d, fmt.Errorf("%s: %w", path, errNoBlock)
	}
	if dir == "" && found[2] >= 0 {
		dir = string(text[found[2]:found[3]])
	}
	if dir == "" {
		return d, fmt.Errorf("%s names no folder of results; give one: granary bench readme FOLDER", path)
	}
	dir = filepath.ToSlash(filepath.Clean(dir))
	results, err := result.ReadAll(filepath.Join(filepath.Dir(path), dir))
	if err != nil {
		return d, err
	}
	if len(results) == 0 {
		return d, fmt.Errorf("%s holds no results; name the folder that was given to `granary bench all --out`", dir)
	}
	suite, err := result.ReadSuite(filepath.Join(filepath.Dir(path), dir))
	if err != nil {
		return d, err
	}
	if d.plot = layout.Plot; d.plot != "" {
		if d.Image, err = readmePlot(results, layout); err != nil {
			return d, err
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "<!-- measured: begin %s -->\n\n", dir)
	layout.table(&b, results)
	layout.facts(&b, suite, results)
	if d.plot != "" {
		pictured(&b, d.plot, dir, results)
	}
	b.WriteString("<!-- measured: end -->")
	d.Text = slices.Concat(text[:found[0]], []byte(b.String()), text[found[1]:])
	return d, nil
}

// Differing are the files whose content differs from the drawing; the README is the first.
func (d Drawing) Differing(path string) []string {
	var out []string
	wanted := map[string][]byte{path: d.Text}
	if d.plot != "" {
		wanted[filepath.Join(filepath.Dir(path), d.plot)] = d.Image
	}
	for file, want := range wanted {
		if have, err := os.ReadFile(file); err != nil || string(have) != string(want) {
			out = append(out, file)
		}
	}
	slices.Sort(out)
	return out
}

// Write writes the README and its picture.
func (d Drawing) Write(path string) error {
	var err error
	if d.plot != "" {
		picture := filepath.Join(filepath.Dir(path), d.plot)
		if err = os.MkdirAll(filepath.Dir(picture), 0o755); err == nil {
			err = os.WriteFile(picture, d.Image, 0o644)
		}
	}
	if err == nil {
		err = os.WriteFile(path, d.Text, 0o644)
	}
	if err != nil {
		return fmt.Errorf("write the README: %w", err)
	}
	return nil
}
