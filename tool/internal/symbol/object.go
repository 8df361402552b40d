package symbol

import (
	"cmp"
	"debug/dwarf"
	"debug/elf"
	"errors"
	"slices"
	"strings"
)

// codePage is the least grain of mappings of code.
const codePage = 1 << 12

// An object is a program or library with the names and ranges of its functions.
type object struct {
	segments  []elf.ProgHeader
	functions []function // by address
	lines     *lines     // nil without DWARF
}

// A function is a symbol; end 0 means that its size is not known.
type function struct {
	start, end uint64
	name       string
}

// newObject reads a mapped file and the file of its debug symbols; either may be nil.
func newObject(mapped, debug *elf.File, functionsOnly bool) *object {
	o := &object{}
	for _, p := range progs(mapped) {
		if p.Type == elf.PT_LOAD {
			o.segments = append(o.segments, p.ProgHeader)
		}
	}
	for _, f := range []*elf.File{debug, mapped} {
		if f == nil {
			continue
		}
		if len(o.functions) == 0 {
			o.functions = functionsOf(f)
		}
		if o.lines == nil && !functionsOnly {
			o.lines = newLines(f)
		}
	}
	return o
}

func progs(f *elf.File) []*elf.Prog {
	if f == nil {
		return nil
	}
	return f.Progs
}

// useful is false where nothing can be named.
func (o *object) useful() bool { return len(o.functions) > 0 || o.lines != nil }

// functionsOf reads the symbol table; without one, the exported symbols.
func functionsOf(f *elf.File) []function {
	symbols, err := f.Symbols()
	if err != nil || !anyFunction(symbols) {
		if symbols, err = f.DynamicSymbols(); err != nil {
			return nil
		}
	}
	var out []function
	for _, s := range symbols {
		kind := elf.ST_TYPE(s.Info)
		if (kind != elf.STT_FUNC && kind != elf.STT_GNU_IFUNC) || s.Value == 0 || s.Section == elf.SHN_UNDEF {
			continue
		}
		name, _, _ := strings.Cut(s.Name, "@") // without the version of the symbol
		out = append(out, function{s.Value, s.Value + s.Size, name})
	}
	slices.SortStableFunc(out, func(a, b function) int { return cmp.Compare(a.start, b.start) })
	return out
}

func anyFunction(symbols []elf.Symbol) bool {
	return slices.ContainsFunc(symbols, func(s elf.Symbol) bool {
		return elf.ST_TYPE(s.Info) == elf.STT_FUNC && s.Section != elf.SHN_UNDEF
	})
}

// virtual is the address in the file's own terms of a place in the file.
func (o *object) virtual(offset uint64) (uint64, bool) {
	for _, s := range o.segments {
		// The kernel maps whole pages: the bytes before the segment on its first page belong to it.
		if begin := s.Off &^ (codePage - 1); offset >= begin && offset < s.Off+s.Filesz {
			return s.Vaddr - s.Off + offset, true
		}
	}
	return 0, false
}

// frames are the functions at an address of the file, the innermost first.
func (o *object) frames(address uint64) []Frame {
	symbol, ok := o.function(address)
	var frames []Frame
	if o.lines != nil {
		frames = o.lines.frames(address)
	}
	if !ok {
		return frames
	}
	if len(frames) == 0 {
		return []Frame{{Function: Demangle(symbol), Linkage: symbol}}
	}
	// The symbol table knows the outermost function with its whole name.
	last := &frames[len(frames)-1]
	last.Function, last.Linkage = Demangle(symbol), symbol
	return frames
}

// function is the symbol that holds address; one without a size reaches to the next.
func (o *object) function(address uint64) (string, bool) {
	i, _ := slices.BinarySearchFunc(o.functions, address, func(f function, a uint64) int { return cmp.Compare(f.start, a+1) })
	const back = 8 // aliases and nested symbols in front
	for k := i - 1; k >= 0 && k >= i-back; k-- {
		f := o.functions[k]
		if address < f.end || (f.end == f.start && k == i-1) {
			return f.name, true
		}
	}
	return "", false
}

// lines is the DWARF of a file, read as far as it is needed.
type lines struct {
	data   *dwarf.Data
	reader *dwarf.Reader // finds units
	units  map[dwarf.Offset]*unit
}

func newLines(f *elf.File) *lines {
	if f.Section(".debug_info") == nil && f.Section(".zdebug_info") == nil {
		return nil
	}
	data, err := f.DWARF()
	if err != nil {
		return nil // damaged, or of a kind that is not known: the symbol table remains
	}
	return &lines{data: data, reader: data.Reader(), units: map[dwarf.Offset]*unit{}}
}

// frames finds the line of an address and the functions that were inlined there.
func (l *lines) frames(address uint64) []Frame {
	entry, err := l.reader.SeekPC(address)
	if err != nil {
		if !errors.Is(err, dwarf.ErrUnknownPC) {
			l.reader = l.data.Reader()
		}
		return nil
	}
	u := l.units[entry.Offset]
	if u == nil {
		u = l.newUnit(entry)
		l.units[entry.Offset] = u
	}
	return u.frames(address)
}
