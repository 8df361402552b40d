// Package inspect finds the allocator of a process, and reads and controls a Granary heap from outside
// the process. It needs no thread, socket or signal in the process; it reads a stopped process and a
// core file as well.
//
// The library describes itself (docs/reference/descriptor.md): an ELF note leads to a
// descriptor, whose rows give the location of each figure by name. A reader uses the rows it knows and
// skips the others, so the command and the library may have different versions. Every value read is
// checked: a heap that was overwritten, or that changes meanwhile, causes an error or a line in
// HeapMap.Damage, never a crash, an endless loop or unbounded memory.
package inspect
