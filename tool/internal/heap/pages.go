package heap

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/inspect"
	"github.com/granary-allocator/granary/tool/internal/procfs"
	"github.com/granary-allocator/granary/tool/internal/profile"
	"github.com/granary-allocator/granary/tool/internal/symbol"
	"github.com/granary-allocator/granary/tool/internal/term"
)

// HeldPages are the pages that live objects pin, and the code that allocated these objects as far as it is known.
type HeldPages struct {
	Title  string      `json:"title"`
	Idle   uint64      `json:"idle_bytes"` // of all of them
	Pages  int         `json:"pages"`
	Class  []HeldClass `json:"classes"`
	Worst  []HeldPage  `json:"worst"` // the emptiest first
	Stacks bool        `json:"sampling"`
}

// A HeldClass are the pages with objects of one size.
type HeldClass struct {
	Size  uint64 `json:"size"`
	Pages int    `json:"pages"`
	Idle  uint64 `json:"idle_bytes"`
}

// A HeldPage is one page.
type HeldPage struct {
	Address uint64 `json:"address"`
	Size    uint64 `json:"object_size"`
	Live    uint64 `json:"live_objects"`
	Idle    uint64 `json:"idle_bytes"`
	Stack   string `json:"stack,omitempty"` // of a sampled object on it
}

// showPages reads the target and prints its half-empty pages.
func (o options) showPages(ctx context.Context, env cli.Env, arg string) (err error) {
	s, err := inspect.OpenSubject(procfs.Live(), arg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	h, err := s.HeapMap()
	if err != nil {
		return err
	}
	held, err := hold(ctx, env, s, h)
	if err != nil {
		return err
	}
	if o.limit > 0 && len(held.Worst) > o.limit {
		held.Worst = held.Worst[:o.limit]
	}
	if o.json {
		return term.JSON(env.Stdout, held)
	}
	held.write(env.Stdout, term.TextWidth(env.Stdout))
	return nil
}

func hold(ctx context.Context, env cli.Env, s *inspect.Subject, h *inspect.HeapMap) (HeldPages, error) {
	stacks := map[uint64]string{}
	sampling := false
	if s.CanSample() {
		samples, err := s.Samples()
		if err != nil {
			return HeldPages{}, err
		}
		if sampling = len(samples.Live) > 0; sampling {
			if stacks, err = stacksOfPages(ctx, env, s, samples, h.OSPage); err != nil {
				return HeldPages{}, err
			}
		}
	}
	held := Held(h, stacks)
	held.Title, held.Stacks = s.Title, sampling
	return held, nil
}

// stacksOfPages names the stack of a sampled object for each page that has one.
func stacksOfPages(ctx context.Context, env cli.Env, s *inspect.Subject, samples *inspect.Samples, osPage uint64) (map[uint64]string, error) {
	modules, err := s.Modules()
	if err != nil {
		return nil, err
	}
	f := symbol.NewFinder(env.Getenv)
	if s.PID != 0 {
		f.OfProcess(procfs.Live(), s.PID)
	}
	b, _ := profile.Heap{Title: s.Title, Library: s.Library, Samples: samples, Modules: modules}.Named(ctx, f) // addresses will do
	stacks := map[uint64]string{}
	for _, sample := range samples.Live {
		for page := sample.Address &^ (osPage - 1); page < sample.Address+sample.Bytes; page += osPage {
			stacks[page] = profile.Chain(profile.NamesOf(b.Stacks[sample.Stack]), 6)
		}
	}
	return stacks, nil
}

// Held gathers the pages of h; stacks are of sampled objects, by page.
func Held(h *inspect.HeapMap, stacks map[uint64]string) HeldPages {
	var held HeldPages
	classes := map[uint64]*HeldClass{}
	for _, p := range profile.Pages(h) {
		held.Idle += p.Idle
		held.Pages++
		c := classes[p.ObjectSize]
		if c == nil {
			c = &HeldClass{Size: p.ObjectSize}
			classes[p.ObjectSize] = c
		}
		c.Pages++
		c.Idle += p.Idle
		held.Worst = append(held.Worst, HeldPage{p.Address, p.ObjectSize, p.Live, p.Idle, stacks[p.Address]})
	}
	for _, c := range classes {
		held.Class = append(held.Class, *c)
	}
	slices.SortFunc(held.Class, func(a, b HeldClass) int {
		return cmp.Or(cmp.Compare(b.Idle, a.Idle), cmp.Compare(a.Size, b.Size))
	})
	slices.SortStableFunc(held.Worst, func(a, b HeldPage) int { return cmp.Compare(b.Idle, a.Idle) })
	return held
}

func (p HeldPages) write(w io.Writer, width int) {
	fmt.Fprintf(w, "%s\n", term.Wrap("", fmt.Sprintf("%s: live objects pin %s pages and leave %s of them unused", p.Title, term.Count(uint64(p.Pages)), term.Bytes(p.Idle)), width))
	if p.Pages == 0 {
		return
	}
	fmt.Fprintln(w)
	t := term.Table{Header: []string{" OBJECT SIZE", " PAGES", " UNUSED", " UNUSED EACH"}}
	for i, c := range p.Class {
		if i == 10 {
			break
		}
		t.Rows = append(t.Rows, []string{term.Count(c.Size), term.Count(uint64(c.Pages)), term.Bytes(c.Idle), term.Bytes(c.Idle / uint64(c.Pages))})
	}
	t.Write(w, width)
	fmt.Fprintln(w, "\nThe emptiest pages")
	t = term.Table{Header: []string{"PAGE", " OBJECT SIZE", " LIVE", " UNUSED", "ALLOCATED BY"}, Fold: true}
	for _, page := range p.Worst {
		t.Rows = append(t.Rows, []string{fmt.Sprintf("%#x", page.Address), term.Count(page.Size), term.Count(page.Live), term.Bytes(page.Idle), page.Stack})
	}
	t.Write(w, width)
	if !p.Stacks {
		fmt.Fprintf(w, "\n%s\n", term.Wrap("", "Sampling is off, so the code that allocated these objects is unknown: `granary profile PID --pins` shows it.", width))
	}
}
