package heapmap

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

// Row is the command `granary heap`.
var Row = cli.Command{
	Name: "heap", Usage: "PID|NAME|CORE [options]", Takes: cli.PIDs,
	Summary: "draw the heap: how full each 2 MiB tracker and each slab is, and where it is damaged",
	About: `Of a process that runs on, structures may change while they are read: what is damaged only once in
three readings is not told.`,
	Examples: []cli.Example{
		{Line: "heap 812", Does: "in the terminal"},
		{Line: "heap 812 --svg heap.svg --png heap.png", Does: "as pictures"},
		{Line: "heap core.812", Does: "of a process that has died"},
		{Line: "heap 812 --pages", Does: "what keeps half-empty pages in memory"},
		{Line: "heap 812 --walk | sort -k 2 -n | tail", Does: "the largest live objects"},
	},
	Exits: []cli.Exit{
		{Code: 0, Meaning: "fine"},
		{Code: cli.CodeFailed, Meaning: "the heap is damaged, or cannot be read"},
		{Code: cli.CodeUsage, Meaning: "the command line is wrong"},
	},
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
	fs.BoolVar(&o.walk, "walk", false, "list every live object instead: address and size")
	fs.BoolVar(&o.pages, "pages", false, "list pages that live objects hold in place though they leave most of them idle, and, while sampling is on, whose objects")
	fs.IntVar(&o.limit, "limit", 20, "with --pages, list at most this `number` of them; 0: all")
	fs.BoolVar(&o.json, "json", false, "print JSON; with --walk a line an object")
	return cli.Arguments(1, 1, inspect.SubjectUsage, func(ctx context.Context, env cli.Env, args []string) error {
		if o.pages {
			return o.showPages(ctx, env, args[0])
		}
		title, h, err := read(args[0])
		if err != nil {
			return err
		}
		return o.show(env, title, h)
	})
}

// readings is how often a running process is read when something seems damaged.
const readings = 3

func read(arg string) (title string, h *inspect.HeapMap, err error) {
	s, err := inspect.OpenSubject(procfs.Live(), arg)
	if err != nil {
		return "", nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if h, err = s.HeapMap(); err != nil {
		return "", nil, err
	}
	for i := 1; i < readings && len(h.Damage) > 0 && s.PID != 0; i++ {
		time.Sleep(5 * time.Millisecond)
		again, err := s.HeapMap()
		if err != nil {
			return "", nil, err
		}
		again.Damage = slices.DeleteFunc(again.Damage, func(d string) bool { return !slices.Contains(h.Damage, d) })
		h = again
	}
	return s.Title, h, nil
}

func (o options) show(env cli.Env, title string, h *inspect.HeapMap) error {
	p := Draw(title, h)
	var err error
	switch {
	case o.walk:
		err = walk(env.Stdout, h, o.json)
	case o.svg != "" || o.png != "":
		err = errors.Join(save(o.svg, p.SVG), save(o.png, p.PNG))
	case o.json:
		err = term.JSON(env.Stdout, h)
	default:
		width, _ := term.Width(env.Stdout)
		p.Write(env.Stdout, width)
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
