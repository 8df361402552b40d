package profile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/symbol"

	"github.com/google/pprof/profile"
	"github.com/spf13/pflag"
)

// View is the command `granary profile view`.
var View = cli.Command{
	Name: "profile view", Usage: "FILE... [options]", Takes: cli.Files,
	Summary: "show profiles from files: pprof's, jemalloc's and TCMalloc's",
	About: `Several files are added up. Addresses that have no names yet get them from the programs and debug files
on this machine, found by build id, or from the servers in DEBUGINFOD_URLS.`,
	Examples: []cli.Example{
		{Line: "profile view heap.pb.gz --http :0", Does: "flame graph, graph, top, source in a web page"},
		{Line: "profile view heap.pb.gz --alloc", Does: "the code that allocated most"},
		{Line: "profile view heap.pb.gz --pprof top,cum", Does: "a report of pprof's own"},
	},
	Setup: setupView,
}

// Diff is the command `granary profile diff`.
var Diff = cli.Command{
	Name: "profile diff", Usage: "BEFORE AFTER [options]", Takes: cli.Files,
	Summary: "show what grew and what shrank between two profiles",
	About:   "It subtracts the earlier profile from the later one. compare is for two builds of a program.",
	Examples: []cli.Example{
		{Line: "profile diff monday.pb.gz friday.pb.gz", Does: "the stacks that changed most"},
		{Line: "profile diff monday.pb.gz friday.pb.gz --http :0", Does: "in a web page"},
	},
	Setup: setupDiff,
}

func setupView(fs *pflag.FlagSet) cli.Action {
	var out output
	kinds := kindFlags(fs)
	out.flags(fs)
	report := fs.StringSlice("pprof", nil, "print a `report` of pprof's: top, tree, traces, peek=REGEXP, list=REGEXP; more of its options after commas")
	return cli.Arguments(1, -1, "the path of a profile", func(ctx context.Context, env cli.Env, args []string) error {
		p, words, err := load(ctx, env, args)
		if err != nil {
			return err
		}
		if len(*report) > 0 {
			return reports(env, p, kinds, *report)
		}
		return show(ctx, env, out, kinds, p, words)
	})
}

func setupDiff(fs *pflag.FlagSet) cli.Action {
	var out output
	kinds := kindFlags(fs)
	out.flags(fs)
	return cli.Arguments(2, 2, "two profiles: the earlier, then the later", func(ctx context.Context, env cli.Env, args []string) error {
		before, _, err := load(ctx, env, args[:1])
		if err != nil {
			return err
		}
		after, words, err := load(ctx, env, args[1:])
		if err != nil {
			return err
		}
		d, err := Subtract(after, before)
		if err != nil {
			return fmt.Errorf("compare %s with %s: %w", args[1], args[0], err)
		}
		return show(ctx, env, out, kinds, d, words)
	})
}

// Subtract is after less before: growth is positive.
func Subtract(after, before *profile.Profile) (*profile.Profile, error) {
	less := before.Copy()
	less.Scale(-1)
	all := []*profile.Profile{after, less}
	if err := profile.CompatibilizeSampleTypes(all); err != nil {
		return nil, err
	}
	d, err := profile.Merge(all)
	if err != nil {
		return nil, err
	}
	d.TimeNanos, d.DurationNanos = after.TimeNanos, after.DurationNanos
	return d, nil
}

func show(ctx context.Context, env cli.Env, out output, kinds map[string]*bool, p *profile.Profile, words []string) error {
	kind, explicit, err := chosen(kinds)
	if err != nil {
		return err
	}
	if err := out.check(); err != nil {
		return err
	}
	if explicit && Index(p, kind.Type) < 0 {
		var names []string
		for _, t := range p.SampleType {
			names = append(names, t.Type)
		}
		return fmt.Errorf("the profile does not tell %s: it has %s", kind.Type, list(names))
	}
	if !explicit && Index(p, kind.Type) < 0 {
		kind = Kind{Type: p.SampleType[DefaultIndex(p)].Type}
	}
	return out.write(ctx, env, p, kind, words)
}

func list(names []string) string {
	out := ""
	for i, name := range names {
		switch {
		case i > 0 && i == len(names)-1:
			out += " and "
		case i > 0:
			out += ", "
		}
		out += name
	}
	return out
}

func reports(env cli.Env, p *profile.Profile, kinds map[string]*bool, report []string) error {
	kind, _, err := chosen(kinds)
	if err != nil {
		return err
	}
	v := Web{Profile: p, Out: env.Stdout}
	if Index(p, kind.Type) >= 0 {
		v.Type = kind.Type
	}
	var flags []string
	for _, r := range report {
		flags = append(flags, "-"+r)
	}
	return v.Report(flags...)
}

// load reads profiles, adds them up, and names the locations without a name.
func load(ctx context.Context, env cli.Env, paths []string) (*profile.Profile, []string, error) {
	var all []*profile.Profile
	for _, path := range paths {
		p, err := Load(path)
		if err != nil {
			return nil, nil, err
		}
		all = append(all, p)
	}
	if err := profile.CompatibilizeSampleTypes(all); err != nil {
		return nil, nil, fmt.Errorf("add up the profiles: %w: give such as are of one kind", err)
	}
	p, err := profile.Merge(all)
	if err != nil {
		return nil, nil, fmt.Errorf("add up the profiles: %w", err)
	}
	outcome := symbol.NewFinder(env.Getenv).Symbolize(ctx, p)
	return p, append(slices.Clone(p.Comments), outcome.Missing...), nil
}

// maxProfile is the largest file that is read.
const maxProfile = 1 << 30

// Load reads a profile: of pprof's form, in all its variants, Pyroscope's JSON, or jemalloc's text.
func Load(path string) (*profile.Profile, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return nil, fmt.Errorf("%s is a folder, not a profile: name a file; `granary bench compare` compares folders of results", path)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxProfile))
	if err != nil {
		return nil, err
	}
	parse := profile.ParseData
	switch {
	case bytes.HasPrefix(data, []byte("heap_v2/")):
		parse = func(data []byte) (*profile.Profile, error) { return parseHeapV2(string(data)) }
	case bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")):
		parse = parsePyroscopeJSON
	}
	p, err := parse(data)
	if err != nil {
		return nil, fmt.Errorf("%s %s", path, noProfile(data, err))
	}
	if len(p.SampleType) == 0 {
		return nil, fmt.Errorf("%s is an empty profile: nothing was sampled", path)
	}
	return p, nil
}

// noProfile says what a file is that cannot be read as a profile, and what to do.
func noProfile(data []byte, err error) string {
	const gzipMagic = "\x1f\x8b"
	switch text := bytes.TrimSpace(data); {
	case len(text) == 0:
		return "is empty: fetch the profile again"
	case text[0] == '<':
		return "is a web page, not a profile: download it in pprof's form (Pyroscope: Export, pprof; Parca: Download pprof)"
	case bytes.Contains(text, []byte(`"flamebearer"`)):
		return "is a flame graph of Pyroscope's /pyroscope/render, not a profile: fetch SelectMergeProfile, or use `profilecli query profile`"
	case text[0] == '{' || text[0] == '[':
		return "is JSON, not a profile: `granary bench compare` reads results of `granary bench`; of Pyroscope's answers SelectMergeProfile's is a profile"
	case bytes.HasPrefix(data, []byte("gran")):
		return "is a trace, not a profile: `granary trace diff` compares traces"
	case bytes.HasPrefix(data, []byte(gzipMagic)) && errors.Is(err, io.ErrUnexpectedEOF), strings.Contains(err.Error(), "unexpected EOF"):
		return "is cut off: fetch the profile again"
	}
	return fmt.Sprintf("is not a profile that can be read (%v): give a file of `granary profile -o`, pprof or jemalloc", err)
}
