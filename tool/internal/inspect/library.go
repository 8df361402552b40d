package inspect

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
)

// A Library is the description in a file of Granary's library, read without a process.
type Library struct {
	Version string
	Metrics []Metric // their values are zero
	Classes []Class  // sizes only
	Options []Option // as they are by default
}

// OpenLibrary reads libgranary.so, or a program that the library is linked into.
func OpenLibrary(path string) (*Library, error) {
	file, err := elf.Open(path)
	if err != nil {
		return nil, failure(ErrNotGranary, "%s cannot be read as a library: %v", path, err)
	}
	defer file.Close()
	return ReadLibrary(file, path)
}

// ReadLibrary is OpenLibrary for a file that is open already; errors call it path.
func ReadLibrary(file *elf.File, path string) (*Library, error) {
	m, start := fileMemory{file}, uint64(0)
	for _, p := range file.Progs {
		if p.Type == elf.PT_LOAD && p.Off == 0 {
			start = p.Vaddr
		}
	}
	marks, err := findMarks(m, []image{{start, path}})
	if err != nil {
		return nil, err
	}
	err = failure(ErrNotGranary, "%s does not hold Granary: name libgranary.so", path)
	for _, mark := range marks {
		var l *layout
		if mark.version != noteVersion {
			err = failure(ErrVersion, "%s is marked in version %d, this command knows version %d: use the granary command that came with it", path, mark.version, noteVersion)
		} else if l, err = readLayout(m, mark.descriptor); err == nil {
			return l.asLibrary(), nil
		}
	}
	return nil, err
}

func (l *layout) asLibrary() *Library {
	out := &Library{Version: l.library}
	for _, row := range l.metrics {
		out.Metrics = append(out.Metrics, row.Metric)
	}
	for _, row := range l.options {
		o := row.Option
		o.Value = o.Default
		out.Options = append(out.Options, o)
	}
	small := int(l.constants["classes.small"])
	for i, row := range l.classes[1:] {
		out.Classes = append(out.Classes, Class{Size: row.size, Smaller: row.smaller, Small: i+1 < small, SlabBytes: row.slabBytes, SlabObjects: row.slabObjects})
	}
	return out
}

// fileMemory is the memory that a file would be mapped to at the addresses it names.
type fileMemory struct{ file *elf.File }

func (m fileMemory) read(spans []span) error {
	for _, s := range spans {
		if err := m.one(s); err != nil {
			return err
		}
	}
	return nil
}

func (m fileMemory) one(s span) error {
	for _, p := range m.file.Progs {
		if p.Type != elf.PT_LOAD || s.address < p.Vaddr || s.address-p.Vaddr+uint64(len(s.to)) > p.Filesz {
			continue
		}
		if _, err := p.ReadAt(s.to, int64(s.address-p.Vaddr)); err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read the library's file at %#x: %w", s.address, err)
		}
		return nil
	}
	return unmapped(s.address)
}

func (m fileMemory) close() error { return nil }
