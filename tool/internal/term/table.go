package term

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// Bytes shows a size with three significant digits: "812 B", "5.1 MiB".
func Bytes(n uint64) string { return humanize.IBytes(n) }

// Signed shows a difference in bytes, always with its sign.
func Signed(n int64) string {
	if n < 0 {
		return "-" + Bytes(uint64(-n))
	}
	return "+" + Bytes(uint64(n))
}

// Count shows a number with separators between thousands.
func Count(n uint64) string { return humanize.Comma(int64(n)) }

// Some shows how many there are of what the noun names: "no notes", "1 note", "2 notes".
func Some(n int, noun string) string {
	switch n {
	case 0:
		return "no " + noun + "s"
	case 1:
		return "1 " + noun
	}
	return Count(uint64(n)) + " " + noun + "s"
}

// Mean shows a mean, with a digit after the point where that says something.
func Mean(n float64) string {
	if math.Abs(n) >= 10_000 {
		return humanize.Comma(int64(math.Round(n)))
	}
	return humanize.FormatFloat("#,###.#", n)
}

// Percent is part of whole as a percentage; "-" when there is no whole.
func Percent(part, whole float64) string {
	if whole == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f %%", 100*part/whole)
}

// Duration shows a time with about three digits.
func Duration(d time.Duration) string {
	unit := time.Duration(1)
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit).String()
}

// JSON writes value indented, with a line break at the end.
func JSON(w io.Writer, value any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	return nil
}

// A Table has a header and rows of text. Headers that begin with a space are aligned to the right.
type Table struct {
	Header []string
	Rows   [][]string
	// Spare are the columns, by index, that a narrow terminal omits, in this order.
	Spare []int
	// Fold continues the last column on further lines where it does not fit; else it is cut.
	Fold bool
}

// Write prints the table without borders in lines of at most width columns; width 0 is no limit.
func (t Table) Write(w io.Writer, width int) { t.fitted(width).write(w, width, true) }

// WriteBody leaves the header out.
func (t Table) WriteBody(w io.Writer, width int) { t.fitted(width).write(w, width, false) }

// gap is the space between two columns.
const gap = 2

// widths are the columns that the widest cells take.
func (t Table) widths() []int {
	widths := make([]int, len(t.Header))
	for i, head := range t.Header {
		widths[i] = text.StringWidthWithoutEscSequences(strings.TrimSpace(head))
	}
	for _, row := range t.Rows {
		for i, cell := range row {
			widths[i] = max(widths[i], text.StringWidthWithoutEscSequences(cell))
		}
	}
	return widths
}

// enough is a width of the last column: before it becomes narrower, spare columns are left out.
const enough = 24

// fitted leaves spare columns out until the rest fits, and keeps those of them that fit beside it.
func (t Table) fitted(width int) Table {
	if width == 0 {
		return t
	}
	widths := t.widths()
	widths[len(widths)-1] = min(widths[len(widths)-1], enough)
	total := -gap
	for _, n := range widths {
		total += n + gap
	}
	gone := map[int]bool{}
	for _, column := range t.Spare {
		if total <= width {
			break
		}
		gone[column] = true
		total -= widths[column] + gap
	}
	for _, column := range slices.Backward(t.Spare) { // a wide column made room for narrow ones
		if gone[column] && total+widths[column]+gap <= width {
			delete(gone, column)
			total += widths[column] + gap
		}
	}
	kept := t
	kept.Header, kept.Rows = without(t.Header, gone), nil
	for _, row := range t.Rows {
		kept.Rows = append(kept.Rows, without(row, gone))
	}
	return kept
}

func without(cells []string, gone map[int]bool) []string {
	var out []string
	for i, cell := range cells {
		if !gone[i] {
			out = append(out, cell)
		}
	}
	return out
}

// narrowestFold is how narrow the last column may become before it is cut instead of folded.
const narrowestFold = 12

// columns are the alignments, and the width that the last column folds at.
func (t Table) columns(width int) []table.ColumnConfig {
	var configs []table.ColumnConfig
	left := width
	for i, n := range t.widths() {
		config := table.ColumnConfig{Number: i + 1}
		if strings.HasPrefix(t.Header[i], " ") {
			config.Align, config.AlignHeader = text.AlignRight, text.AlignRight
		}
		if i == len(t.Header)-1 && t.Fold && left >= narrowestFold {
			config.WidthMax, config.WidthMaxEnforcer = left, text.WrapSoft
		}
		left -= n + gap
		configs = append(configs, config)
	}
	return configs
}

func (t Table) write(w io.Writer, width int, header bool) {
	out := table.NewWriter()
	style := table.StyleDefault
	style.Options = table.Options{}
	style.Box.PaddingLeft, style.Box.PaddingRight = "", strings.Repeat(" ", gap)
	style.Format = table.FormatOptions{Header: text.FormatDefault, Row: text.FormatDefault}
	out.SetStyle(style)
	out.SetColumnConfigs(t.columns(width))
	if header {
		heads := make([]string, len(t.Header))
		for i, h := range t.Header {
			heads[i] = strings.TrimSpace(h)
		}
		out.AppendHeader(cells(heads))
	}
	for _, row := range t.Rows {
		out.AppendRow(cells(row))
	}
	for line := range strings.Lines(out.Render() + "\n") {
		line = strings.TrimRight(line, " \n")
		if width > 0 {
			line = text.Trim(line, width)
		}
		fmt.Fprintln(w, line)
	}
}

func cells(row []string) table.Row {
	out := table.Row{}
	for _, cell := range row {
		out = append(out, cell)
	}
	return out
}

// JSONLine writes value in one line.
func JSONLine(w io.Writer, value any) error {
	if err := json.NewEncoder(w).Encode(value); err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	return nil
}

// First is at most limit of the rows of a table; 0: all.
func First[T any](rows []T, limit int) []T {
	if limit > 0 && len(rows) > limit {
		return rows[:limit]
	}
	return rows
}
