package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

// Main runs the command that args name and returns the exit code.
func Main(ctx context.Context, env Env, commands []Command, args []string) int {
	root := tree(env, commands)
	args = slices.Clone(args) // nil would mean those of this process
	if len(args) > 0 && (args[0] == "--version" || args[0] == "-v") {
		args[0] = "version"
	}
	if len(args) > 0 && (args[0] == "help" || args[0] == "-h" || args[0] == "--help") {
		return finish(env, explain(env.Stdout, root, commands, args[1:]))
	}
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") && !strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) {
		if c, _, err := root.Find(args); err != nil || c == root {
			return finish(env, unknown(root, args[:1]))
		}
	}
	root.SetArgs(append([]string{}, args...))
	return finish(env, root.ExecuteContext(ctx))
}

// explain is `granary help`: the short list, with -a the list of all commands, else what the words name.
func explain(w io.Writer, root *cobra.Command, commands []Command, words []string) error {
	if len(words) == 0 || words[0] == "-h" || words[0] == "--help" {
		overview(w, commands)
		return nil
	}
	if words[0] == "-a" || words[0] == "--all" {
		list(w, commands)
		return nil
	}
	c, rest, err := root.Find(words)
	switch {
	case err != nil || c == root:
		return unknown(root, words)
	case len(rest) > 0:
		return unknown(c, rest)
	}
	help(w, commands, c)
	return nil
}

// tree is the table as a tree of cobra commands.
func tree(env Env, commands []Command) *cobra.Command {
	root := &cobra.Command{
		Use: "granary", Short: "runs programs under the Granary allocator, inspects them, and compares it with other allocators",
		SilenceErrors: true, SilenceUsage: true, DisableAutoGenTag: true,
		Args: unknown, RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.SetOut(env.Stdout)
	root.SetErr(env.Stderr)
	root.SetHelpFunc(func(c *cobra.Command, _ []string) { help(c.OutOrStdout(), commands, c) })
	root.SetHelpCommand(&cobra.Command{Use: "no-help", Hidden: true})
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return Usagef("%w; `%s --help` lists the options", wrongOption(c, err), c.CommandPath())
	})
	for _, row := range commands {
		if row.Name != "help" {
			attach(root, env, row)
		}
	}
	return root
}

func unknown(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	name := strings.TrimPrefix(c.CommandPath()+" "+strings.Join(args, " "), "granary ")
	c.SuggestionsMinimumDistance = 2
	if near := c.SuggestionsFor(args[0]); len(near) > 0 {
		return Usagef("there is no command %q; did you mean %q?", name, near[0])
	}
	return Usagef("there is no command %q; `granary help -a` lists them", name)
}

// attach adds a row below root; the first of two words becomes a command of its own.
func attach(root *cobra.Command, env Env, row Command) {
	parent := root
	first, second, two := strings.Cut(row.Name, " ")
	if two {
		parent = group(root, first)
		first = second
	}
	c := &cobra.Command{
		Use: strings.TrimSpace(first + " " + row.Usage), Short: row.Summary, Long: long(row),
		Example: exampleText(row), DisableFlagsInUseLine: true,
		DisableAutoGenTag: true, ValidArgsFunction: completer(row),
	}
	act := row.Setup(c.Flags())
	c.Flags().SortFlags = false
	c.RunE = func(c *cobra.Command, args []string) error {
		if row.Takes == None && c.HasSubCommands() && len(args) > 0 {
			return unknown(c, args)
		}
		return act(c.Context(), env, args)
	}
	if row.WrongCode != 0 {
		c.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
			return &ExitError{Code: row.WrongCode, Err: fmt.Errorf("%w; `granary %s --help` lists the options", wrongOption(c, err), row.Name)}
		})
	}
	parent.AddCommand(c)
}

func group(root *cobra.Command, name string) *cobra.Command {
	for _, c := range root.Commands() {
		if c.Name() == name {
			return c
		}
	}
	c := &cobra.Command{Use: name, Short: "the commands that begin with " + name, Args: unknown, DisableAutoGenTag: true,
		RunE: func(c *cobra.Command, _ []string) error {
			var verbs []string
			for _, verb := range c.Commands() {
				verbs = append(verbs, verb.Name())
			}
			return Usagef("say which: `granary %s` takes %s", name, strings.Join(verbs, ", "))
		}}
	root.AddCommand(c)
	return c
}

func completer(row Command) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		switch row.Takes {
		case PIDs:
			if len(args) > 0 && row.Choices != nil {
				return row.Choices(), cobra.ShellCompDirectiveNoFileComp
			}
			return processes(), cobra.ShellCompDirectiveKeepOrder // files as well: core files
		case Words:
			return row.Choices(), cobra.ShellCompDirectiveNoFileComp
		case Programs, Files:
			return nil, cobra.ShellCompDirectiveDefault
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}

// processes lists the running ones as "PID<tab>name", without the kernel's threads.
func processes() []string {
	entries, _ := os.ReadDir("/proc") // without it there is nothing to offer
	var out []string
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil {
			continue
		}
		name, err := os.ReadFile(filepath.Join("/proc", e.Name(), "comm"))
		words, wordsErr := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if err == nil && wordsErr == nil && len(words) > 0 {
			out = append(out, e.Name()+"\t"+strings.TrimSpace(string(name)))
		}
	}
	return out
}

// Completion writes the completion script for a shell.
func Completion(w io.Writer, commands []Command, shell string) error {
	root := tree(Env{Stdout: w, Stderr: w}, commands)
	switch shell {
	case "bash":
		return root.GenBashCompletionV2(w, true)
	case "zsh":
		return root.GenZshCompletion(w)
	case "fish":
		return root.GenFishCompletion(w, true)
	}
	return Usagef("there is no completion for %q: choose bash, zsh or fish", shell)
}

// Shells are those Completion knows.
var Shells = []string{"bash", "zsh", "fish"}

func long(row Command) string {
	var text string
	if row.Summary != "" {
		text = strings.ToUpper(row.Summary[:1]) + row.Summary[1:] + "."
	}
	if row.About != "" {
		text += "\n\n" + row.About
	}
	return text
}

func exampleText(row Command) string {
	var b strings.Builder
	for i, e := range row.Examples {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "  # %s\n  granary %s", e.Does, e.Line)
	}
	return b.String()
}
