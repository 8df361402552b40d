package services

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"granary/tool/internal/bench/archive"
	"granary/tool/internal/bench/scenario"
	"granary/tool/internal/cli"

	"github.com/BurntSushi/toml"
	"github.com/spf13/pflag"
)

// A Suite is a file of scenarios that are run one after another.
type Suite struct {
	Scenarios []struct {
		Name  string   `toml:"name"`
		Args  []string `toml:"args"`
		Quick []string `toml:"quick"`
	} `toml:"scenario"`
}

// AllCommand is `granary bench all`.
var AllCommand = cli.Command{
	Name: "bench all", Usage: "--out DIR [options]", Summary: "run every scenario of a suite, and sum the results up",
	About: "Each scenario's results go to a folder of its own below DIR; what one of them lacks is said, and the others go on. " +
		"A suite that was stopped is taken up again with --resume. DIR/README.md sums everything up, the rows where Granary loses first.",
	Examples: []cli.Example{
		{Line: "bench all --out results --quick", Does: "every scenario at its short size, in about half an hour"},
		{Line: "bench all --out results --only redis,mariadb", Does: "two of them at full size"},
	},
	Setup: allSetup,
}

type suiteRun struct {
	suite, out, allocators, lib, goal string
	only                              []string
	rounds                            int
	quick, variants, resume           bool
}

func allSetup(fs *pflag.FlagSet) cli.Action {
	var s suiteRun
	fs.StringVar(&s.out, "out", "", "the `folder` of the results")
	fs.StringVar(&s.suite, "suite", "", "the `file` that lists the scenarios (default: bench/suites/full.toml of the source tree)")
	fs.StringSliceVar(&s.only, "only", nil, "only these scenarios, by `names` separated by commas")
	fs.IntVar(&s.rounds, "rounds", 0, "how often each allocator is measured (default: as each scenario says)")
	fs.BoolVar(&s.quick, "quick", false, "the short size of each scenario")
	fs.BoolVar(&s.resume, "resume", false, "leave out the scenarios that DIR has already in as many rounds")
	fs.BoolVar(&s.variants, "variants", false, "also the settings that people use")
	fs.StringVar(&s.allocators, "allocators", "", "as in the scenarios (default: all that are found; `names`)")
	fs.StringVar(&s.lib, "lib", "", "the `library` measured as granary")
	fs.StringVar(&s.goal, "goal", "rss", "whose advice comes first: rss, throughput, p99 or cpu (`goal`)")
	return cli.Arguments(0, 0, "options", func(ctx context.Context, env cli.Env, _ []string) error { return s.run(ctx, env) })
}

func (s suiteRun) run(ctx context.Context, env cli.Env) error {
	if s.out == "" {
		return cli.Usagef("say where the results go: --out DIR")
	}
	if s.suite == "" {
		s.suite = sourceFile(env.Exe, "bench/suites/full.toml")
	}
	suite, err := ReadSuite(s.suite)
	if err != nil {
		return err
	}
	var failed []string
	for _, entry := range suite.Scenarios {
		if len(s.only) > 0 && !slices.Contains(s.only, entry.Name) {
			continue
		}
		args := entry.Args
		if s.quick {
			args = entry.Quick
		}
		fmt.Fprintf(env.Stdout, "== %s\n", entry.Name)
		err := s.scenario(ctx, env, find(entry.Name), args)
		if ctx.Err() != nil {
			return errors.Join(err, archive.Summarise(s.out))
		}
		if err != nil {
			fmt.Fprintf(env.Stdout, "%s: %v\n", entry.Name, err)
			failed = append(failed, entry.Name)
		}
	}
	if err := archive.Summarise(s.out); err != nil {
		return err
	}
	fmt.Fprintf(env.Stdout, "The summary is %s\n", filepath.Join(s.out, "README.md"))
	if len(failed) > 0 {
		return fmt.Errorf("not measured: %s; the sentences above say why", strings.Join(failed, ", "))
	}
	return nil
}

// sourceFile finds a file of the source tree from the current folder, else from where the command was
// built, which is two folders down.
func sourceFile(exe, path string) string {
	if _, err := os.Stat(path); err == nil {
		return path
	}
	return filepath.Join(filepath.Dir(exe), "..", "..", path)
}

// scenario runs one with the options that all of them take.
func (s suiteRun) scenario(ctx context.Context, env cli.Env, sc scenario.Scenario, args []string) error {
	dir := filepath.Join(s.out, sc.Name)
	if s.resume && s.done(dir, sc) {
		fmt.Fprintln(env.Stdout, "is there already")
		return nil
	}
	args = append(slices.Clone(args), "--out", dir, "--goal", s.goal)
	for _, option := range []struct{ name, value string }{{"--allocators", s.allocators}, {"--lib", s.lib}} {
		if option.value != "" {
			args = append(args, option.name, option.value)
		}
	}
	if s.rounds > 0 {
		args = append(args, "--rounds", strconv.Itoa(s.rounds))
	}
	if s.variants {
		args = append(args, "--variants")
	}
	fs := pflag.NewFlagSet(sc.Name, pflag.ContinueOnError)
	act := sc.Command().Setup(fs)
	if err := fs.Parse(args); err != nil {
		return fmt.Errorf("the suite's options: %w", err)
	}
	return act(ctx, env, fs.Args())
}

// done is true of results with as many rounds as this run would measure.
func (s suiteRun) done(dir string, sc scenario.Scenario) bool {
	r, err := archive.Read(dir)
	want := s.rounds
	if want == 0 {
		want = sc.Rounds.Full
		if s.quick {
			want = sc.Rounds.Quick
		}
	}
	return err == nil && r.Rounds >= want
}

// ReadSuite reads and checks a suite file.
func ReadSuite(path string) (Suite, error) {
	var s Suite
	meta, err := toml.DecodeFile(path, &s)
	if err != nil {
		return s, fmt.Errorf("read the suite: %w", err)
	}
	if unknown := meta.Undecoded(); len(unknown) > 0 {
		return s, fmt.Errorf("%s: there is no setting %q; correct its name", path, unknown[0].String())
	}
	for _, entry := range s.Scenarios {
		if find(entry.Name).Name == "" {
			return s, fmt.Errorf("%s: there is no scenario %q; choose from %s", path, entry.Name, strings.Join(names(), ", "))
		}
	}
	if len(s.Scenarios) == 0 {
		return s, fmt.Errorf("%s: it has no [[scenario]]", path)
	}
	return s, nil
}

// find is the scenario called name; one without a name where there is none.
func find(name string) scenario.Scenario {
	for _, s := range All {
		if s.Name == name {
			return s
		}
	}
	return scenario.Scenario{}
}
