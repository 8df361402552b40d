package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/granary-allocator/granary/tool/internal/term"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// help prints the list of commands, or what one row says.
func help(w io.Writer, commands []Command, c *cobra.Command) {
	name := strings.TrimPrefix(c.CommandPath(), "granary ")
	i := slices.IndexFunc(commands, func(row Command) bool { return row.Name == name })
	if i < 0 {
		within := slices.DeleteFunc(slices.Clone(commands), func(row Command) bool { return !strings.HasPrefix(row.Name, name+" ") })
		if len(within) == 0 {
			overview(w, commands)
			return
		}
		list(w, within)
		return
	}
	row := commands[i]
	width := term.HelpWidth(w)
	fmt.Fprintf(w, "%s\n\n%s\n", term.Wrap("usage: ", "granary "+strings.TrimSpace(row.Name+" "+row.Usage), width),
		term.Paragraphs(long(row), width))
	if flags := c.LocalFlags().FlagUsagesWrapped(width); flags != "" {
		fmt.Fprintf(w, "\nOptions:\n%s", flags)
	}
	if len(row.Examples) > 0 {
		fmt.Fprintf(w, "\nExamples:\n%s\n", exampleText(row))
	}
	fmt.Fprint(w, "\nExit codes:\n")
	for _, e := range row.ExitCodes() {
		fmt.Fprintln(w, term.Wrap(fmt.Sprintf("  %-3d  ", e.Code), e.Meaning, width))
	}
}

// groups are the headings in the order of their first rows.
func groups(commands []Command) []string {
	var out []string
	for _, c := range commands {
		if !slices.Contains(out, c.Group) {
			out = append(out, c.Group)
		}
	}
	return out
}

// overview is the help that fits a terminal: the groups with the first words of their commands.
func overview(w io.Writer, commands []Command) {
	fmt.Fprint(w, "usage: granary COMMAND [ARGUMENT...]\n\n"+purpose+"\n\n")
	widest := 0
	for _, heading := range groups(commands) {
		widest = max(widest, len(heading))
	}
	for _, heading := range groups(commands) {
		var names []string
		for _, c := range commands {
			if first, _, _ := strings.Cut(c.Name, " "); c.Group == heading && !slices.Contains(names, first) {
				names = append(names, first)
			}
		}
		fmt.Fprintln(w, term.Wrap(fmt.Sprintf("  %-*s  ", widest, heading), strings.Join(names, " "), term.HelpWidth(w)))
	}
	fmt.Fprintln(w, "\nExamples:")
	for _, e := range [][2]string{
		{"granary run -- redis-server", "start a program under Granary"},
		{"granary why PID", "explain the memory of a process"},
		{"granary bench redis --quick", "compare allocators under Redis"},
	} {
		fmt.Fprintf(w, "  %-30s %s\n", e[0], e[1])
	}
	fmt.Fprintln(w, "\n`granary help COMMAND` explains a command; `granary help -a` lists all.")
}

const purpose = "granary runs programs under the Granary allocator, inspects their heaps,\nand measures Granary against other allocators."

// list is every command with its summary.
func list(w io.Writer, commands []Command) {
	width, widest := term.HelpWidth(w), 0
	for _, c := range commands {
		widest = max(widest, len(c.Name))
	}
	fmt.Fprintln(w, term.Paragraphs(purpose, width))
	for _, heading := range groups(commands) {
		fmt.Fprintln(w)
		if heading != "" {
			fmt.Fprintf(w, "%s:\n", heading)
		}
		for _, c := range commands {
			if c.Group == heading {
				fmt.Fprintln(w, term.Wrap(fmt.Sprintf("  granary %-*s  ", widest, c.Name), c.Summary, width))
			}
		}
	}
	fmt.Fprintln(w, "\n`granary COMMAND --help` explains a command.")
}

// Manuals writes a manual page for each command into dir. The date is that of the release, so that
// two builds give the same bytes.
func Manuals(dir, version string, date time.Time, commands []Command) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make the folder for the manual pages: %w", err)
	}
	root := tree(Env{Stdout: io.Discard, Stderr: io.Discard}, commands)
	for _, row := range commands {
		if c, _, err := root.Find(strings.Fields(row.Name)); err == nil && row.Name != "help" {
			c.Long += "\n\nExit codes: " + exits(row) + "."
		}
	}
	header := &doc.GenManHeader{Title: "GRANARY", Section: "1", Source: "Granary " + version, Manual: "Granary", Date: &date}
	return doc.GenManTreeFromOpts(root, doc.GenManTreeOptions{Header: header, Path: filepath.Clean(dir), CommandSeparator: "-"})
}

// Reference is the reference page of all commands, as Markdown.
func Reference(w io.Writer, commands []Command) {
	fmt.Fprint(w, "# Commands\n\n*Written by `go test ./tool/cmd/granary -update` from the table of commands. Change the table, then run\nthe test.*\n")
	for _, heading := range groups(commands) {
		fmt.Fprintf(w, "\n## %s\n", heading)
		for _, row := range commands {
			if row.Group == heading {
				section(w, row)
			}
		}
	}
}

func section(w io.Writer, row Command) {
	fmt.Fprintf(w, "\n### granary %s\n\n", row.Name)
	if row.Setup == nil {
		fmt.Fprintf(w, "`granary %s`: %s.\n", strings.TrimSpace(row.Name+" "+row.Usage), row.Summary)
		return
	}
	root := tree(Env{Stdout: io.Discard, Stderr: io.Discard}, []Command{row})
	c, _, err := root.Find(strings.Fields(row.Name))
	if err != nil {
		return // the tree was made of this row
	}
	fmt.Fprintf(w, "%s\n\n```\ngranary %s\n", long(row), strings.TrimSpace(row.Name+" "+row.Usage))
	if flags := c.LocalFlags().FlagUsages(); flags != "" {
		fmt.Fprintf(w, "\n%s", flags)
	}
	fmt.Fprint(w, "```\n")
	if len(row.Examples) > 0 {
		fmt.Fprint(w, "\n| example | what it does |\n|---|---|\n")
		for _, e := range row.Examples {
			fmt.Fprintf(w, "| `granary %s` | %s |\n", strings.ReplaceAll(e.Line, "|", "\\|"), e.Does)
		}
	}
	fmt.Fprintf(w, "\nExit codes: %s.\n", exits(row))
}

// exits describes the exit codes of a command in one line.
func exits(row Command) string {
	var codes []string
	for _, e := range row.ExitCodes() {
		codes = append(codes, fmt.Sprintf("%d: %s", e.Code, e.Meaning))
	}
	return strings.Join(codes, "; ")
}
