// Package inspect finds the allocator of a process, and reads and controls a Granary heap from outside
// the process. It needs no thread, socket or signal in the process; it reads a stopped process and a
// core file as well.
//
// The library describes itself (docs/reference/statistics-layout.md): an ELF note leads to a
// descriptor, whose rows say by name where each figure lies. A reader uses the rows it knows and
// passes over the others, so the two need not be of one version. Everything read is checked: a heap
// that was overwritten, or is being changed, costs an error or a line in HeapMap.Damage, never a
// crash, an endless loop or unbounded memory.
package inspect
