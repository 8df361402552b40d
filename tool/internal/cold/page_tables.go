package cold

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
)

// Bits of an entry of a page table of x86-64.
const (
	entryPresent  = 1 << 0
	entryAccessed = 1 << 5
	entryLeaf     = 1 << 7 // above the lowest level: a huge page
	entryAddress  = 1<<52 - 1<<12
)

// pageTables reads the accessed bits themselves. The kernel publishes no bit for each page without idle page
// tracking, which distributions such as Debian leave out, but lets root read its memory by a BPF program.
type pageTables struct {
	forgetter
	memory *kernelMemory
	direct uint64 // address of the kernel's map of all physical memory
	top    uint64 // address of the process's top table
	levels int
}

func openPageTables(pid int) (p *pageTables, err error) {
	if runtime.GOARCH != "amd64" {
		return nil, errors.New("they can be read on x86-64 only")
	}
	p = &pageTables{}
	p.forgetter.read = p.read
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close())
		}
	}()
	if p.process, err = openAdviser(pid); err != nil {
		return p, err
	}
	if p.levels, err = levels(); err != nil {
		return p, err
	}
	if err = firstNamespace("/proc/self/ns/pid"); err != nil {
		return p, err
	}
	if p.top, err = topTable(pid); err != nil {
		return p, err
	}
	if p.memory, err = openKernelMemory(); err != nil {
		return p, err
	}
	p.direct, err = p.directMap()
	return p, err
}

func (p *pageTables) Name() string { return "accessed bits of the page tables" }

func (p *pageTables) Close() (err error) {
	if p.process != nil {
		err = p.process.close()
	}
	if p.memory != nil {
		err = errors.Join(err, p.memory.close())
	}
	return err
}

// firstNamespace is an error in a container with another PID namespace: a BPF program finds processes by the PIDs of the host.
func firstNamespace(link string) error {
	const first = "pid:[4026531836]" // PROC_PID_INIT_INO
	name, err := os.Readlink(link)
	if err == nil && name != first {
		err = errors.New("they are found by the PIDs of the host: run the command outside of the container")
	}
	return err
}

// levels is 5 where the processor has 57-bit addresses and the kernel uses them.
func levels() (int, error) {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return 0, fmt.Errorf("read the processor's features: %w", err)
	}
	if slices.Contains(strings.Fields(string(info)), "la57") {
		return 5, nil
	}
	return 4, nil
}

// span is how many bytes an entry of a table of this level maps; level 1 is the lowest.
func span(level int) uint64 { return 1 << (12 + 9*(level-1)) }

// A node is a page table and the first address that it maps.
type node struct{ table, first uint64 }

// read descends all ranges at the same time, one level after the other, so that few calls copy many tables.
func (p *pageTables) read(ranges []Range, visit func(r Range, accessed bool)) error {
	ranges = merged(slices.Clone(ranges), 0)
	nodes := []node{{p.top, 0}}
	for level := p.levels; level > 0 && len(nodes) > 0; level-- {
		var below []node
		err := p.memory.tables(addresses(nodes), func(i int, t *table) {
			below = p.entries(nodes[i], t, level, ranges, below, visit)
		})
		if err != nil {
			return err
		}
		nodes = below
	}
	return nil
}

func addresses(nodes []node) []uint64 {
	out := make([]uint64, len(nodes))
	for i, n := range nodes {
		out[i] = n.table
	}
	return out
}

// entries visits the pages of one table, and adds the tables below it. A table that the kernel has freed meanwhile
// may hold anything: what its entries lead to is checked in the same manner, and no address outside the ranges is
// visited.
func (p *pageTables) entries(n node, t *table, level int, ranges []Range, below []node, visit func(Range, bool)) []node {
	if t == nil {
		return below
	}
	for i, entry := range t {
		if entry&entryPresent == 0 {
			continue
		}
		from := n.first + uint64(i)*span(level)
		wanted := false
		overlaps(ranges, Range{from, from + span(level)}, func(part Range) {
			wanted = true
			if level == 1 || entry&entryLeaf != 0 {
				visit(part, entry&entryAccessed != 0)
			}
		})
		if wanted && level > 1 && entry&entryLeaf == 0 {
			below = append(below, node{p.direct + entry&entryAddress, from})
		}
	}
	return below
}
