package heap

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/inspect"
	"github.com/granary-allocator/granary/tool/internal/procfs"
	"github.com/granary-allocator/granary/tool/internal/term"

	"github.com/spf13/pflag"
)

// Command is the command `granary heap`.
var Command = cli.Command{
	Name: "heap", Usage: "PID|NAME|CORE [options]", Takes: cli.PIDs,
	Summary: "draw the heap: how full each region of 2 MiB and each slab is, and damage",
	About: `A slab is a range of pages cut into objects of one size. The fragmentation ratio is the memory of the
heap for each live byte; 1.00 is the best.

The structures of a running process may change while they are read: damage that is not in all of three
readings is not reported.`,
	Examples: []cli.Example{
		{Line: "heap 812", Does: "in the terminal"},
		{Line: "heap 812 --svg heap.svg --png heap.png", Does: "as pictures"},
		{Line: "heap core.812", Does: "of a process that has died"},
		{Line: "heap 812 --pages", Does: "the objects that pin half-empty pages"},
		{Line: "heap 812 --walk | sort -k 2 -n | tail", Does: "the largest live objects"},
	},
	Exits: cli.Exits("fine", "the heap is damaged, or cannot be read"),
	Setup: setup,
}

type options struct {
	svg, png   string
	walk, json bool
	pages      bool
	limit      int
}

func setup(fs *pflag.FlagSet) cli.Action {
	var o options
	fs.StringVar(&o.svg, "svg", "", "draw an SVG into this `file`")
	fs.StringVar(&o.png, "png", "", "draw a PNG into this `file`")
	fs.BoolVar(&o.walk, "walk", false, "list the address and size of every live object instead")
	fs.BoolVar(&o.pages, "pages", false, "list the pages that a few live objects pin; while sampling is on, with the code that allocated them")
	fs.IntVar(&o.limit, "limit", 20, "with --pages, list at most this `number` of them; 0: all")
	fs.BoolVar(&o.json, "json", false, "print JSON; with --walk a line an object")
	return cli.Arguments(1, 1, inspect.SubjectUsage, func(ctx context.Context, env cli.Env, args []string) error {
		if o.pages {
			return o.showPages(ctx, env, args[0])
		}
		p, h, err := read(args[0])
		if err != nil {
			return err
		}
		return o.show(env, p, h)
	})
}

// readings is how often a running process is read when a structure seems damaged.
const readings = 3

func read(arg string) (p Picture, h *inspect.HeapMap, err error) {
	s, err := inspect.OpenSubject(procfs.Live(), arg)
	if err != nil {
		return p, nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if h, err = s.HeapMap(); err != nil {
		return p, nil, err
	}
	for i := 1; i < readings && len(h.Damage) > 0 && s.PID != 0; i++ {
		time.Sleep(5 * time.Millisecond)
		again, err := s.HeapMap()
		if err != nil {
			return p, nil, err
		}
		again.Damage = slices.DeleteFunc(again.Damage, func(d string) bool { return !slices.Contains(h.Damage, d) })
		h = again
	}
	p = Draw(s.Title, h)
	if figures, err := s.Snapshot(); err == nil { // a damaged heap may have none
		p.Fragmentation = figures.Fragmentation()
	}
	return p, h, nil
}

// document is the JSON of a heap.
type document struct {
	*inspect.HeapMap
	Fragmentation float64 `json:"fragmentation_ratio"`
}

func (o options) show(env cli.Env, p Picture, h *inspect.HeapMap) error {
	var err error
	switch {
	case o.walk:
		err = walk(env.Stdout, h, o.json)
	case o.svg != "" || o.png != "":
		err = errors.Join(save(o.svg, p.SVG), save(o.png, p.PNG))
	case o.json:
		err = term.JSON(env.Stdout, document{h, p.Fragmentation})
	default:
		p.Write(env.Stdout, term.TextWidth(env.Stdout))
	}
	if err == nil && len(h.Damage) > 0 {
		err = fmt.Errorf("the heap is damaged (%d findings), the first: %s", len(h.Damage), h.Damage[0])
	}
	return err
}

func save(path string, draw func(io.Writer) error) error {
	if path == "" {
		return nil
	}
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("write the picture: %w", err)
	}
	w := bufio.NewWriter(file)
	if err := errors.Join(draw(w), w.Flush(), file.Close()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// object is a line of --walk --json.
type object struct {
	Address string `json:"address"`
	Size    uint64 `json:"size"`
}

func walk(out io.Writer, h *inspect.HeapMap, asJSON bool) error {
	w := bufio.NewWriter(out)
	var err error
	h.Walk(func(o inspect.Object) bool {
		if asJSON {
			err = term.JSONLine(w, object{fmt.Sprintf("%#x", o.Address), o.Size})
		} else {
			_, err = fmt.Fprintf(w, "%#x %d\n", o.Address, o.Size)
		}
		return err == nil
	})
	return errors.Join(err, w.Flush())
}
