package inspect

import (
	"errors"
	"slices"
)

// maxMagazines bounds the list of one class's magazines.
const maxMagazines = 1 << 20

// cached marks the free objects in the caches and in the depot, which the slabs do not count as free.
func (w *walker) cached() error {
	var addresses []uint64
	for i := range w.c.caches {
		image := &w.c.caches[i]
		found, err := w.cacheObjects(image)
		if err != nil {
			return err
		}
		addresses = append(addresses, found...)
	}
	found, err := w.depotObjects()
	if err != nil {
		return err
	}
	for _, address := range append(addresses, found...) {
		w.mark(address)
	}
	return nil
}

// cacheObjects are the addresses below the cursors of a cache.
func (w *walker) cacheObjects(image *cacheImage) (addresses []uint64, err error) {
	words := w.l.constant("cache.words")
	mask := w.l.constant("cache.cursor_mask")
	whole, err := readAt(w.t.memory, image.address, int(min(w.l.constant("cache.bytes"), 1<<22)))
	if errors.Is(err, errUnmapped) {
		w.damage("a cache would be at %#x, which is not mapped", image.address)
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for class := 1; class < len(w.l.classes); class++ {
		row := w.l.classes[class]
		for _, list := range row.lists(uint64(class)) {
			header, _ := number(whole, words+8*list, 8)
			cursor := header & mask
			held := row.objectsIn(list, cursor, w.l.classes[1].longFloor)
			for at := cursor - held + 1; at <= cursor; at++ {
				if address, ok := number(whole, words+8*at, 8); ok && address != w.l.constant("cache.filler") {
					addresses = append(addresses, address)
				}
			}
		}
	}
	return addresses, nil
}

func (w *walker) depotObjects() (addresses []uint64, err error) {
	w.c.each("depot.full", func(_ int, first uint64) {
		if err != nil {
			return
		}
		err = w.list("magazines", first, w.l.constant("magazine.bytes"), w.l.constant("magazine.next"), maxMagazines, func(at uint64, node []byte) bool {
			objects := w.l.constant("magazine.objects")
			count, _ := number(node, w.l.constant("magazine.count"), 8)
			if count > (uint64(len(node))-min(objects, uint64(len(node))))/8 {
				w.damage("the magazine at %#x says it holds %d objects", at, count)
				return false
			}
			for i := range count {
				address, _ := number(node, objects+8*i, 8)
				addresses = append(addresses, address)
			}
			return true
		})
	})
	return addresses, err
}

// mark notes that the object at address is free in a cache.
func (w *walker) mark(address uint64) {
	if i, ok := w.medium[address]; ok {
		w.h.Medium[i].Cached = true
		return
	}
	i, found := slices.BinarySearchFunc(w.h.Slabs, address, func(s Slab, address uint64) int {
		switch {
		case address < s.Address:
			return 1
		case address >= s.Address+s.Bytes:
			return -1
		}
		return 0
	})
	if !found {
		w.damage("a cache holds %#x, where there is no object", address)
		return
	}
	s := &w.h.Slabs[i]
	object := int((address - s.Address) / s.ObjectSize)
	switch {
	case (address-s.Address)%s.ObjectSize != 0 || object >= s.Objects:
		w.damage("a cache holds %#x, where no object begins: the program freed an address inside an object", address)
	case bit(s.FreeBits, object) || bit(s.CachedBits, object):
		w.damage("the object at %#x is free twice: the program freed it twice", address)
	default:
		setBit(s.CachedBits, object)
		s.Cached++
	}
}
