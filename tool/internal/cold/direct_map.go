package cold

import "errors"

// gib is the alignment of the direct map: the kernel places it at random, in steps of 1 GiB.
const gib = 1 << 30

// maxDistance bounds how far above the start of the direct map a page table is searched: 64 TiB.
const maxDistance = 1 << 46

// directMap finds the address of the kernel's map of all physical memory. The top table of a process is in that map,
// and maps it as well: for the right start of the map, the descent to the table's own address leads back to the
// table's distance from the start. Every other start fails this test.
func (p *pageTables) directMap() (uint64, error) {
	for start := p.top &^ (gib - 1); start <= p.top && p.top-start < maxDistance; start -= gib {
		physical, err := p.translate(start, p.top)
		if err != nil {
			return 0, err
		}
		if physical == p.top-start {
			return start, nil
		}
	}
	return 0, errors.New("the kernel's map of physical memory was not found")
}

// translate is the physical address of an address of the kernel, if the direct map starts at `start`; 0 if the
// descent fails.
func (p *pageTables) translate(start, address uint64) (physical uint64, err error) {
	at := p.top
	for level := p.levels; level > 0; level-- {
		entry := uint64(0)
		err := p.memory.tables([]uint64{at}, func(_ int, t *table) {
			if t != nil {
				entry = t[address/span(level)%512]
			}
		})
		if err != nil || entry&entryPresent == 0 {
			return 0, err
		}
		if level == 1 || entry&entryLeaf != 0 {
			return entry&entryAddress&^(span(level)-1) | address&(span(level)-1), nil
		}
		at = start + entry&entryAddress
	}
	return 0, nil
}
