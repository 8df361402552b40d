package procfs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Pages says which pages of a process are in memory. It needs no more than the right to read the
// process.
type Pages struct {
	file *os.File
	size uint64 // of a page
	// noScan is set once the kernel does not know the request that finds ranges by itself (before
	// Linux 6.7). Then the shared page of zeros counts as well, although RSS leaves it out.
	noScan  bool
	regions []scanRegion // on the heap, where it does not move
}

// Pages opens the page map of process pid.
func (fs FS) Pages(pid int) (*Pages, error) {
	file, err := os.Open(fs.Path(pid, "pagemap"))
	if err != nil {
		return nil, fmt.Errorf("read pagemap of process %d: %w", pid, err)
	}
	return &Pages{file: file, size: uint64(os.Getpagesize()), regions: make([]scanRegion, 512)}, nil
}

// Close ends the reading.
func (p *Pages) Close() error { return p.file.Close() }

// PageSize is the size of a page in bytes.
func (p *Pages) PageSize() uint64 { return p.size }

// Exact is true when pages of zeros are left out, as RSS does.
func (p *Pages) Exact() bool { return !p.noScan }

// Resident calls visit for each resident range within [start, end), in address order.
func (p *Pages) Resident(start, end uint64, visit func(start, end uint64)) error {
	start, end = start&^(p.size-1), (end+p.size-1)&^(p.size-1)
	if start >= end {
		return nil
	}
	if !p.noScan {
		err := p.scan(start, end, visit)
		if !errors.Is(err, unix.ENOTTY) && !errors.Is(err, unix.EINVAL) {
			return err
		}
		p.noScan = true
	}
	return p.readAll(start, end, visit)
}

// scanRequest is struct pm_scan_arg of <linux/fs.h>.
type scanRequest struct {
	size, flags, start, end, walkEnd, vector, vectorLen, maxPages uint64
	inverted, mask, any, wanted                                   uint64
}

type scanRegion struct{ start, end, categories uint64 }

const (
	pagemapScan   = 0xc0606610 // PAGEMAP_SCAN
	pageIsPresent = 1 << 3
	pageIsZero    = 1 << 5
)

func (p *Pages) scan(start, end uint64, visit func(start, end uint64)) error {
	for start < end {
		request := scanRequest{
			start: start, end: end, vectorLen: uint64(len(p.regions)),
			vector:   uint64(uintptr(unsafe.Pointer(unsafe.SliceData(p.regions)))),
			inverted: pageIsZero, mask: pageIsPresent | pageIsZero, wanted: pageIsPresent,
		}
		request.size = uint64(unsafe.Sizeof(request))
		n, _, errno := unix.Syscall(unix.SYS_IOCTL, p.file.Fd(), pagemapScan, uintptr(unsafe.Pointer(&request)))
		if errno != 0 {
			return fmt.Errorf("read the page map at %#x: %w", start, errno)
		}
		for _, r := range p.regions[:n] {
			visit(r.start, r.end)
		}
		if request.walkEnd <= start {
			return fmt.Errorf("read the page map at %#x: %w", start, ErrNoMemory)
		}
		start = request.walkEnd
	}
	return nil
}

// present is the bit of a word of the page map that says that the page is in memory.
const present = 1 << 63

func (p *Pages) readAll(start, end uint64, visit func(start, end uint64)) error {
	const pages = 1 << 15
	raw := make([]byte, 8*pages)
	for at := start; at < end; at += pages * p.size {
		want := raw[:8*min(pages, (end-at)/p.size)]
		n, err := p.file.ReadAt(want, int64(at/p.size*8))
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read the page map at %#x: %w", at, err)
		}
		if n == 0 {
			return fmt.Errorf("read the page map at %#x: %w", at, ErrNoMemory)
		}
		p.runs(at, want[:n], visit)
	}
	return nil
}

// runs joins neighbouring pages that are present.
func (p *Pages) runs(at uint64, raw []byte, visit func(start, end uint64)) {
	begin := uint64(0)
	for i := 0; i <= len(raw)/8; i++ {
		here := at + uint64(i)*p.size
		if i < len(raw)/8 && binary.LittleEndian.Uint64(raw[8*i:])&present != 0 {
			if begin == 0 {
				begin = here
			}
			continue
		}
		if begin != 0 {
			visit(begin, here)
			begin = 0
		}
	}
}
