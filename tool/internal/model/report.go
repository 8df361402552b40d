package model

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/granary-allocator/granary/tool/internal/bench/report"
	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/model/cost"
	"github.com/granary-allocator/granary/tool/internal/model/redis"
	"github.com/granary-allocator/granary/tool/internal/term"

	"github.com/spf13/pflag"
)

// output holds the flags that select the printed form.
type output struct {
	choice
	json   *bool
	plot   *string
	memory *string
}

func outputs(fs *pflag.FlagSet) output {
	return output{
		chosen(fs),
		fs.Bool("json", false, "print JSON; sizes are bytes"),
		fs.String("plot", "", "draw resident memory over the number of keys, items, elements or connections into this `file`, .svg or .png"),
		fs.String("memory", "16GiB", "add the number for which a machine of this `size` has memory"),
	}
}

// A Row is an allocator's line.
type Row struct {
	Allocator string `json:"allocator"`
	cost.Sum
	Growth  float64 `json:"growth"` // resident bytes that growth left unused
	PerUnit float64 `json:"per_unit"`
	Holds   uint64  `json:"holds"`
}

// Document is the output of --json.
type Document struct {
	Title      string         `json:"title"`
	Unit       string         `json:"unit"`
	Count      uint64         `json:"count"`
	Structures []Structure    `json:"structures"`
	Facts      []Fact         `json:"facts,omitempty"`
	Groups     []redis.Group  `json:"encodings,omitempty"`
	Allocators []Row          `json:"allocators"`
	Memory     float64        `json:"memory"`
	Changes    []redis.Change `json:"limits,omitempty"`
	Advice     []string       `json:"advice,omitempty"`
	Notes      []string       `json:"notes,omitempty"`
}

// A Structure is a part with its sums.
type Structure struct {
	Name      string  `json:"name"`
	Blocks    float64 `json:"blocks"`
	Requested float64 `json:"requested"`
}

// run computes the account and prints it. The allocators are read first, because the savings of limits depend on one.
func (o output) run(ctx context.Context, env cli.Env, make func(ctx context.Context, allocators []cost.Allocator) (Account, error)) error {
	memory, err := parseBytes("memory", *o.memory)
	if err != nil {
		return err
	}
	if ext := strings.ToLower(filepath.Ext(*o.plot)); *o.plot != "" && ext != ".svg" && ext != ".png" {
		return cli.Usagef("--plot %s is neither an .svg nor a .png: give the file one of these endings", *o.plot)
	}
	allocators, note, err := o.allocators(env)
	if err != nil {
		return err
	}
	a, err := make(ctx, allocators)
	if err != nil {
		return err
	}
	if note != "" {
		a.Notes = append(a.Notes, note)
	}
	d := a.document(allocators, memory)
	if *o.plot != "" {
		if err := draw(*o.plot, a, allocators, memory); err != nil {
			return err
		}
	}
	if *o.json {
		return term.JSON(env.Stdout, d)
	}
	d.print(env)
	return nil
}

func (a Account) document(allocators []cost.Allocator, memory float64) Document {
	d := Document{Title: a.Title, Unit: a.Unit, Count: a.Count, Facts: a.Facts, Groups: a.Groups, Memory: memory, Changes: a.Changes, Advice: a.Advice, Notes: a.Notes}
	for _, p := range a.Parts {
		s := plain.Of(p.Heap)
		d.Structures = append(d.Structures, Structure{p.Name, s.Blocks, s.Requested})
	}
	heap := a.heap()
	for _, allocator := range allocators {
		row := Row{Allocator: allocator.Name, Sum: allocator.Of(heap)}
		if a.Changing {
			row.Growth = holes(allocator, a.At, a.Count)
			row.Resident += row.Growth
		}
		if a.Count > 0 {
			row.PerUnit = row.Resident / float64(a.Count)
			row.Holds = a.holds(allocator, memory)
		}
		d.Allocators = append(d.Allocators, row)
	}
	return d
}

// plain adds requests up.
var plain = cost.Allocator{Name: "requested", Place: func(n uint64) cost.Place { return cost.Place{Usable: n, Resident: float64(n)} }}

func (d Document) print(env cli.Env) {
	out := env.Stdout
	width, _ := term.Width(out)
	term.Line(out, "%s", d.Title)
	fmt.Fprintln(out)
	if len(d.Groups) > 1 {
		d.groups().Write(out, width)
		fmt.Fprintln(out)
	}
	d.structures().Write(out, width)
	if len(d.Facts) > 0 {
		fmt.Fprintln(out)
		t := term.Table{Header: []string{"ALSO", " VALUE"}}
		for _, f := range d.Facts {
			t.Rows = append(t.Rows, []string{f.Name, f.text()})
		}
		t.Write(out, width)
	}
	fmt.Fprintln(out)
	d.allocators().Write(out, width)
	if len(d.Changes) > 0 {
		fmt.Fprintln(out)
		d.limits().Write(out, width)
	}
	for _, lines := range [][]string{d.Advice, d.Notes} {
		for i, line := range lines {
			if i == 0 {
				fmt.Fprintln(out)
			}
			term.Line(out, "%s", line)
		}
	}
}

// size shows four digits, as allocators differ by less than two would show.
func size(n float64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}
	at := 0
	for ; n >= 1000 && at < len(units)-1; at++ {
		n /= 1024
	}
	if at == 0 {
		return fmt.Sprintf("%.0f B", n)
	}
	return strconv.FormatFloat(n, 'f', max(0, 3-len(strconv.Itoa(int(n)))), 64) + " " + units[at]
}

// each is the share of a unit, which is a few bytes or many.
func each(n float64) string {
	if n < 10_000 {
		return term.Mean(n) + " B"
	}
	return size(n)
}

func signed(n float64) string {
	if n < 0 {
		return "-" + size(-n)
	}
	return "+" + size(n)
}

func count(n float64) string { return term.Count(uint64(n + 0.5)) }

func (d Document) groups() term.Table {
	t := term.Table{Header: []string{"TYPE", "ENCODING", " KEYS", " ELEMENTS", " REQUESTED"}}
	for _, g := range d.Groups {
		t.Rows = append(t.Rows, []string{g.Type, g.Encoding, count(g.Keys), count(g.Elements), size(g.Requested)})
	}
	return t
}

func (d Document) structures() term.Table {
	t := term.Table{Header: []string{"STRUCTURE", " BLOCKS", " REQUESTED", " SHARE"}}
	var blocks, bytes float64
	for _, s := range d.Structures {
		blocks, bytes = blocks+s.Blocks, bytes+s.Requested
	}
	for _, s := range d.Structures {
		t.Rows = append(t.Rows, []string{s.Name, count(s.Blocks), size(s.Requested), term.Percent(s.Requested, bytes)})
	}
	t.Rows = append(t.Rows, []string{"all", count(blocks), size(bytes), term.Percent(bytes, bytes)})
	return t
}

func (d Document) allocators() term.Table {
	t := term.Table{Header: []string{"ALLOCATOR", " USABLE", " RESIDENT", " FOR GROWTH", " OF REQUESTED", " PER " + strings.ToUpper(d.Unit), " " + size(d.Memory) + " HOLDS"},
		Spare: []int{3, 1}}
	for _, r := range d.Allocators {
		t.Rows = append(t.Rows, []string{r.Allocator, size(r.Usable), size(r.Resident), size(r.Growth), fmt.Sprintf("%.3f", r.Resident/max(r.Requested, 1)),
			each(r.PerUnit), count(float64(r.Holds))})
	}
	return t
}

func (d Document) limits() term.Table {
	t := term.Table{Header: []string{"LIMIT", " NOW", " INSTEAD", " KEYS THAT CHANGE", " RESIDENT"}}
	for _, c := range d.Changes {
		t.Rows = append(t.Rows, []string{c.Setting, term.Count(c.From), term.Count(c.To), count(c.Keys), signed(-c.Saves)})
	}
	return t
}

// points of a curve.
const points = 120

// draw plots resident bytes over the number of units, up to four times the requested number or the number
// that fits into the machine.
func draw(path string, a Account, allocators []cost.Allocator, memory float64) error {
	most := float64(4 * max(a.Count, 1))
	unit, label := 1.0, a.Unit+"s"
	switch {
	case most >= 4e6:
		unit, label = 1e6, "million "+label
	case most >= 4e4:
		unit, label = 1e3, "thousand "+label
	}
	f := report.Plot{Kind: report.Time, Name: filepath.Base(path), Title: a.Title, XLabel: label, YLabel: "resident memory, GiB"}
	for _, allocator := range allocators {
		line := report.Series{Name: allocator.Name}
		for i := 1; i <= points; i++ {
			n := most * float64(i) / points
			y := allocator.Of(a.At(uint64(n))).Resident / (1 << 30)
			line.Points = append(line.Points, report.Point{X: n / unit, Y: y, Low: y, High: y})
		}
		f.Lines = append(f.Lines, line)
	}
	limit := memory / (1 << 30)
	if last := f.Lines[0].Points[points-1].Y; limit < 1.2*last {
		f.Lines = append(f.Lines, report.Series{Name: size(memory),
			Points: []report.Point{{X: most / points / unit, Y: limit, Low: limit, High: limit}, {X: most / unit, Y: limit, Low: limit, High: limit}}})
	}
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("the plot cannot be written: %w", err)
	}
	write := f.SVG
	if strings.EqualFold(filepath.Ext(path), ".png") {
		write = f.PNG
	}
	if err := write(file); err != nil {
		_ = file.Close()
		return err
	}
	if err := file.Close(); err != nil {
		return fmt.Errorf("the plot cannot be written: %w", err)
	}
	return nil
}
