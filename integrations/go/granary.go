// Package granary shows a Go program the heap of the C code that it calls, and provides scoped
// heaps for memory outside the garbage collector's.
//
// A program that uses the package is linked with libgranary.so, which then serves malloc for all C code
// in it: C.CString, C.malloc and every library. Go's own heap does not use malloc.
//
// The flags come from pkg-config. For a library that is not installed, build with -tags granary_flags and name
// the folders in CGO_CFLAGS and CGO_LDFLAGS.
package granary

/*
#include <stdlib.h>
#include <granary/granary.h>
#include <granary/heap.h>
#include <granary/stats.h>
*/
import "C"

import (
	"errors"
	"fmt"
	"unsafe"
)

// ErrNoMemory says that a heap's cap or the system refuses memory.
var ErrNoMemory = errors.New("no memory: the cap of the heap or the system refuses it")

// Version is the version of the library, as in "granary 0.1.0".
func Version() string { return C.GoString(C.granary_version()) }

// Stat is the figure of that name, in the unit of docs/reference/counters.md; false if there is none.
func Stat(name string) (uint64, bool) {
	text := C.CString(name)
	defer C.free(unsafe.Pointer(text))
	var value C.uint64_t
	known := C.granary_stat(text, &value) == 0
	return uint64(value), known
}

// ReleaseFreeMemory purges the memory that C code has freed and returns the number of bytes.
func ReleaseFreeMemory() uint64 { return uint64(C.granary_release_free_memory()) }

// A Heap is memory outside Go's heap: it is counted and capped, and Close frees all of it. Any goroutine
// may call its methods at any time; after Close none of its memory may be used.
type Heap struct{ heap *C.granary_heap }

// Figures describe a heap, in bytes except Objects.
type Figures struct {
	Live, Objects uint64
	Held          uint64 // objects, free space beside them, and metadata
	Cap           uint64 // 0 for none
}

// NewHeap creates a heap whose objects take at most capBytes; 0 for no cap.
func NewHeap(name string, capBytes uint64) (*Heap, error) {
	text := C.CString(name)
	defer C.free(unsafe.Pointer(text))
	h := C.granary_heap_create(text, C.size_t(capBytes))
	if h == nil {
		return nil, ErrNoMemory
	}
	return &Heap{h}, nil
}

// Alloc returns size bytes of undefined content. They must contain no pointers to Go's memory.
func (h *Heap) Alloc(size int) ([]byte, error) {
	if size <= 0 {
		return nil, fmt.Errorf("granary: cannot allocate %d bytes, request 1 or more", size)
	}
	p := C.granary_heap_malloc(h.heap, C.size_t(size))
	if p == nil {
		return nil, ErrNoMemory
	}
	return unsafe.Slice((*byte)(p), size), nil
}

// Free frees memory that Alloc returned.
func (h *Heap) Free(b []byte) {
	C.granary_heap_free(h.heap, unsafe.Pointer(unsafe.SliceData(b)))
}

// Figures measures the heap.
func (h *Heap) Figures() Figures {
	var f C.struct_granary_heap_figures
	C.granary_heap_measure(h.heap, &f, C.size_t(unsafe.Sizeof(f)))
	return Figures{uint64(f.live), uint64(f.objects), uint64(f.held), uint64(f.cap)}
}

// Close frees all memory of the heap, also objects that were not freed.
func (h *Heap) Close() {
	C.granary_heap_destroy(h.heap)
	h.heap = nil
}
