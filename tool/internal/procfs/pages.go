package procfs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
)

// Pages says of each page of a range whether it is in memory. It needs no more than the right to
// read the process.
type Pages struct {
	file *os.File
	size uint64 // of a page
}

// A PageState is what the kernel says about one page.
type PageState uint64

const (
	pagePresent PageState = 1 << 63
	pageSwapped PageState = 1 << 62
)

// Resident is true when the page is in memory. The shared page of zeros counts as well, although RSS
// leaves it out.
func (p PageState) Resident() bool { return p&pagePresent != 0 }

// Swapped is true when the page lies in swap.
func (p PageState) Swapped() bool { return p&pageSwapped != 0 }

// Pages opens the page map of process pid.
func (fs FS) Pages(pid int) (*Pages, error) {
	file, err := os.Open(fs.Path(pid, "pagemap"))
	if err != nil {
		return nil, fmt.Errorf("read pagemap of process %d: %w", pid, err)
	}
	return &Pages{file: file, size: uint64(os.Getpagesize())}, nil
}

// Close ends the reading.
func (p *Pages) Close() error { return p.file.Close() }

// PageSize is the size of a page in bytes.
func (p *Pages) PageSize() uint64 { return p.size }

// Read fills states for the pages from start on. What lies beyond the address space stays zero.
func (p *Pages) Read(start uint64, states []PageState) error {
	raw := make([]byte, 8*len(states))
	n, err := p.file.ReadAt(raw, int64(start/p.size*8))
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read the page map at %#x: %w", start, err)
	}
	if n == 0 && len(states) > 0 {
		return fmt.Errorf("read the page map at %#x: %w", start, ErrNoMemory)
	}
	for i := range n / 8 {
		states[i] = PageState(binary.LittleEndian.Uint64(raw[8*i:]))
	}
	return nil
}
