package term

import (
	"fmt"
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

// Wrap breaks a paragraph into lines of at most width columns, between words. A command in backquotes
// stays on one line where it fits one. lead begins the first line; the others are indented as far.
func Wrap(lead, paragraph string, width int) string {
	indent := text.StringWidthWithoutEscSequences(lead)
	var lines []string
	for line := range strings.Lines(text.WrapSoft(glued(paragraph, width-indent), max(1, width-indent))) {
		lines = append(lines, strings.ReplaceAll(strings.TrimRight(line, " \n"), glue, " "))
	}
	return lead + strings.Join(lines, "\n"+strings.Repeat(" ", indent))
}

// Line prints a line; a terminal gets it wrapped.
func Line(w io.Writer, format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	if width, terminal := Width(w); terminal {
		line = Wrap("", line, width)
	}
	fmt.Fprintln(w, line)
}

// glue is a space at which no line may break. It is of a private use area, so that no text contains it.
const glue = "\uE000"

// glued replaces the spaces of commands in backquotes that fit a line.
func glued(paragraph string, width int) string {
	parts := strings.Split(paragraph, "`")
	for i := 1; i < len(parts)-1; i += 2 {
		if len(parts[i])+3 <= width { // the quotes, and a comma behind them
			parts[i] = strings.ReplaceAll(parts[i], " ", glue)
		}
	}
	return strings.Join(parts, "`")
}

// Paragraphs wraps each paragraph of a text that is broken into lines already. Lines that begin with a
// space are unchanged.
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
