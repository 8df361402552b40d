package inspect

import (
	"encoding/binary"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
)

const recordedPage = 1 << 12

// A recording is the part of a target's memory that one reading reads.
type recording struct {
	from  memory // nil once it is complete
	pages map[uint64][]byte
}

func (r *recording) close() error { return nil }

func (r *recording) read(spans []span) error {
	for _, s := range spans {
		for at := 0; at < len(s.to); {
			address := s.address + uint64(at)
			page, err := r.page(address &^ (recordedPage - 1))
			if err != nil {
				return err
			}
			at += copy(s.to[at:], page[address%recordedPage:])
		}
	}
	return nil
}

func (r *recording) page(address uint64) ([]byte, error) {
	if page, ok := r.pages[address]; ok {
		return page, nil
	}
	if r.from == nil {
		return nil, unmapped(address)
	}
	page, err := readAt(r.from, address, recordedPage)
	if err == nil {
		r.pages[address] = page
	}
	return page, err
}

// record keeps all memory that is read to inspect a small heap.
func record(t testing.TB) (*recording, []image) {
	h := hold(t, "stop-small", quiet)
	waitForState(t, h.pid(), "T")
	target, err := Open(h.pid())
	if err != nil {
		t.Fatal(err)
	}
	r := &recording{from: target.memory, pages: map[uint64][]byte{}}
	images := []image{target.mark.image}
	if err := look(r, images); err != nil {
		t.Fatal(err)
	}
	r.from = nil
	return r, images
}

// look calls every function that reads a target.
func look(m memory, images []image) error {
	target, err := open(m, images)
	if err != nil {
		return err
	}
	if _, err := target.Snapshot(); err != nil {
		return err
	}
	h, err := target.HeapMap()
	if err != nil {
		return err
	}
	h.Walk(func(Object) bool { return true })
	return nil
}

// damaged is a copy of r with eight bytes changed for each sixteen of `how`: the address and the value, which
// is often an address of something else.
func (r *recording) damaged(how []byte) *recording {
	pages := make([]uint64, 0, len(r.pages))
	for address := range r.pages {
		pages = append(pages, address)
	}
	slices.Sort(pages)
	out := &recording{pages: map[uint64][]byte{}}
	for address, page := range r.pages {
		out.pages[address] = page
	}
	for ; len(how) >= 16; how = how[16:] {
		where, what := binary.LittleEndian.Uint64(how), binary.LittleEndian.Uint64(how[8:])
		address := pages[where%uint64(len(pages))]
		page := slices.Clone(out.pages[address])
		switch where >> 62 {
		case 0:
			what = pages[what%uint64(len(pages))] + what>>52
		case 1:
			what >>= what & 63
		}
		offset := where >> 32 % (recordedPage / 8) * 8
		binary.LittleEndian.PutUint64(page[offset:], what)
		out.pages[address] = page
	}
	return out
}

// Whatever is overwritten, reading ends without a crash. Errors are fine.
func FuzzDamagedHeaps(f *testing.F) {
	r, images := record(f)
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 400 {
		how := make([]byte, 16*(1+i%20))
		for k := range how {
			how[k] = byte(random.Uint32())
		}
		f.Add(how)
	}
	f.Fuzz(func(t *testing.T, how []byte) {
		if len(how) > 16*64 {
			return
		}
		if err := look(r.damaged(how), images); err != nil && err.Error() == "" {
			t.Error("an error without a message")
		}
	})
}

// Each word of the descriptor, overwritten by itself. However it is damaged, reading takes bounded memory.
func TestDamagedDescriptions(t *testing.T) {
	r, images := record(t)
	target, err := open(r, images)
	if err != nil {
		t.Fatal(err)
	}
	head, err := readAt(r, target.mark.descriptor, headBytes)
	if err != nil {
		t.Fatal(err)
	}
	size := binary.LittleEndian.Uint32(head[12:])
	var earlier, later runtime.MemStats
	for offset := uint64(0); offset < uint64(size); offset += 4 {
		address := target.mark.descriptor + offset
		page := r.pages[address&^(recordedPage-1)]
		for _, value := range []uint32{[]uint32{0, 1, 0x7fffffff, 0xffffffff}[offset/4*7/5%4]} {
			before := binary.LittleEndian.Uint32(page[address%recordedPage:])
			binary.LittleEndian.PutUint32(page[address%recordedPage:], value)
			runtime.ReadMemStats(&earlier)
			_ = look(r, images) // must end; an error is fine
			runtime.ReadMemStats(&later)
			if took := later.TotalAlloc - earlier.TotalAlloc; took > 512<<20 {
				t.Errorf("a look at a description with %#x at %d took %d MiB", value, offset, took>>20)
			}
			binary.LittleEndian.PutUint32(page[address%recordedPage:], before)
		}
	}
}
