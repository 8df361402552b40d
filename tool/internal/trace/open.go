package trace

import (
	"errors"
	"fmt"
	"iter"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// A Trace is an open file. It is not safe for concurrent use.
type Trace struct {
	Header Header
	// Findings are those of the last complete reading of Events.
	Findings Findings
	content  content
	damage   []string // known before the events are read
	mapped   []byte
}

// content is common to both formats.
type content interface {
	events(found *Findings, bare bool) iter.Seq[Event]
}

// Open maps the trace at path, as recorded or packed. A trace that is cut or corrupted is an error only if nothing in
// it can be read.
func Open(path string) (*Trace, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() == 0 {
		return nil, fmt.Errorf("%s is no trace: it is empty or no file", path)
	}
	size, err := used(file, info.Size())
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w", path, err)
	}
	mapped, err := unix.Mmap(int(file.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("map %s: %w", path, err)
	}
	t, err := Parse(mapped)
	if err != nil {
		_ = unix.Munmap(mapped)
		return nil, fmt.Errorf("%s cannot be read: %w", path, err)
	}
	t.mapped = mapped
	return t, nil
}

// used is how much of the file holds data. The rest of a recording is a hole, which a full file system may not be able to map.
func used(file *os.File, size int64) (int64, error) {
	head := make([]byte, min(size, headerBytes))
	if _, err := file.ReadAt(head, 0); err != nil {
		return 0, err
	}
	if !hasMagic(head, recordingMagic) {
		if !hasMagic(head, packedMagic) {
			return 0, errNoTrace
		}
		return size, nil
	}
	h, err := readRecordingHeader(head)
	if err != nil {
		return 0, err
	}
	if h.Chunks >= uint64(size)/chunkBytes {
		return size, nil
	}
	return headerBytes + int64(h.Chunks)*chunkBytes, nil
}

var errNoTrace = errors.New("it is no trace; `granary record` writes one")

// Parse reads a trace from memory, which must not change while the trace is in use.
func Parse(data []byte) (*Trace, error) {
	t := &Trace{}
	var err error
	switch {
	case hasMagic(data, recordingMagic):
		var r *recording
		if r, err = readRecording(data, &t.Findings); err == nil {
			t.content, t.Header = r, r.header.window().header()
			t.Header.Overwritten = r.header.clock()(r.header.Overwritten)
			r.nameStacks(&t.Header)
			t.Header.Size = int64(headerBytes + min(uint64(len(data)-headerBytes), r.header.Chunks*chunkBytes))
		}
	case hasMagic(data, packedMagic):
		var p *packed
		if p, err = readPacked(data); err == nil {
			t.content, t.Header = p, p.header
			t.Header.Size = int64(len(data))
		}
	default:
		err = errNoTrace
	}
	t.damage = t.Findings.Damage
	return t, err
}

func hasMagic(data []byte, magic string) bool {
	return len(data) >= len(magic) && string(data[:len(magic)]) == magic
}

// Events returns the events in their order over all threads.
func (t *Trace) Events() iter.Seq[Event] { return t.read(false) }

// BareEvents returns them without what is known of the objects that end, apart from number, place and written bytes. It
// takes half of the time.
func (t *Trace) BareEvents() iter.Seq[Event] { return t.read(true) }

func (t *Trace) read(bare bool) iter.Seq[Event] {
	return func(yield func(Event) bool) {
		found := Findings{Damage: slices.Clone(t.damage)}
		t.content.events(&found, bare)(yield)
		t.Findings = found
	}
}

// Close unmaps the file.
func (t *Trace) Close() {
	if t.mapped != nil {
		_ = unix.Munmap(t.mapped)
		t.mapped = nil
	}
}
