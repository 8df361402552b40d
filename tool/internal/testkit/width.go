package testkit

import (
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"
)

// LongerThan returns the lines of a text that do not fit a terminal of so many columns.
func LongerThan(columns int, output string) []string {
	var long []string
	for line := range strings.Lines(output) {
		line = strings.TrimRight(line, "\r\n")
		if text.StringWidthWithoutEscSequences(line) > columns {
			long = append(long, line)
		}
	}
	return long
}
