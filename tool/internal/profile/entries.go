package profile

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/granary-allocator/granary/tool/internal/term"

	"github.com/google/pprof/profile"
)

// An Entry is the sum of all samples with the same names in their stacks.
type Entry struct {
	Stack  []string // functions, the innermost first; "0x4010 in libx.so" without a name
	Values []int64  // as in the profile
}

// Entries adds up stacks with the same names, the largest value of kind `index` first.
func Entries(p *profile.Profile, index int) []Entry { return entriesBy(p, index, Names) }

func entriesBy(p *profile.Profile, index int, names func(*profile.Sample) []string) []Entry {
	sums := map[string]*Entry{}
	for _, s := range p.Sample {
		stack := names(s)
		key := strings.Join(stack, "\n")
		row := sums[key]
		if row == nil {
			row = &Entry{Stack: stack, Values: make([]int64, len(p.SampleType))}
			sums[key] = row
		}
		for i, v := range s.Value {
			row.Values[i] += v
		}
	}
	rows := make([]Entry, 0, len(sums))
	for _, row := range sums {
		rows = append(rows, *row)
	}
	slices.SortFunc(rows, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(abs(b.Values[index]), abs(a.Values[index])), slices.Compare(a.Stack, b.Stack))
	})
	return rows
}

func abs(n int64) int64 { return max(n, -n) }

// folded merges the objects from before the profile.
func folded(s *profile.Sample) []string {
	names := Names(s)
	if n := len(names); n > 0 && names[n-1] == BeforeFrame {
		return names[n-1:]
	}
	return names
}

// Names are the functions of a sample, the innermost first.
func Names(s *profile.Sample) []string { return NamesOf(s.Location) }

// NamesOf are the functions at locations.
func NamesOf(locations []*profile.Location) (names []string) {
	for _, l := range locations {
		if len(l.Line) == 0 {
			names = append(names, unnamed(l))
		}
		for _, line := range l.Line {
			if line.Function != nil {
				names = append(names, line.Function.Name)
			}
		}
	}
	return names
}

// unnamed shows an address as an offset in its file.
func unnamed(l *profile.Location) string {
	if l.Mapping == nil || l.Mapping.File == "" {
		return fmt.Sprintf("%#x", l.Address)
	}
	file := l.Mapping.File[strings.LastIndexByte(l.Mapping.File, '/')+1:]
	return fmt.Sprintf("%s+%#x", file, l.Address-l.Mapping.Start+l.Mapping.Offset)
}

// A Kind is one view of a profile: the value that orders its stacks.
type Kind struct {
	Name   string // of the flag
	Type   string // of the sample value
	Number string // sample value that counts objects, if there is one
	Says   string // in a title
}

// Kinds are the kinds of heap profiles.
var Kinds = []Kind{
	{"inuse", InUseSpace, InUseObjects, "bytes in use"},
	{"alloc", AllocSpace, AllocObjects, "bytes allocated since the profile began"},
	{"pins", PinnedSpace, "", "unused bytes on pages that objects in use pin"},
	{"temporary", TemporarySpace, "", "bytes freed within a millisecond by the thread that allocated it"},
}

// Index returns the position of the value called name in the samples of p, or -1 if there is none.
func Index(p *profile.Profile, name string) int {
	return slices.IndexFunc(p.SampleType, func(t *profile.ValueType) bool { return t.Type == name })
}

// DefaultIndex is the position of the value that p declares as its default, or of the last value.
func DefaultIndex(p *profile.Profile) int {
	if i := Index(p, p.DefaultSampleType); i >= 0 {
		return i
	}
	return len(p.SampleType) - 1
}

// frameLimit is how many functions of a stack a line shows.
const frameLimit = 8

// WriteText prints the stacks with the most of value `index`, at most `limit` (0: all). number is the
// index of the value that counts objects, or -1. Of a difference, shares mean nothing and are left out.
func WriteText(w io.Writer, p *profile.Profile, index, number, limit, width int) {
	entries := slices.DeleteFunc(entriesBy(p, index, folded), func(e Entry) bool { return e.Values[index] == 0 })
	if len(entries) == 0 {
		fmt.Fprintln(w, "There is nothing of this kind in the profile.")
		return
	}
	var total int64
	shares := true
	for _, e := range entries {
		total += e.Values[index]
		shares = shares && e.Values[index] > 0
	}
	more := 0
	if limit > 0 && len(entries) > limit {
		entries, more = entries[:limit], len(entries)-limit
	}
	unit := p.SampleType[index].Unit
	t := term.Table{Header: []string{" " + strings.ToUpper(p.SampleType[index].Type)}}
	if shares {
		t.Header = append(t.Header, " SHARE")
	}
	if number >= 0 {
		t.Header = append(t.Header, " OBJECTS")
	}
	t.Header = append(t.Header, "STACK (innermost first)")
	for _, e := range entries {
		cells := []string{amount(e.Values[index], unit)}
		if shares {
			cells = append(cells, term.Percent(float64(e.Values[index]), float64(total)))
		}
		if number >= 0 {
			cells = append(cells, amount(e.Values[number], "count"))
		}
		t.Rows = append(t.Rows, append(cells, Chain(e.Stack, frameLimit)))
	}
	t.Fold = true
	t.Write(w, width)
	if more > 0 {
		fmt.Fprintf(w, "and %d more stacks\n", more)
	}
}

func amount(n int64, unit string) string {
	switch {
	case n < 0:
		return "-" + amount(-n, unit)
	case unit == "bytes":
		return term.Bytes(uint64(n))
	case unit == "nanoseconds":
		return fmt.Sprintf("%.3g s", float64(n)/1e9)
	}
	return term.Count(uint64(n))
}

// Chain shows a stack in a line, at most `limit` functions of it.
func Chain(stack []string, limit int) string {
	if len(stack) > limit {
		return strings.Join(stack[:limit], " < ") + " < ..."
	}
	return strings.Join(stack, " < ")
}
