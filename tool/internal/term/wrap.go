package term

import (
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"
)

// narrowest is the width that all output fits.
const narrowest = 80

// TextWidth is the number of columns for paragraphs on w: those of a terminal, else 80.
func TextWidth(w io.Writer) int {
	if columns, terminal := Width(w); terminal {
		return columns
	}
	return narrowest
}

// HelpWidth is TextWidth, but at most 100, because longer lines are hard to read.
func HelpWidth(w io.Writer) int { return min(TextWidth(w), 100) }

// Wrap breaks a paragraph into lines of at most width columns, between words. lead begins the first
// line; the others are indented as far.
func Wrap(lead, paragraph string, width int) string {
	indent := text.StringWidthWithoutEscSequences(lead)
	var lines []string
	for line := range strings.Lines(text.WrapSoft(paragraph, max(1, width-indent))) {
		lines = append(lines, strings.TrimRight(line, " \n"))
	}
	return lead + strings.Join(lines, "\n"+strings.Repeat(" ", indent))
}

// Paragraphs wraps each paragraph of a text that is broken into lines already. Lines that begin with a
// space stay as they are.
func Paragraphs(body string, width int) string {
	var out []string
	for paragraph := range strings.SplitSeq(body, "\n\n") {
		if !strings.HasPrefix(paragraph, " ") {
			paragraph = Wrap("", strings.ReplaceAll(paragraph, "\n", " "), width)
		}
		out = append(out, paragraph)
	}
	return strings.Join(out, "\n\n")
}
