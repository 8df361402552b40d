package inspect

import (
	"cmp"
	"errors"
	"slices"
)

// An Arena is a heap of the program's own: a scoped heap, or an arena made through mallctl.
type Arena struct {
	Index      int
	Live       uint64  // bytes of the objects in use, rounded up to their classes
	Memory     []Range // for objects, of the system or of the program's extent hooks; by address
	Structures []Range // of the allocator, that describe it
}

const (
	maxArenas  = 1 << 12
	maxRegions = 1 << 12
)

// arenas reads the arenas of the program. A library without a list of arenas has none.
func (w *walker) arenas() error {
	first, ok := w.c.first("arenas.first")
	if !ok {
		return nil
	}
	c := w.l.constant
	head := max(c("arena.next")+8, c("arena.index")+4, c("arena.live")+8, c("arena.regions_count")+8)
	if head > 1<<16 || c("region.bytes") < 17 || c("region.bytes") > 1<<8 {
		return failure(ErrDamaged, "the library's description of itself is damaged: arenas begin with %d bytes", head)
	}
	var err error
	listErr := w.list("arenas", first, head, c("arena.next"), maxArenas, func(address uint64, node []byte) bool {
		index, _ := number(node, c("arena.index"), 4)
		live, _ := number(node, c("arena.live"), 8)
		count, _ := number(node, c("arena.regions_count"), 8)
		if count > maxRegions {
			w.damage("the arena at %#x says it has %d pieces of memory", address, count)
			return true
		}
		a := Arena{Index: int(index), Live: live, Structures: []Range{{address, address + c("arena.bytes")}}}
		if err = w.regions(&a, address+c("arena.regions"), int(count)); err == nil {
			w.h.Arenas = append(w.h.Arenas, a)
		}
		return err == nil
	})
	slices.SortFunc(w.h.Arenas, func(a, b Arena) int { return cmp.Compare(a.Index, b.Index) })
	return errors.Join(listErr, err)
}

func (w *walker) regions(a *Arena, address uint64, count int) error {
	size := w.l.constant("region.bytes")
	rows, err := readAt(w.t.memory, address, count*int(size))
	if errors.Is(err, errUnmapped) {
		w.damage("the list of the spans of arena %d would be at %#x, which is not mapped", a.Index, address)
		return nil
	}
	if err != nil {
		return err
	}
	for i := range uint64(count) {
		row := rows[i*size : (i+1)*size]
		at, _ := number(row, w.l.constant("region.at"), 8)
		bytes, _ := number(row, w.l.constant("region.size"), 8)
		hooked, _ := number(row, w.l.constant("region.hooked"), 1)
		if at == 0 || at>>48 != 0 || bytes == 0 || bytes > 1<<46 {
			w.damage("arena %d claims %d bytes at %#x", a.Index, bytes, at)
			continue
		}
		if to := (Range{at, at + bytes}); hooked != 0 {
			a.Memory = append(a.Memory, to)
		} else {
			a.Structures = append(a.Structures, to)
		}
	}
	slices.SortFunc(a.Memory, func(x, y Range) int { return cmp.Compare(x.Start, y.Start) })
	return nil
}
