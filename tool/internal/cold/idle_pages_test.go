package cold

import (
	"encoding/binary"
	"fmt"
	"io"
	"testing"
)

// wordsOf is a file that holds these words.
type wordsOf []uint64

func (w wordsOf) ReadAt(p []byte, at int64) (int, error) {
	for i := 0; i < len(p); i += 8 {
		index := (int(at) + i) / 8
		if index >= len(w) {
			return i, io.EOF
		}
		binary.NativeEndian.PutUint64(p[i:], w[index])
	}
	return len(p), nil
}

// idleBitmap is the kernel's: a write sets bits, of frames that are heads only.
type idleBitmap struct {
	wordsOf
	flags wordsOf
}

func (b idleBitmap) WriteAt(p []byte, at int64) (int, error) {
	if at%8 != 0 || len(p)%8 != 0 {
		return 0, fmt.Errorf("a write of %d bytes at %d", len(p), at)
	}
	for i := 0; i < len(p); i += 8 {
		for bit := range 64 {
			frame := 8*(int(at)+i) + bit
			if binary.NativeEndian.Uint64(p[i:])>>bit&1 != 0 && frame < len(b.flags) && b.flags[frame]&frameTail == 0 {
				b.wordsOf[frame/64] |= 1 << bit
			}
		}
	}
	return len(p), nil
}

// access does what the kernel does when it finds the accessed bit of a frame set.
func (b idleBitmap) access(frame int) { b.wordsOf[frame/64] &^= 1 << (frame % 64) }

// fakeIdlePages has six pages, the second one not in memory, the fourth to sixth in the middle of a huge page whose
// head is frame 128.
func fakeIdlePages() (*idlePages, idleBitmap) {
	flags := make(wordsOf, 256)
	for frame := 129; frame < 256; frame++ {
		flags[frame] = frameTail
	}
	bitmap := idleBitmap{make(wordsOf, 4), flags}
	frames := wordsOf{pageInMemory | 7, 0, pageInMemory | 63, pageInMemory | 140, pageInMemory | 141, pageInMemory | 142}
	return &idlePages{bitmap: bitmap, frames: frames, flags: flags, page: 4096}, bitmap
}

func TestIdlePages(t *testing.T) {
	p, bitmap := fakeIdlePages()
	all := []Range{{0, 6 * 4096}}
	if err := p.mark(all); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		frame int
		want  string
	}{{-1, "0- 2- 3- 4- 5- "}, {63, "0- 2+ 3- 4- 5- "}, {128, "0- 2+ 3+ 4+ 5+ "}} {
		if c.frame >= 0 {
			bitmap.access(c.frame)
		}
		got := ""
		if err := p.read(all, func(r Range, accessed bool) {
			got += fmt.Sprintf("%d%s ", r.Start/4096, map[bool]string{true: "+", false: "-"}[accessed])
		}); err != nil {
			t.Fatal(err)
		}
		if got != c.want {
			t.Errorf("after an access to frame %d: %s, want %s", c.frame, got, c.want)
		}
	}
}

func TestHiddenFrameNumbers(t *testing.T) {
	p, _ := fakeIdlePages()
	p.frames = wordsOf{pageInMemory}
	if err := p.mark([]Range{{0, 4096}}); err == nil {
		t.Error("frame number 0, which the kernel shows without CAP_SYS_ADMIN, was accepted")
	}
}
