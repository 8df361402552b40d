package cold

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/granary-allocator/granary/tool/internal/inspect"
	"github.com/granary-allocator/granary/tool/internal/procfs"
)

const (
	base  = 0x200000
	pages = 256
	size  = 4096
)

// A simulation is a kernel with one process: a block of 256 pages.
type simulation struct {
	t        *testing.T
	time     time.Duration
	touch    func(now time.Duration) []int // pages that the program accesses up to then, since the last call
	accessed [pages]bool
	out      [pages]bool
	keeps    bool // the kernel ignores advice
	free     uint64
	paged    []int // pages that were paged out, in their order
	when     []time.Duration
}

func (*simulation) Name() string { return "simulation" }
func (*simulation) Close() error { return nil }

func (s *simulation) now() time.Duration { return s.time }

func (s *simulation) until(ctx context.Context, end time.Duration) error {
	s.time = max(s.time, end)
	for _, i := range s.touch(s.time) {
		s.accessed[i], s.out[i] = true, false
	}
	return ctx.Err()
}

func (s *simulation) Peek(ranges []Range, visit func(Range, bool)) error {
	for _, r := range ranges {
		for at := max(r.Start, base); at < min(r.End, base+pages*size); at += size {
			if i := (at - base) / size; !s.out[i] {
				visit(Range{Start: at, End: at + size}, s.accessed[i])
			}
		}
	}
	return nil
}

func (s *simulation) Sample(ranges []Range, visit func(Range, bool)) (Cost, error) {
	err := s.Peek(ranges, visit)
	s.accessed = [pages]bool{}
	return Cost{}, err
}

func (s *simulation) PageOut(ranges []Range) error {
	for _, r := range ranges {
		for at := r.Start; at < r.End; at += size {
			i := int(at-base) / size
			if s.accessed[i] {
				s.t.Errorf("page %d was paged out although it was accessed", i)
			}
			if !s.keeps {
				s.out[i] = true
				s.paged, s.when = append(s.paged, i), append(s.when, s.time)
			}
		}
	}
	return nil
}

func (s *simulation) pager(older time.Duration, rate uint64) *pager {
	heap := &inspect.HeapMap{OSPage: size, Chunks: []inspect.Range{{Start: base, End: base + 2<<20}}, Large: []inspect.Block{{Address: base, Size: pages * size}}}
	return &pager{
		source: s, clock: s, read: func() (candidates, error) { return ofHeap(heap), nil },
		swap:  func() (procfs.Swap, error) { return procfs.Swap{Total: 1 << 30, Free: s.free}, nil },
		older: older, pace: pace{limit: rate, now: rate}, report: func(Step) error { return nil },
	}
}

func simulate(t *testing.T, touch func(now time.Duration) []int) *simulation {
	return &simulation{t: t, touch: touch, free: 1 << 30}
}

// upTo are the pages below n.
func upTo(n int) (out []int) {
	for i := range n {
		out = append(out, i)
	}
	return out
}

func TestColdPagesGoOutAndHotOnesStay(t *testing.T) {
	s := simulate(t, func(time.Duration) []int { return upTo(100) })
	total, err := s.pager(8*time.Second, 1<<30).run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if want := uint64(pages-100) * size; total.Out != want || total.Returned != 0 || total.Kept != 0 {
		t.Errorf("%+v, want %d bytes out", total, want)
	}
	for _, i := range s.paged {
		if i < 100 {
			t.Errorf("page %d is hot and was paged out", i)
		}
	}
	if s.when[0] < 8*time.Second {
		t.Errorf("paged out after %v, before anything can be 8 s old", s.when[0])
	}
}

func TestTheRateIsKept(t *testing.T) {
	s := simulate(t, func(time.Duration) []int { return nil })
	const rate = 40 * size // four pages in each chunk
	if _, err := s.pager(8*time.Second, rate).run(context.Background()); err != nil {
		t.Fatal(err)
	}
	if len(s.paged) != pages {
		t.Errorf("%d pages went out, want all %d", len(s.paged), pages)
	}
	for i := 40; i < len(s.when); i++ {
		if took := s.when[i] - s.when[i-40]; took < time.Second {
			t.Errorf("41 pages went out in %v", took)
		}
	}
}

func TestItBacksOffFromMemoryThatReturns(t *testing.T) {
	const turn = 20 * time.Second
	ctx, cancel := context.WithCancel(context.Background())
	last := time.Duration(0)
	s := simulate(t, func(now time.Duration) []int { // all pages every 20 s: after they were paged out
		if now > 5*time.Minute {
			cancel()
		}
		if now/turn == last/turn {
			return nil
		}
		last = now
		return upTo(pages)
	})
	p := s.pager(8*time.Second, 1<<30)
	p.keep = true
	slowest := uint64(1 << 30)
	p.report = func(step Step) error {
		slowest = min(slowest, step.Rate)
		return nil
	}
	total, err := p.run(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if total.Returned != pages*size || total.Out != pages*size {
		t.Errorf("%+v: each page returns once, and then stays in memory, as it is never 32 s old", total)
	}
	if slowest == 1<<30 {
		t.Error("the rate did not fall")
	}
}

func TestThePace(t *testing.T) {
	p := pace{limit: 6400, now: 6400}
	p.adjust(1000, 50)
	if p.now != 6400 {
		t.Errorf("a twentieth that returns slows down to %d", p.now)
	}
	for want := uint64(3200); want >= 100; want /= 2 {
		if p.adjust(1000, 51); p.now != want {
			t.Errorf("the pace is %d, want %d", p.now, want)
		}
	}
	if p.adjust(1000, 51); p.now != 0 {
		t.Errorf("below a 64th of the limit the pace is %d, not a pause", p.now)
	}
	for range 8 {
		p.adjust(1000, 0)
	}
	if p.now != 6400 {
		t.Errorf("after eight intervals without returns the pace is %d", p.now)
	}
}

func TestAKernelThatKeepsThePages(t *testing.T) {
	s := simulate(t, func(time.Duration) []int { return nil })
	s.keeps = true
	if total, err := s.pager(time.Second, 1<<30).run(context.Background()); !errors.Is(err, errKept) || total.Out != 0 || total.Kept == 0 {
		t.Errorf("%+v, %v", total, err)
	}
}

func TestSwapIsNotFilledUp(t *testing.T) {
	s := simulate(t, func(time.Duration) []int { return nil })
	s.free = 1 << 26
	if total, err := s.pager(time.Second, 1<<30).run(context.Background()); err == nil || !strings.Contains(err.Error(), "swap is nearly full") || total.Out != 0 {
		t.Errorf("%+v, %v", total, err)
	}
}

func TestAMachineWithoutSwap(t *testing.T) {
	proc := procfs.FS{Root: t.TempDir()}
	for text, fails := range map[string]bool{"SwapTotal:       0 kB\nSwapFree:        0 kB\n": true, "SwapTotal:     100 kB\nSwapFree:        0 kB\n": false} {
		if err := os.WriteFile(filepath.Join(proc.Root, "meminfo"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := NeedSwap(proc); (err != nil) != fails {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// What is wrong with the process is said first, on a machine without swap too.
func TestAProcessThatIsNotThere(t *testing.T) {
	for _, each := range []bool{false, true} {
		_, err := Paging{Any: each}.PageOut(context.Background(), procfs.Live(), 1<<30, func(Step) error { return nil })
		if err == nil || !strings.Contains(err.Error(), "there is no process") {
			t.Errorf("any process %v: %v", each, err)
		}
	}
}
