package cold

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"
)

// tableBytes is the size of one page table on x86-64.
const tableBytes = 4096

// An element of the map that the kernel's program fills: the address of a page table, the result of its copy (0 if it
// succeeded), and the copy.
const (
	resultAt     = 8
	tableAt      = 16
	elementBytes = tableAt + tableBytes
	batch        = 128 // elements: the page tables of 256 MiB
)

// kernelMemory copies page tables out of the kernel with a BPF program. The kernel's helper checks each address: one
// that is not mapped is an error and nothing else. The program writes only to its own map.
type kernelMemory struct {
	elements *ebpf.Map
	shared   *ebpf.Memory // of the map
	program  *ebpf.Program
	copier   *link.Iter
}

func openKernelMemory() (m *kernelMemory, err error) {
	if err := rlimit.RemoveMemlock(); err != nil {
		return nil, fmt.Errorf("allow the memory of a BPF map: %w", err)
	}
	m = &kernelMemory{}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.close())
		}
	}()
	m.elements, err = ebpf.NewMap(&ebpf.MapSpec{
		Type: ebpf.Array, KeySize: 4, ValueSize: elementBytes, MaxEntries: batch, Flags: mmapable,
	})
	if err != nil {
		return m, fmt.Errorf("create a BPF map: %w", err)
	}
	if m.shared, err = m.elements.Memory(); err != nil {
		return m, fmt.Errorf("map a BPF map: %w", err)
	}
	m.program, err = loadIterator("task", copyTables(m.elements.FD()))
	if err != nil {
		return m, err
	}
	m.copier, err = link.AttachIter(link.IterOptions{Program: m.program})
	if err != nil {
		return m, fmt.Errorf("attach a BPF program: %w", err)
	}
	return m, nil
}

// mmapable is BPF_F_MMAPABLE.
const mmapable = 1 << 10

func loadIterator(over string, code asm.Instructions) (*ebpf.Program, error) {
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.Tracing, AttachType: ebpf.AttachTraceIter, AttachTo: over, License: "GPL", Instructions: code,
	})
	if err != nil {
		return nil, fmt.Errorf("load a BPF program: %w", err)
	}
	return p, nil
}

func (m *kernelMemory) close() (err error) {
	if m.copier != nil {
		err = errors.Join(err, m.copier.Close())
	}
	if m.program != nil {
		err = errors.Join(err, m.program.Close())
	}
	if m.elements != nil {
		err = errors.Join(err, m.elements.Close())
	}
	return err
}

// copyTables is a program that runs once for each task, and does its work at the first one: it copies a table for each
// element of the map, up to the first element without an address. Its argument, struct bpf_iter__task, points at the
// iteration's data at offset 0, whose number of the task is at offset 16. (An iterator over the map's own elements would
// need no loop, but some kernels refuse it.)
func copyTables(elements int) asm.Instructions {
	const number, next, end = 16, "next", "end"
	return asm.Instructions{
		asm.LoadMem(asm.R2, asm.R1, 0, asm.DWord),
		asm.LoadMem(asm.R3, asm.R2, number, asm.DWord),
		asm.JNE.Imm(asm.R3, 0, end),
		asm.Mov.Imm(asm.R7, 0),
		asm.StoreMem(asm.RFP, -4, asm.R7, asm.Word).WithSymbol(next),
		asm.LoadMapPtr(asm.R1, elements),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -4),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, end),
		asm.Mov.Reg(asm.R6, asm.R0),
		asm.LoadMem(asm.R3, asm.R6, 0, asm.DWord),
		asm.JEq.Imm(asm.R3, 0, end),
		asm.Mov.Reg(asm.R1, asm.R6),
		asm.Add.Imm(asm.R1, tableAt),
		asm.Mov.Imm(asm.R2, tableBytes),
		asm.FnProbeReadKernel.Call(),
		asm.StoreMem(asm.R6, resultAt, asm.R0, asm.DWord),
		asm.Add.Imm(asm.R7, 1),
		asm.JLT.Imm(asm.R7, batch, next),
		asm.Mov.Imm(asm.R0, 0).WithSymbol(end),
		asm.Return(),
	}
}

// A table is the content of one page table.
type table [tableBytes / 8]uint64

// tables copies the page tables at these addresses; visit receives them in their order, nil for one that cannot be
// read. A table is valid only during the call.
func (m *kernelMemory) tables(addresses []uint64, visit func(i int, t *table)) error {
	element := make([]byte, elementBytes)
	for first := 0; first < len(addresses); first += batch {
		some := addresses[first:min(first+batch, len(addresses))]
		if err := m.copy(some); err != nil {
			return err
		}
		for i := range some {
			if _, err := m.shared.ReadAt(element, int64(i)*elementBytes); err != nil {
				return fmt.Errorf("read a BPF map: %w", err)
			}
			visit(first+i, contentOf(element))
		}
	}
	return nil
}

func contentOf(element []byte) *table {
	if binary.NativeEndian.Uint64(element[resultAt:]) != 0 {
		return nil
	}
	t := &table{}
	for i := range t {
		t[i] = binary.NativeEndian.Uint64(element[tableAt+8*i:])
	}
	return t
}

// copy fills the elements for at most `batch` addresses, and leaves the others out.
func (m *kernelMemory) copy(addresses []uint64) error {
	word := make([]byte, 8)
	for i := range batch {
		address := uint64(0)
		if i < len(addresses) {
			address = addresses[i]
		}
		binary.NativeEndian.PutUint64(word, address)
		if _, err := m.shared.WriteAt(word, int64(i)*elementBytes); err != nil {
			return fmt.Errorf("write a BPF map: %w", err)
		}
	}
	_, err := runIterator(m.copier)
	return err
}

func runIterator(it *link.Iter) ([]byte, error) {
	run, err := it.Open()
	if err != nil {
		return nil, fmt.Errorf("run a BPF program: %w", err)
	}
	out, err := io.ReadAll(run)
	if err := errors.Join(err, run.Close()); err != nil {
		return nil, fmt.Errorf("run a BPF program: %w", err)
	}
	return out, nil
}

// topTable is the kernel's address of the top page table of process pid, a number of the first PID namespace.
func topTable(pid int) (address uint64, err error) {
	kernel, err := btf.LoadKernelSpec()
	if err != nil {
		return 0, fmt.Errorf("read the kernel's types: %w", err)
	}
	at := map[string]uint32{}
	for _, path := range [][2]string{{"task_struct", "tgid"}, {"task_struct", "mm"}, {"mm_struct", "pgd"}} {
		if at[path[1]], err = offsetOf(kernel, path[0], path[1]); err != nil {
			return 0, err
		}
	}
	program, err := loadIterator("task", writeTopTable(pid, at))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, program.Close()) }()
	it, err := link.AttachIter(link.IterOptions{Program: program})
	if err != nil {
		return 0, fmt.Errorf("attach a BPF program: %w", err)
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	out, err := runIterator(it)
	if err != nil {
		return 0, err
	}
	if len(out) < 8 {
		return 0, fmt.Errorf("the kernel has no process %d", pid)
	}
	return binary.NativeEndian.Uint64(out), nil
}

// writeTopTable is a program that runs once for each task. Its argument, struct bpf_iter__task, points at the
// iteration's data at offset 0, which begins with the output, and at the task at offset 8.
func writeTopTable(pid int, at map[string]uint32) asm.Instructions {
	const end = "end"
	return asm.Instructions{
		asm.LoadMem(asm.R2, asm.R1, 8, asm.DWord),
		asm.JEq.Imm(asm.R2, 0, end),
		asm.LoadMem(asm.R3, asm.R2, int16(at["tgid"]), asm.Word),
		asm.JNE.Imm(asm.R3, int32(pid), end),
		asm.LoadMem(asm.R4, asm.R2, int16(at["mm"]), asm.DWord),
		asm.JEq.Imm(asm.R4, 0, end),
		asm.LoadMem(asm.R5, asm.R4, int16(at["pgd"]), asm.DWord),
		asm.StoreMem(asm.RFP, -8, asm.R5, asm.DWord),
		asm.LoadMem(asm.R1, asm.R1, 0, asm.DWord),
		asm.LoadMem(asm.R1, asm.R1, 0, asm.DWord),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -8),
		asm.Mov.Imm(asm.R3, 8),
		asm.FnSeqWrite.Call(),
		asm.Mov.Imm(asm.R0, 0).WithSymbol(end),
		asm.Return(),
	}
}

func offsetOf(kernel *btf.Spec, structure, member string) (uint32, error) {
	var s *btf.Struct
	if err := kernel.TypeByName(structure, &s); err != nil {
		return 0, fmt.Errorf("read the kernel's types: %w", err)
	}
	if bytes, ok := memberOffset(s.Members, member); ok {
		return bytes, nil
	}
	return 0, fmt.Errorf("this kernel's %s has no %s", structure, member)
}

// memberOffset also searches members without a name, in bytes.
func memberOffset(members []btf.Member, name string) (uint32, bool) {
	for _, m := range members {
		if m.Name == name {
			return m.Offset.Bytes(), true
		}
		if inner, ok := btf.As[*btf.Struct](m.Type); ok && m.Name == "" {
			if at, ok := memberOffset(inner.Members, name); ok {
				return m.Offset.Bytes() + at, true
			}
		}
	}
	return 0, false
}
