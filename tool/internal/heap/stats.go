package heap

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/granary-allocator/granary/tool/internal/inspect"
	"github.com/granary-allocator/granary/tool/internal/term"
)

// layers are in the order that a call passes them.
var layers = []struct{ name, meaning string }{
	{"layers", "live objects"},
	{"sizes", "rounding of requests up to size classes"},
	{"front", "free objects in the CPU caches"},
	{"depot", "free objects in transit between CPU caches"},
	{"central", "slabs, which are pages cut into objects of one size"},
	{"pages", "spans, which are ranges of pages, and blocks above 1 MiB"},
	{"upkeep", "return of idle memory, by decay interval"},
	{"arena", "scoped heaps and arenas"},
	{"limits", "bounds of the heap"},
	{"os", "system calls"},
}

// View selects the parts that are shown in addition to the totals.
type View struct{ Classes, Options, Caches, Locks bool }

// Value shows a metric in its unit.
func Value(m inspect.Metric) string {
	if m.Value == math.MaxUint64 {
		return "none"
	}
	switch m.Unit {
	case "bytes":
		return term.Bytes(m.Value)
	case "nanoseconds":
		return time.Duration(m.Value).Round(time.Microsecond).String()
	}
	return term.Count(m.Value)
}

// A Report holds the figures of a heap, and the kernel's figures of its process.
type Report struct {
	*inspect.Snapshot
	Process *Process `json:"process,omitempty"` // not of a core file
}

// A Process is the kernel's figures.
type Process struct {
	RSS  uint64 `json:"rss_bytes"`
	Peak uint64 `json:"rss_peak_bytes"` // since the start, or `granary ctl PID reset`
}

// Write prints the figures, a layer after the other.
// Lines have at most width columns.
func Write(w io.Writer, title string, r Report, v View, width int) {
	s := r.Snapshot
	fmt.Fprintln(w, term.Wrap("", title+", "+agreement(s), width))
	if r.Process != nil {
		fmt.Fprintln(w, "\nprocess: the kernel's figures")
		term.Table{Header: []string{"", " ", ""}, Fold: true, Rows: [][]string{
			{"  RSS", term.Bytes(r.Process.RSS), "resident memory of the whole process"},
			{"  peak of RSS", term.Bytes(r.Process.Peak), "its peak since the start or the last `granary ctl PID reset`"},
		}}.WriteBody(w, width)
	}
	for _, layer := range order(s.Metrics) {
		fmt.Fprintf(w, "\n%s\n", layer.heading)
		t := term.Table{Header: []string{"", " ", ""}, Fold: true}
		for _, m := range layer.metrics {
			t.Rows = append(t.Rows, []string{"  " + m.Name, Value(m), m.Help})
		}
		t.WriteBody(w, width)
	}
	if v.Classes {
		fmt.Fprintln(w, "\nsize classes that were used, the most unused memory first")
		Classes(s.Classes).Write(w, width)
	}
	if v.Caches {
		fmt.Fprintln(w, "\ncaches")
		caches(s.Caches).Write(w, width)
	}
	if v.Locks {
		fmt.Fprintln(w, "\nlocks")
		locks(s.Locks).Write(w, width)
	}
	if v.Options {
		fmt.Fprintln(w, "\noptions")
		Options(s.Options).Write(w, width)
	}
}

func agreement(s *inspect.Snapshot) string {
	if s.Consistent {
		return "all figures are of one moment"
	}
	return "read while the process ran: sums may differ by " + term.Bytes(s.Bound)
}

type group struct {
	heading string
	metrics []inspect.Metric
}

// order gathers the metrics by layer; layers of later versions come last.
func order(metrics []inspect.Metric) []group {
	var out []group
	left := slices.Clone(metrics)
	for _, l := range layers {
		g := group{heading: l.name + ": " + l.meaning}
		for _, m := range metrics {
			if m.Layer == l.name {
				g.metrics = append(g.metrics, m)
			}
		}
		left = slices.DeleteFunc(left, func(m inspect.Metric) bool { return m.Layer == l.name })
		if len(g.metrics) > 0 {
			out = append(out, g)
		}
	}
	if len(left) > 0 {
		out = append(out, group{heading: "other", metrics: left})
	}
	return out
}

// Classes is the table of the classes that were ever used, by unused memory.
func Classes(classes []inspect.Class) term.Table {
	used := slices.DeleteFunc(slices.Clone(classes), func(c inspect.Class) bool { return c.Allocations == 0 && c.Slabs == 0 && c.Live == 0 })
	slices.SortStableFunc(used, func(a, b inspect.Class) int { return cmp.Compare(b.WasteBytes(), a.WasteBytes()) })
	t := term.Table{Header: []string{" SIZE", " LIVE", " LIVE BYTES", " UNUSED", " CACHED", " DEPOT", " FREE IN SLABS", " SLABS", " PARTIAL", " CLEAN", " ALLOCATIONS", " FREES"},
		Spare: []int{9, 8, 5, 4, 11, 6}}
	for _, c := range used {
		t.Rows = append(t.Rows, []string{
			term.Count(c.Size), term.Count(c.Live), term.Bytes(c.LiveBytes()), term.Bytes(c.WasteBytes()),
			term.Count(c.Cached), term.Count(c.Depot), term.Count(c.SlabFree), term.Count(c.Slabs), term.Count(c.PartialSlabs),
			term.Bytes(c.CleanBytes), term.Count(c.Allocations), term.Count(c.Frees)})
	}
	return t
}

func caches(all []inspect.CacheInfo) term.Table {
	t := term.Table{Header: []string{"CACHE", " OBJECTS", " BYTES", " CAPACITY"}}
	for _, c := range all {
		t.Rows = append(t.Rows, []string{fmt.Sprintf("%s %d", c.Kind, c.Index), term.Count(c.Objects), term.Bytes(c.Bytes), term.Bytes(c.Room)})
	}
	return t
}

func locks(all []inspect.Lock) term.Table {
	t := term.Table{Header: []string{"LOCK", " ACQUIRED", " CONTENDED", "NOW"}}
	for _, l := range all {
		now := ""
		if l.Held {
			now = "held"
		}
		t.Rows = append(t.Rows, []string{l.Name, term.Count(l.Taken), term.Count(l.Contentions), now})
	}
	return t
}

// Options is the table of the settings in effect.
func Options(all []inspect.Option) term.Table {
	t := term.Table{Header: []string{"OPTION", " VALUE", " DEFAULT", "CHANGEABLE", "MEANING"}, Spare: []int{3}, Fold: true}
	for _, o := range all {
		changeable := "at start"
		if o.AtRunTime {
			changeable = "granary ctl"
		}
		t.Rows = append(t.Rows, []string{o.Name, o.Text(o.Value), o.Text(o.Default), changeable, o.Help})
	}
	return t
}
