package trace

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/granary-allocator/granary/tool/internal/procfs"
	"github.com/granary-allocator/granary/tool/internal/symbol"

	"github.com/google/pprof/profile"
)

// nameStacks puts the recorded stacks into the header, as names of functions. Stacks of the same names become one.
func (r *recording) nameStacks(h *Header) {
	r.numbers = map[uint32]uint32{}
	if len(r.stacks) == 0 {
		return
	}
	names := r.functions()
	index, known := map[string]int{}, map[string]uint32{}
	for _, number := range slices.Sorted(maps.Keys(r.stacks)) {
		var stack []int
		for _, address := range r.stacks[number] {
			for _, name := range names[address] {
				i, found := index[name]
				if !found {
					i = len(h.Functions)
					index[name] = i
					h.Functions = append(h.Functions, name)
				}
				stack = append(stack, i)
			}
		}
		key := fmt.Sprint(stack)
		if known[key] == 0 {
			h.Stacks = append(h.Stacks, stack)
			known[key] = uint32(len(h.Stacks))
		}
		r.numbers[number] = known[key]
	}
}

// functions are the names at each return address, the innermost of inlined functions first; where there is none, the file and
// the offset in it.
func (r *recording) functions() map[uint64][]string {
	p := &profile.Profile{Mapping: mappings(r.maps)}
	byAddress := map[uint64]*profile.Location{}
	for _, frames := range r.stacks {
		for _, address := range frames {
			if byAddress[address] == nil {
				// The call is before the return address.
				l := &profile.Location{ID: uint64(len(p.Location) + 1), Address: address - 1, Mapping: mappingOf(p.Mapping, address-1)}
				byAddress[address] = l
				p.Location = append(p.Location, l)
			}
		}
	}
	finder := symbol.NewFinder(os.Getenv)
	finder.Servers, finder.FunctionsOnly = nil, true
	finder.Symbolize(context.Background(), p)
	names := map[uint64][]string{}
	for address, l := range byAddress {
		names[address] = namesOf(l)
	}
	return names
}

func namesOf(l *profile.Location) (names []string) {
	for _, line := range l.Line {
		names = append(names, line.Function.Name)
	}
	switch {
	case len(names) > 0:
		return names
	case l.Mapping != nil:
		return []string{fmt.Sprintf("%s+%#x", filepath.Base(l.Mapping.File), l.Address-l.Mapping.Start+l.Mapping.Offset)}
	}
	return []string{fmt.Sprintf("%#x", l.Address)}
}

// mappings parses rows of /proc/PID/maps, and drops what is no such row. Of rows at the same address, the last one counts.
func mappings(rows []string) []*profile.Mapping {
	byStart := map[uint64]*profile.Mapping{}
	for _, row := range rows {
		if m, ok := procfs.ParseMapping(row); ok && strings.HasPrefix(m.Path, "/") && m.Start < m.End {
			byStart[m.Start] = &profile.Mapping{ID: m.Start, Start: m.Start, Limit: m.End, Offset: m.Offset, File: m.Path}
		}
	}
	var out []*profile.Mapping
	for _, start := range slices.Sorted(maps.Keys(byStart)) {
		out = append(out, byStart[start])
	}
	return out
}

func mappingOf(rows []*profile.Mapping, address uint64) *profile.Mapping {
	i := slices.IndexFunc(rows, func(m *profile.Mapping) bool { return address >= m.Start && address < m.Limit })
	if i < 0 {
		return nil
	}
	return rows[i]
}

// dropNames replaces the names of functions by numbers.
func (h *Header) dropNames() {
	h.Program, h.Allocator, h.PID = "", "", 0
	for i := range h.Functions {
		h.Functions[i] = fmt.Sprintf("function %d", i+1)
	}
}

// checkStacks finds stacks of functions that are not there.
func (h Header) checkStacks() error {
	for _, stack := range h.Stacks {
		for _, i := range stack {
			if i < 0 || i >= len(h.Functions) {
				return fmt.Errorf("its header is corrupted: a stack has function %d of %d", i, len(h.Functions))
			}
		}
	}
	return nil
}

// StackOf is an event's stack as text, the innermost function first; at most so many of them.
func (h Header) StackOf(number uint32, most int) string {
	if number == 0 || int(number) > len(h.Stacks) {
		return "unknown"
	}
	var names []string
	for _, i := range h.Stacks[number-1] {
		if len(names) == most {
			return strings.Join(names, " < ") + " < ..."
		}
		names = append(names, h.Functions[i])
	}
	return strings.Join(names, " < ")
}
