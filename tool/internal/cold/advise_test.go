package cold

import (
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestCallsAreBounded(t *testing.T) {
	ranges := []Range{{0, 3 * maxBytes / 2}}
	for i := range uint64(2 * maxRanges) {
		ranges = append(ranges, Range{1<<40 + i<<13, 1<<40 + i<<13 + 4096})
	}
	want, got, calls := uint64(0), uint64(0), 0
	for _, r := range ranges {
		want += r.Bytes()
	}
	for rest := ranges; len(rest) > 0; calls++ {
		var batch []unix.RemoteIovec
		batch, rest = cut(rest)
		bytes := uint64(0)
		for _, v := range batch {
			bytes += uint64(v.Len)
		}
		if len(batch) > maxRanges || bytes > maxBytes {
			t.Errorf("a call for %d ranges and %d bytes", len(batch), bytes)
		}
		got += bytes
	}
	if got != want || calls > 5 {
		t.Errorf("%d calls advise %d bytes of %d", calls, got, want)
	}
}

func TestAdviceForUnmappedMemoryIsLeftOut(t *testing.T) {
	process, err := openAdviser(os.Getpid())
	if err != nil {
		t.Skip(err)
	}
	defer func() {
		if err := process.close(); err != nil {
			t.Error(err)
		}
	}()
	_, r := mapped(t, 1<<20, unix.MADV_NOHUGEPAGE)
	const unmapped = 1 << 12 // below vm.mmap_min_addr
	ranges := []Range{{unmapped, unmapped + 4096}, r, {unmapped, unmapped + 4096}}
	if _, err := process.advise(ranges, unix.MADV_COLD); err != nil {
		t.Error(err)
	}
}

func TestMerged(t *testing.T) {
	got := merged([]Range{{90, 95}, {10, 20}, {28, 30}, {31, 40}, {12, 15}}, 8)
	if want := []Range{{10, 40}, {90, 95}}; len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("merged to %v", got)
	}
}

// A busy machine lets a sample wait. If that counted as its cost, the next interval would be a hundred times as long.
func TestWaitingIsNoCost(t *testing.T) {
	process, err := openAdviser(os.Getpid())
	if err != nil {
		t.Skip(err)
	}
	defer func() {
		if err := process.close(); err != nil {
			t.Error(err)
		}
	}()
	const wait = 200 * time.Millisecond
	f := forgetter{process: process, read: func([]Range, func(Range, bool)) error {
		time.Sleep(wait)
		return nil
	}}
	cost, err := f.Sample(nil, func(Range, bool) {})
	if err != nil || cost.Total() <= 0 || cost.Total() >= wait {
		t.Errorf("a sample that waited for %v cost %+v, %v", wait, cost, err)
	}
}
