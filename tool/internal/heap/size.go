package heap

import (
	"context"
	"fmt"
	"math/bits"
	"os"

	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/inspect"
	"github.com/granary-allocator/granary/tool/internal/preload"
	"github.com/granary-allocator/granary/tool/internal/term"

	"github.com/spf13/pflag"
)

// Size is the command `granary size`.
var Size = cli.Command{
	Name: "size", Usage: "BYTES... [options]",
	Summary: "show the memory that an allocation takes",
	About: `TAKES is the result of malloc_usable_size; every byte of it may be used. A slab also costs its end,
where no further object fits: EACH is the slab divided by its objects. Granary's classes are read from
the library's file; the columns of glibc and jemalloc (without its options) follow from their rules and
hold their headers.`,
	Examples: []cli.Example{
		{Line: "size 4 10 100", Does: "three sizes"},
		{Line: "size 64KiB 1.5MiB", Does: "in larger units"},
		{Line: "size 100 --align 64", Does: "what aligned_alloc takes"},
	},
	Setup: setupSize,
}

// A Cost is a row. Sizes are bytes.
type Cost struct {
	Request  uint64  `json:"request"`
	Takes    uint64  `json:"takes"`
	Rounding uint64  `json:"rounding"`
	Slab     uint64  `json:"slab,omitempty"` // 0: a separate span or block
	Objects  uint64  `json:"objects,omitempty"`
	Each     float64 `json:"each"`
	Glibc    uint64  `json:"glibc"`
	Jemalloc uint64  `json:"jemalloc"`
}

func setupSize(fs *pflag.FlagSet) cli.Action {
	asJSON := fs.Bool("json", false, "print JSON; sizes are bytes")
	align := fs.Uint64("align", 16, "alignment in `bytes`, a power of two")
	lib := fs.String("lib", "", "the `library` whose size classes are shown (default: libgranary.so beside this command, or installed)")
	return cli.Arguments(1, -1, "one or more sizes in bytes, as in `granary size 100 64KiB`", func(_ context.Context, env cli.Env, args []string) error {
		if *align == 0 || *align&(*align-1) != 0 {
			return cli.Usagef("--align %d is not a power of two: give 16, 32, 64 ...", *align)
		}
		var requests []uint64
		for _, arg := range args {
			request, err := cli.ParseSize(arg)
			if err != nil {
				return err
			}
			requests = append(requests, request)
		}
		path, err := preload.Library(*lib, env.Getenv("GRANARY_LIB"), env.Exe)
		if err != nil {
			return err
		}
		library, err := inspect.OpenLibrary(path)
		if err != nil {
			return err
		}
		var costs []Cost
		for _, request := range requests {
			costs = append(costs, Of(library.Classes, request, *align))
		}
		if *asJSON {
			return term.JSON(env.Stdout, costs)
		}
		width, _ := term.Width(env.Stdout)
		table(costs).Write(env.Stdout, width)
		return nil
	})
}

// Of is the cost of a request under classes, which ascend. A request of no bytes gets an address without memory (option
// trap_empty), unless it asks for an alignment.
func Of(classes []inspect.Class, request, align uint64) Cost {
	c := Cost{Request: request, Glibc: glibc(request), Jemalloc: jemalloc(request, align)}
	if request == 0 && align <= 16 {
		return c
	}
	for _, class := range classes {
		if class.Size < request || align > 16 && class.Size%align != 0 || align > 16<<10 {
			continue
		}
		c.Takes, c.Each = class.Size, float64(class.Size)
		if class.Small {
			c.Slab, c.Objects = class.SlabBytes, class.SlabObjects
			c.Each = float64(c.Slab) / float64(c.Objects)
		}
		break
	}
	if c.Takes == 0 {
		c.Takes = up(max(1, request), uint64(os.Getpagesize()))
		c.Each = float64(c.Takes)
	}
	c.Rounding = c.Takes - request
	return c
}

func up(n, to uint64) uint64 { return (n + to - 1) / to * to }

// glibc is the size of a chunk with its header: 16-byte steps from 32, and from 128 KiB whole
// pages. With a larger alignment the chunk is as large; what it is cut from has free ends.
func glibc(request uint64) uint64 {
	const header, least, ownMapping = 8, 32, 128 << 10
	chunk := max(least, up(request+header, 16))
	if request >= ownMapping {
		return up(chunk+header, uint64(os.Getpagesize()))
	}
	return chunk
}

// jemalloc is the size class: 8, steps of 16 to 128, then four to a doubling.
func jemalloc(request, align uint64) uint64 {
	n := max(1, request)
	if align > 16 {
		n = up(n, align)
	}
	for ; ; n = up(n+1, align) {
		size := jemallocClass(n)
		if align <= 16 || size%align == 0 {
			return size
		}
	}
}

func jemallocClass(n uint64) uint64 {
	switch {
	case n <= 8:
		return 8
	case n <= 128:
		return up(n, 16)
	}
	return up(n, uint64(1)<<(bits.Len64(n-1)-3))
}

func table(costs []Cost) term.Table {
	t := term.Table{Header: []string{" REQUEST", " TAKES", " ROUNDING", " EACH", " GLIBC", " JEMALLOC", "FROM"}, Spare: []int{3, 2, 5, 4}, Fold: true}
	for _, c := range costs {
		from := "pages of its own"
		switch {
		case c.Takes == 0:
			from = "addresses without memory"
		case c.Slab != 0:
			from = fmt.Sprintf("a slab of %s, %s objects", term.Bytes(c.Slab), term.Count(c.Objects))
		}
		t.Rows = append(t.Rows, []string{term.Count(c.Request), term.Count(c.Takes),
			fmt.Sprintf("%s (%s)", term.Count(c.Rounding), term.Percent(float64(c.Rounding), float64(c.Takes))),
			term.Mean(c.Each), term.Count(c.Glibc), term.Count(c.Jemalloc), from})
	}
	return t
}
