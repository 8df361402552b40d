package inspect

import (
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
)

// core is the memory in a core file. What the kernel left out because it is unchanged from a file is
// read from that file, if it is still the same.
type core struct {
	file     *os.File
	segments []segment // by address
	mappings []mapping // by address
	files    map[string]*os.File
	missing  uint64 // bytes that its own headers say it has, beyond its end
}

// A segment is memory that the core file holds.
type segment struct {
	start, end uint64 // end of the part in the file
	offset     int64
}

// A mapping is a line of the core's list of mapped files.
type mapping struct {
	start, end, offset uint64
	path               string
}

const (
	ntFile         = 0x46494c45
	maxCoreNotes   = 1 << 26
	maxCoreMapping = 1 << 20
	headPage       = 1 << 12
)

// OpenCore prepares to read a core file of a process that ran Granary.
func OpenCore(path string) (*Target, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, failure(ErrGone, "the core file cannot be opened: %v", err)
	}
	c, err := parseCore(file)
	if err != nil {
		file.Close()
		return nil, err
	}
	t, err := open(c, c.images())
	switch {
	case err != nil && c.missing > 0:
		err = c.cutOff()
	case errors.Is(err, ErrNotGranary):
		err = failure(ErrNotGranary, "%s is of a process that did not run Granary", path)
	}
	if err != nil {
		c.close()
		return nil, err
	}
	return t, nil
}

func (c *core) cutOff() error {
	return failure(ErrDamaged, "%s is cut off, the last %d MiB of it are not there, and the heap cannot be read without them: let the whole be written, with `ulimit -c unlimited` and room on the disk", c.file.Name(), (c.missing+1<<20-1)>>20)
}

func parseCore(file *os.File) (*core, error) {
	f, err := elf.NewFile(file)
	if err != nil { // cut off, it may lack the sections that some debuggers write at its end
		f, err = elf.NewFile(withoutSections{file})
	}
	if err != nil || f.Type != elf.ET_CORE || f.Class != elf.ELFCLASS64 || f.ByteOrder != binary.ByteOrder(binary.LittleEndian) {
		return nil, failure(ErrDamaged, "%s is not a core file of a 64-bit program: name a core file or a process", file.Name())
	}
	info, err := file.Stat()
	if err != nil {
		return nil, failure(ErrDamaged, "%s cannot be read: %v", file.Name(), err)
	}
	c := &core{file: file, files: map[string]*os.File{}}
	size := uint64(max(info.Size(), 0))
	for _, p := range f.Progs {
		if end := p.Off + p.Filesz; end > p.Off && end > size {
			c.missing = max(c.missing, end-size)
		}
		switch p.Type {
		case elf.PT_LOAD:
			if p.Filesz > 0 && p.Off < 1<<62 && p.Vaddr+p.Filesz > p.Vaddr {
				c.segments = append(c.segments, segment{p.Vaddr, p.Vaddr + p.Filesz, int64(p.Off)})
			}
		case elf.PT_NOTE:
			if p.Filesz > maxCoreNotes {
				continue
			}
			notes := make([]byte, p.Filesz)
			if _, err := p.ReadAt(notes, 0); err != nil {
				continue // cut off: the libraries are found in its memory
			}
			c.mappings = append(c.mappings, mappingsIn(notes)...)
		}
	}
	slices.SortFunc(c.segments, func(a, b segment) int { return cmp.Compare(a.start, b.start) })
	slices.SortFunc(c.mappings, func(a, b mapping) int { return cmp.Compare(a.start, b.start) })
	return c, nil
}

// withoutSections reads an ELF file as if it had no sections; a core file needs none.
type withoutSections struct{ file io.ReaderAt }

func (w withoutSections) ReadAt(p []byte, at int64) (int, error) {
	// Their offset and their number.
	const offset, offsetEnd, count, countEnd = 0x28, 0x30, 0x3c, 0x40
	n, err := w.file.ReadAt(p, at)
	for i := range p[:n] {
		if place := at + int64(i); offset <= place && place < offsetEnd || count <= place && place < countEnd {
			p[i] = 0
		}
		if at+int64(i) >= countEnd {
			break
		}
	}
	return n, err
}

// mappingsIn finds the list of mapped files (NT_FILE) among notes.
func mappingsIn(notes []byte) []mapping {
	const headBytes = 12
	for at := 0; len(notes)-at >= headBytes; {
		name, size := int(binary.LittleEndian.Uint32(notes[at:])), int(binary.LittleEndian.Uint32(notes[at+4:]))
		kind := binary.LittleEndian.Uint32(notes[at+8:])
		begin := at + headBytes + (name+3)&^3
		end := begin + (size+3)&^3
		if end > len(notes) || end < at {
			return nil
		}
		if kind == ntFile {
			return parseMappings(notes[begin : begin+size])
		}
		at = end
	}
	return nil
}

func parseMappings(b []byte) (out []mapping) {
	if len(b) < 16 {
		return nil
	}
	word := func(i uint64) uint64 { return binary.LittleEndian.Uint64(b[8*i:]) }
	count, page := word(0), word(1)
	if count > maxCoreMapping || count*24+16 > uint64(len(b)) {
		return nil
	}
	names := b[16+24*count:]
	for i := range count {
		end := bytes.IndexByte(names, 0)
		if end < 0 {
			return out
		}
		out = append(out, mapping{word(2 + 3*i), word(3 + 3*i), word(4+3*i) * page, string(names[:end])})
		names = names[end+1:]
	}
	return out
}

// images are the files that were mapped from their start; where the core does not list them, the
// pieces of memory that begin as such files do.
func (c *core) images() (images []image) {
	if len(c.mappings) == 0 {
		for _, s := range c.segments {
			var head [4]byte
			if _, err := c.file.ReadAt(head[:], s.offset); err == nil && string(head[:]) == elf.ELFMAG {
				images = append(images, image{start: s.start})
			}
		}
		return images
	}
	for _, m := range c.mappings {
		if m.offset == 0 {
			images = append(images, image{m.start, strings.TrimSuffix(m.path, " (deleted)")})
		}
	}
	return images
}

func (c *core) close() error {
	for _, f := range c.files {
		if f != nil {
			f.Close()
		}
	}
	return c.file.Close()
}

func (c *core) read(spans []span) error {
	for _, s := range spans {
		for address, to := s.address, s.to; len(to) > 0; {
			n, err := c.piece(address, to)
			if err != nil {
				return err
			}
			address, to = address+uint64(n), to[n:]
		}
	}
	return nil
}

// piece reads from the segment or the file that holds address, up to the end of that segment or file.
func (c *core) piece(address uint64, to []byte) (int, error) {
	i, _ := slices.BinarySearchFunc(c.segments, address, func(s segment, a uint64) int { return cmp.Compare(s.end, a+1) })
	if i < len(c.segments) && c.segments[i].start <= address {
		s := c.segments[i]
		to = to[:min(uint64(len(to)), s.end-address)]
		if _, err := c.file.ReadAt(to, s.offset+int64(address-s.start)); err != nil {
			return 0, unmapped(address)
		}
		return len(to), nil
	}
	end := ^uint64(0)
	if i < len(c.segments) {
		end = c.segments[i].start
	}
	i, _ = slices.BinarySearchFunc(c.mappings, address, func(m mapping, a uint64) int { return cmp.Compare(m.end, a+1) })
	if i == len(c.mappings) || c.mappings[i].start > address {
		return 0, unmapped(address)
	}
	m := c.mappings[i]
	to = to[:min(uint64(len(to)), m.end-address, end-address)]
	f := c.original(m.path)
	if f == nil {
		return 0, unmapped(address)
	}
	if _, err := f.ReadAt(to, int64(m.offset+address-m.start)); err != nil {
		return 0, unmapped(address)
	}
	return len(to), nil
}

// original is the file that was mapped; nil if it is gone or is another by now, which its first page
// shows: it holds the identity of the build.
func (c *core) original(path string) *os.File {
	if f, ok := c.files[path]; ok {
		return f
	}
	c.files[path] = nil
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	if !c.sameHead(f, path) {
		f.Close()
		return nil
	}
	c.files[path] = f
	return f
}

func (c *core) sameHead(f *os.File, path string) bool {
	var now, then [headPage]byte
	for _, m := range c.mappings {
		if m.path != path || m.offset != 0 {
			continue
		}
		n, err := f.ReadAt(now[:], 0)
		if err != nil && n < headPage {
			return false
		}
		for _, s := range c.segments {
			if s.start == m.start && s.end-s.start >= headPage {
				_, err := c.file.ReadAt(then[:], s.offset)
				return err == nil && now == then
			}
		}
	}
	return false
}
