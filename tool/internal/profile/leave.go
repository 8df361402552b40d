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

// unwind leaves the allocator's frames one by one.
func (e *exit) unwind(m cpushare.Moment) uint64 {
	const most = 32 // frames
	at, lookup := m.Address, m.Address
	stack, frame, link := m.Stack, m.Frame, m.Link
	read := func(address uint64) uint64 {
		if i := address - m.Stack; i+8 <= uint64(len(m.Top)) && i+8 >= 8 {
			return binary.NativeEndian.Uint64(m.Top[i:])
		}
		return 0
	}
	for range most {
		virtual, inside := e.virtual(lookup)
		if !inside {
			if at == m.Address {
				return 0 // it never was inside
			}
			return at
		}
		rule, ok := e.table.Rule(virtual)
		if !ok {
			return 0
		}
		base := stack
		switch rule.Register {
		case dwarfStack:
		case dwarfFrame:
			base = frame
		default:
			return 0
		}
		base += uint64(rule.Offset)
		if saved, ok := rule.Saved[rule.Return]; ok {
			link = read(base + uint64(saved))
		}
		if saved, ok := rule.Saved[dwarfFrame]; ok {
			frame = read(base + uint64(saved))
		}
		if link == 0 {
			return 0
		}
		at, lookup, stack = link, link-1, base
	}
	return 0
}
