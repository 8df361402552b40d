package inspect

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
)

// A Range is a range of addresses, End excluded.
type Range struct {
	Start, End uint64
}

// Bytes is the length of r.
func (r Range) Bytes() uint64 { return r.End - r.Start }

// An image is a file that is mapped from its beginning: a program or a library.
type image struct {
	start uint64
	path  string
}

// The note that marks the library. Details: core/src/inspection/note.h.
const (
	noteName    = "Granary"
	noteType    = 1
	noteVersion = 1
	maxNotes    = 1 << 16 // bytes of notes read in one file
	maxHeaders  = 64      // program headers read in one file
)

// The bases, in the order of the note.
const (
	baseLayers = iota
	basePageMap
	baseAnchor
	baseOptions
	baseThreads
	baseSystem
	baseUpkeep
	baseReports
	knownBases
)

// A mark is the content of a note: addresses in the target.
type mark struct {
	version     uint64
	requestWord uint64 // a futex in the file, on which background threads wait
	descriptor  uint64
	bases       []uint64
	image       image
}

// findMarks searches the mapped files for the note. It skips damaged ELF files and files of other formats.
func findMarks(m memory, images []image) (marks []mark, err error) {
	for _, image := range images {
		found, err := marksOf(m, image)
		if err != nil && !errors.Is(err, errUnmapped) {
			return nil, err
		}
		marks = append(marks, found...)
	}
	return marks, nil
}

// A noteBlock is a segment of notes and its address.
type noteBlock struct {
	bytes   []byte
	address uint64
}

func marksOf(m memory, image image) (marks []mark, err error) {
	blocks, err := noteBlocks(m, image)
	for _, b := range blocks {
		marks = append(marks, parseNotes(b.bytes, b.address, image)...)
	}
	return marks, err
}

// noteBlocks returns the notes of a file, and nothing for a damaged file or one of another format.
func noteBlocks(m memory, image image) ([]noteBlock, error) {
	const headerBytes, programBytes = 64, 56
	header, err := readAt(m, image.start, headerBytes)
	if err != nil {
		return nil, err
	}
	if string(header[:4]) != elf.ELFMAG || header[elf.EI_CLASS] != byte(elf.ELFCLASS64) || header[elf.EI_DATA] != byte(elf.ELFDATA2LSB) {
		return nil, nil
	}
	offset := binary.LittleEndian.Uint64(header[32:])
	count := int(binary.LittleEndian.Uint16(header[56:]))
	if binary.LittleEndian.Uint16(header[54:]) != programBytes || count > maxHeaders || offset > maxNotes {
		return nil, nil
	}
	table, err := readAt(m, image.start+offset, count*programBytes)
	if err != nil {
		return nil, err
	}
	return noteBlocksOf(m, image, table, programBytes)
}

func noteBlocksOf(m memory, image image, table []byte, rowBytes int) (blocks []noteBlock, err error) {
	bias, mapped := uint64(0), false
	rows := func(kind elf.ProgType, visit func(offset, address, size uint64)) {
		for row := table; len(row) >= rowBytes; row = row[rowBytes:] {
			if elf.ProgType(binary.LittleEndian.Uint32(row)) == kind {
				visit(binary.LittleEndian.Uint64(row[8:]), binary.LittleEndian.Uint64(row[16:]), binary.LittleEndian.Uint64(row[32:]))
			}
		}
	}
	rows(elf.PT_LOAD, func(offset, address, _ uint64) {
		if offset == 0 && !mapped {
			bias, mapped = image.start-address, true
		}
	})
	if !mapped {
		return nil, nil
	}
	rows(elf.PT_NOTE, func(_, address, size uint64) {
		if size > maxNotes || err != nil {
			return
		}
		notes, readErr := readAt(m, bias+address, int(size))
		if readErr != nil {
			err = readErr
			return
		}
		blocks = append(blocks, noteBlock{notes, bias + address})
	})
	return blocks, err
}

// visitNotes calls visit for each note; offset is the position of the note's descriptor in notes.
func visitNotes(notes []byte, visit func(name string, kind uint32, descriptor []byte, offset int)) {
	const headBytes = 12
	for at := 0; len(notes)-at >= headBytes; {
		name := int(binary.LittleEndian.Uint32(notes[at:]))
		size := int(binary.LittleEndian.Uint32(notes[at+4:]))
		kind := binary.LittleEndian.Uint32(notes[at+8:])
		nameEnd := at + headBytes + (name+3)&^3
		end := nameEnd + (size+3)&^3
		if name > len(notes) || size > len(notes) || end > len(notes) {
			return
		}
		text := string(bytes.TrimRight(notes[at+headBytes:at+headBytes+name], "\x00"))
		visit(text, kind, notes[nameEnd:nameEnd+size], nameEnd)
		at = end
	}
}

// parseNotes reads the notes at `address`.
func parseNotes(notes []byte, address uint64, image image) (marks []mark) {
	visitNotes(notes, func(name string, kind uint32, descriptor []byte, offset int) {
		if kind != noteType || name != noteName {
			return
		}
		if m, ok := parseMark(descriptor, address+uint64(offset)); ok {
			m.image = image
			marks = append(marks, m)
		}
	})
	return marks
}

// parseMark reads words that hold distances from themselves.
func parseMark(words []byte, address uint64) (mark, bool) {
	if len(words) < 8*(2+baseReports) { // older libraries keep no reports
		return mark{}, false
	}
	word := func(i int) uint64 { return binary.LittleEndian.Uint64(words[8*i:]) }
	m := mark{version: word(0), requestWord: address}
	for i := 1; i < len(words)/8; i++ {
		m.bases = append(m.bases, address+8*uint64(i)+word(i))
	}
	m.descriptor, m.bases = m.bases[0], m.bases[1:]
	return m, true
}
