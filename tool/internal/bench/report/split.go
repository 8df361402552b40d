package report

import (
	"slices"

	"github.com/jedib0t/go-pretty/v6/text"
)

// fits is true if the table, with the parts of a cell on separate lines, is no wider than width.
func (t Table) fits(width int) bool {
	return text.LongestLineLen(t.writer("\n").Render()) <= width
}

// columns is the table with its first column and those from first up to, without, last.
func (t Table) columns(first, last int) Table {
	part := Table{Title: t.Title, Header: slices.Concat(t.Header[:1], t.Header[first:last]), Breaks: t.Breaks}
	for _, row := range t.Rows {
		part.Rows = append(part.Rows, slices.Concat(row[:1], row[first:last]))
	}
	return part
}

// split divides a table that is too wide: each part has the first column and as many of the others as fit,
// at least one.
func (t Table) split(width int) []Table {
	var parts []Table
	for first := 1; first < len(t.Header); {
		last := first + 1
		for last < len(t.Header) && t.columns(first, last+1).fits(width) {
			last++
		}
		parts = append(parts, t.columns(first, last))
		first = last
	}
	return parts
}
