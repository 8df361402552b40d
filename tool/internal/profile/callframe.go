package profile

import (
	"cmp"
	"debug/elf"
	"encoding/binary"
	"errors"
	"slices"
)

// A FrameTable is the call frame information of one file.
type FrameTable struct {
	functions []frameFunction // by address
	order     binary.ByteOrder
}

// A frameFunction is a range of code and the DWARF program that describes its frames.
type frameFunction struct {
	start, end uint64
	common     *frameCommon
	program    []byte
}

// frameCommon has the entries that functions share.
type frameCommon struct {
	codeAlign    uint64
	dataAlign    int64
	returnColumn uint64
	program      []byte
	augmented    bool
}

// A FrameRule finds the caller's frame: the canonical address is Register plus Offset, and the registers in
// Saved are stored at these distances from it.
type FrameRule struct {
	Register uint64
	Offset   int64
	Saved    map[uint64]int64
	Return   uint64 // the register or column that holds the return address
}

// errFrameForm says that the information is of a form that is not known here.
var errFrameForm = errors.New("call frame information of an unknown form")

// pcRelative is the usual form of addresses: four bytes, signed, relative to their own address.
const pcRelative = 0x1b

// ReadFrames reads the table of a file. Functions with unusual rules are left out.
func ReadFrames(f *elf.File) (*FrameTable, error) {
	section := f.Section(".eh_frame")
	if section == nil {
		return nil, errors.New("no .eh_frame")
	}
	data, err := section.Data()
	if err != nil {
		return nil, err
	}
	t := &FrameTable{order: f.ByteOrder}
	commons := map[uint64]*frameCommon{}
	for at := uint64(0); at+8 <= uint64(len(data)); {
		size := uint64(t.order.Uint32(data[at:]))
		if size == 0 || size == 0xffffffff || size > uint64(len(data))-at-4 || size < 4 {
			break
		}
		entry := data[at+4 : at+4+size]
		if id := uint64(t.order.Uint32(entry)); id == 0 {
			if c, err := readCommon(entry[4:]); err == nil {
				commons[at] = c
			}
		} else if c := commons[at+4-id]; c != nil {
			t.add(c, entry[4:], section.Addr+at+8)
		}
		at += 4 + size
	}
	slices.SortFunc(t.functions, func(a, b frameFunction) int { return cmp.Compare(a.start, b.start) })
	return t, nil
}

func readCommon(b []byte) (*frameCommon, error) {
	r := &frameReader{b: b}
	version := r.byte()
	text := r.text()
	c := &frameCommon{codeAlign: r.unsigned(), dataAlign: r.signed()}
	if version == 1 {
		c.returnColumn = uint64(r.byte())
	} else {
		c.returnColumn = r.unsigned()
	}
	if len(text) == 0 || text[0] != 'z' {
		return nil, errFrameForm
	}
	c.augmented = true
	extra := &frameReader{b: r.take(r.unsigned())}
	for _, letter := range text[1:] {
		switch letter {
		case 'R':
			if extra.byte() != pcRelative {
				return nil, errFrameForm
			}
		case 'L':
			extra.byte()
		case 'P':
			if encoding := extra.byte(); encoding&0xf != 0xb && encoding&0xf != 0x3 {
				return nil, errFrameForm
			}
			extra.take(4)
		case 'S', 'B':
		default:
			return nil, errFrameForm
		}
	}
	c.program = r.b
	if r.short || extra.short {
		return nil, errFrameForm
	}
	return c, nil
}

// add reads the description of one function, whose addresses begin at `place`.
func (t *FrameTable) add(c *frameCommon, b []byte, place uint64) {
	if len(b) < 9 {
		return
	}
	start := place + uint64(int64(int32(t.order.Uint32(b))))
	length := uint64(t.order.Uint32(b[4:]))
	r := &frameReader{b: b[8:]}
	r.take(r.unsigned())
	if !r.short && length > 0 {
		t.functions = append(t.functions, frameFunction{start, start + length, c, r.b})
	}
}

// Rule is how to leave the frame of the function at address; false where nothing is known.
func (t *FrameTable) Rule(address uint64) (FrameRule, bool) {
	i, _ := slices.BinarySearchFunc(t.functions, address, func(f frameFunction, a uint64) int { return cmp.Compare(f.start, a+1) })
	if i == 0 || address >= t.functions[i-1].end {
		return FrameRule{}, false
	}
	f := t.functions[i-1]
	m := frameMachine{common: f.common, at: f.start, until: address, rule: FrameRule{Saved: map[uint64]int64{}, Return: f.common.returnColumn}}
	if !m.run(f.common.program) {
		return FrameRule{}, false
	}
	m.initial = cloneRule(m.rule)
	return m.rule, m.run(f.program)
}

func cloneRule(r FrameRule) FrameRule {
	saved := make(map[uint64]int64, len(r.Saved))
	for k, v := range r.Saved {
		saved[k] = v
	}
	r.Saved = saved
	return r
}
