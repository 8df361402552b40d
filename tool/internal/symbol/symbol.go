// Package symbol gives names to the addresses of a profile: from the symbol tables and the DWARF of
// the files that were mapped, from debug packages by build id, from debuginfod servers where they are
// configured, and from the maps that just-in-time compilers leave for perf.
package symbol

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/google/pprof/profile"
	"github.com/ianlancetaylor/demangle"
)

// A Frame is one function at an address; where functions were inlined there are several, the
// innermost first.
type Frame struct {
	Function string // demangled, without parameters
	Linkage  string // as in the symbol table
	File     string
	Line     int
}

// An Outcome is the result of Symbolize: the number of addresses and of those that have a name now.
type Outcome struct {
	Addresses, Named int
	Missing          []string // a message for each file without symbols
}

// Symbolize names the locations of p that have no name yet. A location without a name stays an address,
// with its file and build id, so that it can be named elsewhere.
func (f *Finder) Symbolize(ctx context.Context, p *profile.Profile) Outcome {
	var out Outcome
	w := writer{p: p, known: map[profile.Function]*profile.Function{}}
	for _, fn := range p.Function {
		w.known[key(fn)] = fn
	}
	byMapping := map[*profile.Mapping][]*profile.Location{}
	for _, l := range p.Location {
		if len(l.Line) == 0 {
			byMapping[l.Mapping] = append(byMapping[l.Mapping], l)
		}
	}
	for _, m := range append(slices.Clone(p.Mapping), nil) {
		locations := byMapping[m]
		if len(locations) == 0 {
			continue
		}
		slices.SortFunc(locations, func(a, b *profile.Location) int { return cmp.Compare(a.Address, b.Address) })
		named := f.name(ctx, &w, m, locations)
		out.Addresses += len(locations)
		out.Named += named
		if named == 0 && m != nil && m.File != "" && !m.HasFunctions {
			out.Missing = append(out.Missing, missing(m))
		}
	}
	return out
}

func missing(m *profile.Mapping) string {
	if m.BuildID == "" {
		return fmt.Sprintf("%s has no symbols here", m.File)
	}
	return fmt.Sprintf("%s (build id %s) has no symbols here", m.File, m.BuildID)
}

// name finds the functions of locations, which are in m and ordered by address, and returns how many it found.
func (f *Finder) name(ctx context.Context, w *writer, m *profile.Mapping, locations []*profile.Location) (named int) {
	lookup := f.jitted
	if m != nil && m.File != "" && m.File[0] == '/' {
		o := f.object(ctx, m)
		if o == nil {
			return 0
		}
		lookup = func(address uint64) []Frame {
			virtual, ok := o.virtual(address - m.Start + m.Offset)
			if !ok {
				return nil
			}
			return o.frames(virtual)
		}
		defer func() {
			if named > 0 {
				m.HasFunctions = true
				m.HasFilenames, m.HasLineNumbers, m.HasInlineFrames = o.lines != nil, o.lines != nil, o.lines != nil
			}
		}()
	}
	for _, l := range locations {
		if frames := lookup(l.Address); len(frames) > 0 {
			w.set(l, frames)
			named++
		}
	}
	return named
}

// A writer adds functions to a profile, each once.
type writer struct {
	p     *profile.Profile
	known map[profile.Function]*profile.Function
}

func key(f *profile.Function) profile.Function {
	return profile.Function{Name: f.Name, SystemName: f.SystemName, Filename: f.Filename}
}

func (w *writer) set(l *profile.Location, frames []Frame) {
	for _, f := range frames {
		k := profile.Function{Name: f.Function, SystemName: f.Linkage, Filename: f.File}
		fn := w.known[k]
		if fn == nil {
			fn = &profile.Function{ID: uint64(len(w.p.Function) + 1), Name: f.Function, SystemName: f.Linkage, Filename: f.File}
			w.known[k] = fn
			w.p.Function = append(w.p.Function, fn)
		}
		l.Line = append(l.Line, profile.Line{Function: fn, Line: int64(f.Line)})
	}
}

// Demangle makes names of C++ and Rust readable; others stay as they are.
func Demangle(linkage string) string {
	return demangle.Filter(linkage, demangle.NoParams, demangle.NoEnclosingParams)
}
