package profile

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/term"

	"github.com/google/pprof/profile"
	"github.com/spf13/pflag"
)

// output is the destination and the format of a profile.
type output struct {
	http, svg, file         string
	text, collapsed, heapV2 bool
	limit                   int
}

func (o *output) flags(fs *pflag.FlagSet) {
	fs.StringVar(&o.http, "http", "", "serve pprof's web page on this `address`; \":0\" is a free port of this machine alone")
	fs.StringVarP(&o.file, "output", "o", "", "write pprof's format into this `file`, or the text format that is also named")
	fs.StringVar(&o.svg, "svg", "", "draw a flame graph into this `file`")
	fs.BoolVar(&o.text, "text", false, "print the stacks even if something else is made of the profile")
	fs.BoolVar(&o.collapsed, "collapsed", false, "print a line a stack, as scripts for flame graphs read")
	fs.BoolVar(&o.heapV2, "heap_v2", false, "print the text form of jemalloc, for jeprof")
	fs.IntVar(&o.limit, "limit", 20, "print at most this `number` of stacks; 0: all")
}

func (o *output) check() error {
	if o.collapsed && o.heapV2 {
		return cli.Usagef("choose one of --collapsed and --heap_v2")
	}
	return nil
}

// write writes p in the requested format, with words above the table.
func (o *output) write(ctx context.Context, env cli.Env, p *profile.Profile, kind Kind, words []string) error {
	index := Index(p, kind.Type)
	if index < 0 {
		index = DefaultIndex(p)
	}
	var err error
	switch {
	case o.collapsed:
		err = o.save(env, o.file, func(w io.Writer) error { return WriteCollapsed(w, p, index) })
	case o.heapV2:
		err = o.save(env, o.file, func(w io.Writer) error { return WriteHeapV2(w, p) })
	case o.file != "":
		err = o.save(env, o.file, p.Write)
	}
	if err == nil && o.svg != "" {
		title := fmt.Sprintf("%s: %s", p.SampleType[index].Type, first(words))
		err = o.save(env, o.svg, func(w io.Writer) error { return WriteFlame(w, p, index, title) })
	}
	if err != nil {
		return err
	}
	if o.text || !o.collapsed && !o.heapV2 && o.file == "" && o.svg == "" && o.http == "" {
		o.print(env, p, index, kind, words)
	}
	if o.http != "" {
		view := Web{Profile: p, Type: p.SampleType[index].Type, Listen: o.http, Out: env.Stdout}
		return view.Serve(ctx)
	}
	return nil
}

func first(words []string) string {
	if len(words) == 0 {
		return ""
	}
	return words[0]
}

func (o *output) print(env cli.Env, p *profile.Profile, index int, kind Kind, words []string) {
	for _, w := range words {
		term.Line(env.Stdout, "%s", w)
	}
	number := -1
	if kind.Number != "" && kind.Type == p.SampleType[index].Type {
		number = Index(p, kind.Number)
	}
	width, _ := term.Width(env.Stdout)
	WriteText(env.Stdout, p, index, number, o.limit, width)
}

// save writes into a file, and says so; without a name, to the standard output.
func (o *output) save(env cli.Env, path string, write func(io.Writer) error) error {
	if path == "" {
		return write(env.Stdout)
	}
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("write the profile: %w", err)
	}
	out := bufio.NewWriter(file)
	if err := errors.Join(write(out), out.Flush(), file.Close()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	_, err = fmt.Fprintf(env.Stderr, "wrote %s\n", path)
	return err
}
