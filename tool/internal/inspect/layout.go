package inspect

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"
	"sync"
)

// The layout of the descriptor. Details: core/src/stats/descriptor_format.h.
const (
	magic             = "granary\x00"
	descriptorVersion = 2
	headBytes         = 24
	tableBytes        = 16
	maxDescriptor     = 1 << 20
	maxNumbers        = 1 << 20 // in all cells together
	maxStructure      = 1 << 20 // bytes of a structure that is read whole
)

// The tables, in the order of the head.
const (
	tableConstants = iota
	tableCells
	tableMetrics
	tableOptions
	tableClasses
	knownTables
)

const noCell = ^uint32(0)

// A cell is `count` numbers of `width` bytes, `stride` apart.
type cell struct {
	base                        uint32
	offset                      uint64
	stride, count, width, scale uint32
}

// end is the offset behind its last number.
func (c cell) end() uint64 {
	return c.offset + uint64(c.stride)*uint64(c.count-1) + uint64(c.width)
}

type metricRow struct {
	Metric
	cell uint32
}

type optionRow struct {
	Option
	offset uint64
	width  uint32
}

type classRow struct {
	size, slabBytes, slabObjects     uint64
	shortFloor, shortCapacity        uint64
	longFloor, longCapacity, smaller uint64
	// readyList is the list that malloc may take from instead of the class's own; 0 if there is none.
	readyList, readyFloor, readyCapacity uint64
}

// A layout is a descriptor, decoded.
type layout struct {
	version   int
	library   string
	constants map[string]int64
	widths    map[string]uint32           // of the members at the constants that are offsets
	sources   map[uint64]string           // of the values of options
	words     map[string]map[int64]string // for values of options
	cells     []cell
	cellNames map[string]int
	metrics   []metricRow
	options   []optionRow
	classes   []classRow
}

// readLayout decodes the descriptor at `address`.
func readLayout(m memory, address uint64) (*layout, error) {
	head, err := readAt(m, address, headBytes)
	if err != nil {
		return nil, failure(ErrDamaged, "the library's description of itself cannot be read: %v", err)
	}
	if string(head[:8]) != magic {
		return nil, failure(ErrDamaged, "the library's description of itself was overwritten: it does not begin as it should")
	}
	version, size := binary.LittleEndian.Uint32(head[8:]), binary.LittleEndian.Uint32(head[12:])
	if version != descriptorVersion {
		return nil, failure(ErrVersion, "the library in the process describes itself in layout %d, this command knows layout %d: use the granary command that came with the library", version, descriptorVersion)
	}
	if size < headBytes || size > maxDescriptor {
		return nil, failure(ErrDamaged, "the library's description of itself was overwritten: it says it has %d bytes", size)
	}
	all, err := readAt(m, address, int(size))
	if err != nil {
		return nil, failure(ErrDamaged, "the library's description of itself cannot be read: %v", err)
	}
	return sharedLayout(all)
}

// layouts are the decoded descriptors by their bytes: the processes of one build of the library share one layout.
var layouts struct {
	sync.Mutex
	known map[[sha256.Size]byte]*layout
}

func sharedLayout(all []byte) (*layout, error) {
	const most = 32 // builds
	key := sha256.Sum256(all)
	layouts.Lock()
	defer layouts.Unlock()
	if l := layouts.known[key]; l != nil {
		return l, nil
	}
	l, err := decodeLayout(all)
	if err != nil {
		return nil, err
	}
	if layouts.known == nil || len(layouts.known) == most {
		layouts.known = map[[sha256.Size]byte]*layout{}
	}
	layouts.known[key] = l
	return l, nil
}

// A decoder reads rows of a descriptor and remembers the first thing wrong.
type decoder struct {
	all []byte
	err error
}

func (d *decoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = failure(ErrDamaged, "the library's description of itself is damaged: %s", fmt.Sprintf(format, args...))
	}
}

func (d *decoder) text(at uint32) string {
	if uint64(at) >= uint64(len(d.all)) {
		d.fail("a text is outside it")
		return ""
	}
	end := bytes.IndexByte(d.all[at:], 0)
	if end < 0 {
		d.fail("a text has no end")
		return ""
	}
	return string(d.all[at : int(at)+end])
}

// rows calls visit for each row of table i, with the bytes that a reader of this version knows.
func (d *decoder) rows(i, known int, visit func(row []byte)) {
	at := d.all[headBytes+i*tableBytes:]
	offset, rows, size := binary.LittleEndian.Uint32(at), binary.LittleEndian.Uint32(at[4:]), binary.LittleEndian.Uint32(at[8:])
	if int(size) < known || uint64(offset)+uint64(rows)*uint64(size) > uint64(len(d.all)) {
		d.fail("table %d does not fit", i)
		return
	}
	for r := range rows {
		visit(d.all[offset+r*size:][:known])
	}
}

func decodeLayout(all []byte) (*layout, error) {
	u32, u64 := binary.LittleEndian.Uint32, binary.LittleEndian.Uint64
	if len(all) < headBytes+knownTables*tableBytes || u32(all[20:]) < knownTables {
		return nil, failure(ErrDamaged, "the library's description of itself is damaged: it lacks tables")
	}
	d := &decoder{all: all}
	l := &layout{
		version:   int(u32(all[8:])),
		library:   d.text(u32(all[16:])),
		constants: map[string]int64{},
		widths:    map[string]uint32{},
		sources:   map[uint64]string{},
		words:     map[string]map[int64]string{},
		cellNames: map[string]int{},
	}
	d.rows(tableConstants, 16, func(row []byte) {
		name := d.text(u32(row))
		l.constants[name], l.widths[name] = int64(u64(row[8:])), u32(row[4:])
	})
	numbers := uint32(0)
	d.rows(tableCells, 32, func(row []byte) {
		c := cell{u32(row[4:]), u64(row[8:]), u32(row[16:]), u32(row[20:]), u32(row[24:]), u32(row[28:])}
		name := d.text(u32(row))
		if c.count == 0 || c.count > 1<<16 || c.width > 1<<20 || c.stride > 1<<20 || c.offset > 1<<30 {
			d.fail("cell %s has an impossible place", name)
		}
		if numbers += c.count; numbers > maxNumbers {
			d.fail("it tells of more numbers than a heap has")
		}
		l.cellNames[name] = len(l.cells)
		l.cells = append(l.cells, c)
	})
	d.rows(tableMetrics, 24, func(row []byte) {
		t := func(i int) string { return d.text(u32(row[4*i:])) }
		m := Metric{Name: t(0), Kind: t(1), Unit: t(2), Layer: t(3), Help: t(4)}
		l.metrics = append(l.metrics, metricRow{m, u32(row[20:])})
	})
	d.rows(tableOptions, 56, func(row []byte) {
		t := func(i int) string { return d.text(u32(row[4*i:])) }
		o := Option{Name: t(0), Type: t(1), Help: t(2), AtRunTime: u32(row[12:]) != 0}
		o.Default, o.Lowest, o.Highest = int64(u64(row[32:])), int64(u64(row[40:])), int64(u64(row[48:]))
		l.options = append(l.options, optionRow{o, u64(row[16:]), u32(row[24:])})
	})
	d.rows(tableClasses, 44, func(row []byte) {
		v := func(i int) uint64 { return uint64(u32(row[4*i:])) }
		l.classes = append(l.classes, classRow{v(0), v(1), v(2), v(3), v(4), v(5), v(6), v(7), v(8), v(9), v(10)})
	})
	for name, value := range l.constants {
		if source, ok := strings.CutPrefix(name, "option_source."); ok {
			l.sources[uint64(value)] = source
		}
		if text, ok := strings.CutPrefix(name, "option_word."); ok {
			option, word, _ := strings.Cut(text, ".")
			if l.words[option] == nil {
				l.words[option] = map[int64]string{}
			}
			l.words[option][value] = word
		}
	}
	if d.err == nil {
		l.check(d)
	}
	return l, d.err
}

// check refuses a layout without the parts that later steps need.
func (l *layout) check(d *decoder) {
	if len(l.classes) == 0 || len(l.classes) > 1<<8 {
		d.fail("it lists %d classes", len(l.classes))
	}
	for i, c := range l.classes {
		if i > 0 && (c.size == 0 || c.slabObjects > 1<<14 || c.slabBytes > 1<<22 || c.slabObjects*c.size > c.slabBytes) {
			d.fail("class %d has impossible sizes", i)
		}
	}
	for _, name := range neededConstants {
		v, ok := l.constants[name]
		if !ok && d.err == nil {
			d.err = failure(ErrVersion, "the library in the process, %s, does not tell %s: use the granary command that came with it", l.library, name)
		}
		if v < 0 || v > 1<<32 {
			d.fail("its constant %s is %d", name, v)
		}
	}
	for _, name := range []string{"cache.bytes", "tracker.bytes", "chunk.bytes", "metadata_chunk.bytes", "magazine.bytes", "slab.bits"} {
		if l.constant(name) > maxStructure {
			d.fail("%s is %d, which no structure has", name, l.constant(name))
		}
	}
	for _, name := range neededCells {
		if _, ok := l.cellNames[name]; !ok {
			d.fail("it lacks the cell %s", name)
		}
	}
	for _, c := range l.cells {
		if c.base >= knownBases && c.scale != 0 {
			d.fail("a cell has an unknown base")
		}
	}
	if d.err == nil {
		if g, t := l.constants["granule"], l.constants["tracker"]; g < 1<<12 || t < g || t/g > 1<<12 || g&(g-1) != 0 || t&(t-1) != 0 {
			d.fail("granules of %d bytes in trackers of %d", g, t)
		} else if leaf, ok := l.constants["leaf"]; ok && (leaf < t || leaf&(leaf-1) != 0) {
			d.fail("leaves of %d bytes of address space", leaf)
		}
	}
}

// The parts that Snapshot and HeapMap require.
var neededConstants = []string{
	"granule", "tracker", "cache.cursor_mask", "cache.count_shift", "classes.small", "classes.max", "cache.headers",
	"cache.bytes", "cache.words", "cache.issued", "cache.initial", "cache.granted", "cache.held", "cache.turns", "cache.contentions",
	"heap.bytes", "threads.by_cpu", "upkeep.background_thread_runs",
}

var neededCells = []string{
	"heap.ready", "front.caches", "front.shared", "front.uncached", "depot.objects", "central.slabs", "central.free_objects",
	"central.partial_slabs", "central.clean_bytes", "central.medium_used", "central.released", "central.guard",
	"pages.large", "pages.large_requested", "pages.large_allocations", "pages.large_frees",
	"pages.released", "pages.mapped", "pages.os_page", "upkeep.background_thread",
}

func (l *layout) constant(name string) uint64 { return uint64(l.constants[name]) }

func (l *layout) cell(name string) cell { return l.cells[l.cellNames[name]] }
