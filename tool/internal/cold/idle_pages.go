package cold

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/granary-allocator/granary/tool/internal/procfs"
)

// idlePages uses idle page tracking (CONFIG_IDLE_PAGE_TRACKING): a bitmap with a bit for each page frame, which root
// sets and the kernel clears after an access.
type idlePages struct {
	forgetter
	bitmap wordFile
	frames io.ReaderAt // the process's page map: a frame number for each page
	flags  io.ReaderAt // the use of each frame
	page   uint64      // bytes
	files  []io.Closer
}

// wordFile is a file of words of eight bytes.
type wordFile interface {
	io.ReaderAt
	io.WriterAt
}

const bitmapPath = "/sys/kernel/mm/page_idle/bitmap"

func openIdlePages(proc procfs.FS, pid int) (p *idlePages, failed error) {
	p = &idlePages{page: uint64(os.Getpagesize())}
	p.forgetter.read, p.forgetter.after = p.read, p.mark
	defer func() {
		if failed != nil {
			failed = errors.Join(failed, p.Close())
		}
	}()
	open := func(path string, mode int) *os.File {
		if failed != nil {
			return nil
		}
		file, err := os.OpenFile(path, mode, 0)
		if err != nil {
			failed = err
			return nil
		}
		p.files = append(p.files, file)
		return file
	}
	p.bitmap = open(bitmapPath, os.O_RDWR)
	p.frames = open(proc.Path(pid, "pagemap"), os.O_RDONLY)
	p.flags = open(filepath.Join(proc.Root, "kpageflags"), os.O_RDONLY)
	if failed == nil {
		p.process, failed = openAdviser(pid)
	}
	return p, failed
}

func (p *idlePages) Name() string { return "idle page tracking" }

func (p *idlePages) Close() (err error) {
	for _, f := range p.files {
		err = errors.Join(err, f.Close())
	}
	if p.process != nil {
		err = errors.Join(err, p.process.close())
	}
	return err
}

// mark sets the bit of each page that is in memory.
func (p *idlePages) mark(ranges []Range) error {
	return p.each(ranges, func(_ uint64, frames []uint64) error {
		words := map[uint64]uint64{}
		for _, frame := range frames {
			if frame != 0 {
				words[frame/64] |= 1 << (frame % 64)
			}
		}
		raw := make([]byte, 8)
		for _, word := range slices.Sorted(maps.Keys(words)) {
			binary.NativeEndian.PutUint64(raw, words[word])
			if _, err := p.bitmap.WriteAt(raw, int64(8*word)); err != nil {
				return fmt.Errorf("mark pages idle: %w", err)
			}
		}
		return nil
	})
}

// read visits each page by itself.
func (p *idlePages) read(ranges []Range, visit func(r Range, accessed bool)) error {
	return p.each(ranges, func(start uint64, frames []uint64) error {
		words := map[uint64]uint64{}
		for i, frame := range frames {
			if frame == 0 {
				continue
			}
			word, known := words[frame/64]
			if !known {
				var err error
				if word, err = readWord(p.bitmap, frame/64); err != nil {
					return fmt.Errorf("read which pages are idle: %w", err)
				}
				words[frame/64] = word
			}
			at := start + uint64(i)*p.page
			visit(Range{at, at + p.page}, word>>(frame%64)&1 == 0)
		}
		return nil
	})
}

func readWord(f io.ReaderAt, index uint64) (uint64, error) {
	raw := make([]byte, 8)
	if _, err := f.ReadAt(raw, int64(8*index)); err != nil {
		return 0, err
	}
	return binary.NativeEndian.Uint64(raw), nil
}

// each calls visit with the frames of some pages at a time: 0 for a page that is not in memory. A page of a huge page
// has the frame of its head, the only one of which the kernel keeps the bit.
func (p *idlePages) each(ranges []Range, visit func(start uint64, frames []uint64) error) error {
	const pages = 1 << 15
	raw := make([]byte, 8*pages)
	for _, r := range ranges {
		for at := r.Start &^ (p.page - 1); at < r.End; at += pages * p.page {
			want := raw[:8*min(pages, (r.End-at+p.page-1)/p.page)]
			n, err := p.frames.ReadAt(want, int64(at/p.page*8))
			if err != nil && !errors.Is(err, io.EOF) {
				return fmt.Errorf("read the page map at %#x: %w", at, err)
			}
			frames, err := p.heads(want[:n/8*8])
			if err != nil {
				return err
			}
			if err := visit(at, frames); err != nil {
				return err
			}
		}
	}
	return nil
}

// Bits of words of the page map and of kpageflags.
const (
	pageInMemory = 1 << 63
	frameMask    = 1<<55 - 1
	frameTail    = 1 << 16
)

// heads finds the frame of each page. The flags are read once for each run of consecutive frames.
func (p *idlePages) heads(raw []byte) ([]uint64, error) {
	frames := make([]uint64, len(raw)/8)
	for i := range frames {
		word := binary.NativeEndian.Uint64(raw[8*i:])
		if word&pageInMemory == 0 {
			continue
		}
		frames[i] = word & frameMask
		if frames[i] == 0 {
			return nil, errors.New("read the page map: the kernel hides frame numbers without CAP_SYS_ADMIN: run the command as root")
		}
	}
	for i := 0; i < len(frames); {
		run := 1
		for frames[i] != 0 && i+run < len(frames) && frames[i+run] == frames[i]+uint64(run) {
			run++
		}
		if err := p.headsOfRun(frames[i : i+run]); err != nil {
			return nil, err
		}
		i += run
	}
	return frames, nil
}

// headsOfRun replaces the frames of tails, in consecutive frames, by the frame of their head.
func (p *idlePages) headsOfRun(frames []uint64) error {
	if frames[0] == 0 {
		return nil
	}
	raw := make([]byte, 8*len(frames))
	if _, err := p.flags.ReadAt(raw, int64(8*frames[0])); err != nil {
		return fmt.Errorf("read the flags of page frames: %w", err)
	}
	for i := range frames {
		if binary.NativeEndian.Uint64(raw[8*i:])&frameTail == 0 {
			continue
		}
		if i > 0 {
			frames[i] = frames[i-1]
			continue
		}
		for tail := uint64(frameTail); tail&frameTail != 0; {
			frames[0]--
			var err error
			if tail, err = readWord(p.flags, frames[0]); err != nil {
				return fmt.Errorf("read the flags of page frames: %w", err)
			}
		}
	}
	return nil
}
