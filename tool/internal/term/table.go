package term

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

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

// Percent is part of whole as a percentage; "-" when there is no whole.
func Percent(part, whole float64) string {
	if whole == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f %%", 100*part/whole)
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
}

// Write prints the table without borders; width 0 leaves lines as long as they are, else what is
// longer is cut.
func (t Table) Write(w io.Writer, width int) { t.write(w, width, true) }

// WriteBody leaves the header out.
func (t Table) WriteBody(w io.Writer, width int) { t.write(w, width, false) }

func (t Table) write(w io.Writer, width int, header bool) {
	out := table.NewWriter()
	style := table.StyleDefault
	style.Options = table.Options{}
	style.Box.PaddingLeft, style.Box.PaddingRight = "", "  "
	style.Format = table.FormatOptions{Header: text.FormatDefault, Row: text.FormatDefault}
	out.SetStyle(style)
	var configs []table.ColumnConfig
	heads := table.Row{}
	for i, h := range t.Header {
		if strings.HasPrefix(h, " ") {
			configs = append(configs, table.ColumnConfig{Number: i + 1, Align: text.AlignRight, AlignHeader: text.AlignRight})
		}
		heads = append(heads, strings.TrimSpace(h))
	}
	out.SetColumnConfigs(configs)
	if header {
		out.AppendHeader(heads)
	}
	for _, row := range t.Rows {
		cells := table.Row{}
		for _, cell := range row {
			cells = append(cells, cell)
		}
		out.AppendRow(cells)
	}
	for line := range strings.Lines(out.Render() + "\n") {
		line = strings.TrimRight(line, " \n")
		if width > 0 {
			line = text.Trim(line, width)
		}
		fmt.Fprintln(w, line)
	}
}

// JSONLine writes value in one line.
func JSONLine(w io.Writer, value any) error {
	if err := json.NewEncoder(w).Encode(value); err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	return nil
}
