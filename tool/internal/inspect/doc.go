// Package inspect reads the heap of a process that runs Granary from outside it, and steers it. It
// needs nothing from the process: no thread, no socket, no signal; a stopped process and a core file
// are read as well as a running one.
//
// The library describes itself (docs/reference/statistics-layout.md): an ELF note leads to a
// descriptor, whose rows say by name where each figure lies. A reader uses the rows it knows and
// passes over the others, so the two need not be of one version. Everything read is checked: a heap
// that was overwritten, or is being changed, costs an error or a line in HeapMap.Damage, never a
// crash, an endless loop or unbounded memory.
package inspect
