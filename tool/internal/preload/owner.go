package preload

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"github.com/granary-allocator/granary/tool/internal/procfs"
)

// ErrNotImported marks a program that does not call the symbol itself, though its libraries may.
var ErrNotImported error = silent{}

type silent struct{}

func (silent) Error() string { return "" }

// Owner returns the file whose definition of symbol a running program calls. It reads the address that
// the loader wrote into the program's relocation slot and finds its mapping, so it needs neither a
// debugger nor the program's help. The program must have been started with LD_BIND_NOW=1.
func Owner(proc procfs.FS, pid int, symbol string) (string, error) {
	exe := proc.Path(pid, "exe")
	f, err := elf.Open(exe)
	if err != nil {
		return "", fmt.Errorf("read the program of process %d: %w", pid, err)
	}
	defer f.Close()
	slot, err := slotOf(f, symbol)
	if err != nil {
		return "", fmt.Errorf("program of process %d: %w", pid, err)
	}
	maps, err := proc.Maps(pid)
	if err != nil {
		return "", err
	}
	if f.Type == elf.ET_DYN {
		base, err := loadBase(f, maps, exe)
		if err != nil {
			return "", err
		}
		slot += base
	}
	address, err := peek(proc.Path(pid, "mem"), slot)
	if err != nil {
		return "", fmt.Errorf("read memory of process %d: %w", pid, err)
	}
	m, ok := procfs.Holding(maps, address)
	if !ok {
		return "", fmt.Errorf("process %d calls %s at %#x, which is in no mapping", pid, symbol, address)
	}
	return m.Path, nil
}

// slotOf finds the relocation slot through which the program calls symbol.
func slotOf(f *elf.File, symbol string) (uint64, error) {
	if f.Class != elf.ELFCLASS64 || f.ByteOrder != binary.ByteOrder(binary.LittleEndian) {
		return 0, errors.New("only 64-bit little-endian programs can be checked")
	}
	symbols, err := f.DynamicSymbols()
	if err != nil {
		return 0, fmt.Errorf("read the dynamic symbols: %w", err)
	}
	for _, section := range f.Sections {
		if section.Type != elf.SHT_RELA {
			continue
		}
		data, err := section.Data()
		if err != nil {
			return 0, fmt.Errorf("read the relocations: %w", err)
		}
		if slot, ok := slotIn(data, symbols, symbol); ok {
			return slot, nil
		}
	}
	return 0, fmt.Errorf("it imports no %s%w", symbol, ErrNotImported)
}

// slotIn walks Elf64_Rela entries: offset, info (symbol index in the upper half), addend.
func slotIn(rela []byte, symbols []elf.Symbol, symbol string) (uint64, bool) {
	const entry = 24
	for ; len(rela) >= entry; rela = rela[entry:] {
		index := binary.LittleEndian.Uint64(rela[8:]) >> 32
		// debug/elf leaves out the empty symbol 0.
		if index > 0 && index <= uint64(len(symbols)) && symbols[index-1].Name == symbol {
			return binary.LittleEndian.Uint64(rela), true
		}
	}
	return 0, false
}

// loadBase is where the loader put address 0 of a position-independent program.
func loadBase(f *elf.File, maps []procfs.Mapping, exe string) (uint64, error) {
	path, err := os.Readlink(exe)
	if err != nil {
		return 0, fmt.Errorf("find the program's file: %w", err)
	}
	for _, segment := range f.Progs {
		if segment.Type != elf.PT_LOAD {
			continue
		}
		for _, m := range maps {
			if m.Path == path && m.Offset <= segment.Off && segment.Off-m.Offset < m.End-m.Start {
				return m.Start + segment.Off - m.Offset - segment.Vaddr, nil
			}
		}
	}
	return 0, fmt.Errorf("%s is not in the maps of its own process", path)
}

func peek(mem string, address uint64) (uint64, error) {
	file, err := os.Open(mem)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	var word [8]byte
	if _, err := file.ReadAt(word[:], int64(address)); err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint64(word[:]), nil
}
