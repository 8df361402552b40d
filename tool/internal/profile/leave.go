package profile

import (
	"debug/elf"
	"encoding/binary"
	"fmt"
	"runtime"

	"github.com/granary-allocator/granary/tool/internal/cpushare"
	"github.com/granary-allocator/granary/tool/internal/inspect"
)

// An exit unwinds the allocator's frames to the allocator's caller.
type exit struct {
	table   *FrameTable
	modules []inspect.Module // of the allocator
	loads   []elf.ProgHeader
}

// newExit reads the call frame information of the allocator's file.
func newExit(f *elf.File, library []inspect.Module) (*exit, error) {
	table, err := ReadFrames(f)
	if err != nil {
		return nil, fmt.Errorf("read how the allocator's functions are left: %w", err)
	}
	e := &exit{table: table, modules: library}
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD {
			e.loads = append(e.loads, p.ProgHeader)
		}
	}
	return e, nil
}

// virtual is an address of the process in the terms of the file; false outside the allocator.
func (e *exit) virtual(address uint64) (uint64, bool) {
	for _, m := range e.modules {
		if address < m.Start || address >= m.End {
			continue
		}
		offset := address - m.Start + m.Offset
		for _, p := range e.loads {
			if offset >= p.Off && offset < p.Off+p.Filesz {
				return offset - p.Off + p.Vaddr, true
			}
		}
	}
	return 0, false
}

// The numbers that DWARF has for registers.
var dwarfStack, dwarfFrame = map[string]uint64{"amd64": 7, "arm64": 31}[runtime.GOARCH], map[string]uint64{"amd64": 6, "arm64": 29}[runtime.GOARCH]

// A frame is where a walk over a stack has come to.
type frame struct {
	at, lookup         uint64 // the address; one within the call instruction
	stack, frame, link uint64
	moment             cpushare.Moment
}

func innermost(m cpushare.Moment) frame {
	return frame{at: m.Address, lookup: m.Address, stack: m.Stack, frame: m.Frame, link: m.Link, moment: m}
}

// read is a word of the stack; 0 beyond the part in the sample.
func (f *frame) read(address uint64) uint64 {
	if i := address - f.moment.Stack; i+8 <= uint64(len(f.moment.Top)) && i+8 >= 8 {
		return binary.NativeEndian.Uint64(f.moment.Top[i:])
	}
	return 0
}

// leave continues with the caller's frame, by the rule at a virtual address of the file.
func (e *exit) leave(f *frame, virtual uint64) bool {
	rule, ok := e.table.Rule(virtual)
	if !ok {
		return false
	}
	base := f.stack
	switch rule.Register {
	case dwarfStack:
	case dwarfFrame:
		base = f.frame
	default:
		return false
	}
	base += uint64(rule.Offset)
	if saved, ok := rule.Saved[rule.Return]; ok {
		f.link = f.read(base + uint64(saved))
	}
	if saved, ok := rule.Saved[dwarfFrame]; ok {
		f.frame = f.read(base + uint64(saved))
	}
	if f.link == 0 {
		return false
	}
	f.at, f.lookup, f.stack = f.link, f.link-1, base
	return true
}

// unwind leaves the allocator's frames one by one.
func (e *exit) unwind(m cpushare.Moment) uint64 {
	const most = 32 // frames
	f := innermost(m)
	for range most {
		virtual, inside := e.virtual(f.lookup)
		if !inside {
			if f.at == m.Address {
				return 0 // it never was inside
			}
			return f.at
		}
		if !e.leave(&f, virtual) {
			return 0
		}
	}
	return 0
}

// exits unwind whole stacks, through all files of a process.
type exits []*exit

// walk returns the return addresses, the innermost first.
func (all exits) walk(m cpushare.Moment) (out []uint64) {
	const most = 64 // frames
	f := innermost(m)
	for range most {
		left := false
		for _, e := range all {
			if virtual, inside := e.virtual(f.lookup); inside {
				left = e.leave(&f, virtual)
				break
			}
		}
		if !left {
			return out
		}
		out = append(out, f.at)
		f.link = 0 // only the innermost function may have it in a register
	}
	return out
}
