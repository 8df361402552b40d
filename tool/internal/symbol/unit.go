package symbol

import "debug/dwarf"

// A unit is one compiled source file.
type unit struct {
	data  *dwarf.Data
	lines *dwarf.LineReader
	begin *dwarf.Entry
	code  []body // of functions
}

// A body is the code of a function.
type body struct {
	ranges [][2]uint64
	entry  *dwarf.Entry
}

func (b body) holds(address uint64) bool {
	for _, r := range b.ranges {
		if r[0] <= address && address < r[1] {
			return true
		}
	}
	return false
}

func (l *lines) newUnit(entry *dwarf.Entry) *unit {
	u := &unit{data: l.data, begin: entry}
	u.lines, _ = l.data.LineReader(entry) // nil: a unit without lines
	u.visit(entry, func(e *dwarf.Entry) (into bool) {
		switch e.Tag {
		case dwarf.TagSubprogram:
			if ranges, err := l.data.Ranges(e); err == nil && len(ranges) > 0 {
				u.code = append(u.code, body{ranges, e})
			}
			return false
		case dwarf.TagNamespace, dwarf.TagStructType, dwarf.TagClassType, dwarf.TagModule:
			return true
		}
		return false
	})
	return u
}

// visit calls f with the entries below parent; below those where f says so, too.
func (u *unit) visit(parent *dwarf.Entry, f func(*dwarf.Entry) (into bool)) {
	r := u.data.Reader()
	r.Seek(parent.Offset)
	if e, err := r.Next(); err != nil || e == nil || !e.Children {
		return
	}
	for depth := 1; depth > 0; {
		e, err := r.Next()
		switch {
		case err != nil || e == nil:
			return
		case e.Tag == 0:
			depth--
		case f(e):
			if e.Children {
				depth++
			}
		default:
			r.SkipChildren()
		}
	}
}

// frames are the function at address and those inlined into it, the innermost first.
func (u *unit) frames(address uint64) []Frame {
	chain := u.chain(address)
	if len(chain) == 0 {
		return nil
	}
	file, line := u.line(address)
	var out []Frame
	for i := len(chain) - 1; i >= 0; i-- {
		linkage, name := u.names(chain[i], 0)
		if linkage != "" {
			name = Demangle(linkage)
		}
		out = append(out, Frame{Function: name, Linkage: linkage, File: file, Line: line})
		file, line = u.call(chain[i])
	}
	return out
}

// chain is the function that holds address and the inlined ones in it, outermost first.
func (u *unit) chain(address uint64) []*dwarf.Entry {
	for _, b := range u.code {
		if !b.holds(address) {
			continue
		}
		chain := []*dwarf.Entry{b.entry}
		u.visit(b.entry, func(e *dwarf.Entry) bool {
			if e.Tag != dwarf.TagInlinedSubroutine && e.Tag != dwarf.TagLexDwarfBlock {
				return false
			}
			ranges, err := u.data.Ranges(e)
			if err != nil || !(body{ranges: ranges}).holds(address) {
				return e.Tag == dwarf.TagLexDwarfBlock && len(ranges) == 0
			}
			if e.Tag == dwarf.TagInlinedSubroutine {
				chain = append(chain, e)
			}
			return true
		})
		return chain
	}
	return nil
}

func (u *unit) line(address uint64) (string, int) {
	if u.lines == nil {
		return "", 0
	}
	var e dwarf.LineEntry
	if err := u.lines.SeekPC(address, &e); err != nil || e.File == nil {
		return "", 0
	}
	return e.File.Name, e.Line
}

// call is where an inlined function was called.
func (u *unit) call(e *dwarf.Entry) (string, int) {
	line, _ := e.Val(dwarf.AttrCallLine).(int64)
	index, ok := e.Val(dwarf.AttrCallFile).(int64)
	if !ok || u.lines == nil {
		return "", int(line)
	}
	// The list of files is complete once the line program has been read.
	if files := u.lines.Files(); index >= 0 && index < int64(len(files)) && files[index] != nil {
		return files[index].Name, int(line)
	}
	return "", int(line)
}

// maxOrigins bounds the references followed to find a name: for example, to the declaration of an
// abstract instance of a function.
const maxOrigins = 4

// names are the linkage name and the plain name of a function.
func (u *unit) names(e *dwarf.Entry, depth int) (linkage, name string) {
	linkage, _ = e.Val(dwarf.AttrLinkageName).(string)
	name, _ = e.Val(dwarf.AttrName).(string)
	if linkage != "" || depth == maxOrigins {
		return linkage, name
	}
	for _, attr := range []dwarf.Attr{dwarf.AttrAbstractOrigin, dwarf.AttrSpecification} {
		offset, ok := e.Val(attr).(dwarf.Offset)
		if !ok {
			continue
		}
		r := u.data.Reader()
		r.Seek(offset)
		origin, err := r.Next()
		if err != nil || origin == nil {
			continue
		}
		further, plain := u.names(origin, depth+1)
		if name == "" {
			name = plain
		}
		if further != "" {
			return further, name
		}
	}
	return linkage, name
}
