// Package granary gives a Go program that calls C code a view of the heap of that code, and scoped
// heaps of its own for memory that the garbage collector need not see.
//
// A program that uses the package is linked with libgranary.so, which then serves malloc for all C code
// in it: what C.CString and C.malloc return, and every library. Go's own heap is not malloc's.
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

// Version is that of the library, as "granary 0.1.0".
func Version() string { return C.GoString(C.granary_version()) }

// Stat is the figure of that name, in the unit that docs/reference/counters.md says; false if there is none.
func Stat(name string) (uint64, bool) {
	text := C.CString(name)
	defer C.free(unsafe.Pointer(text))
	var value C.uint64_t
	known := C.granary_stat(text, &value) == 0
	return uint64(value), known
}

// ReleaseFreeMemory gives what C code has freed back to the system and returns the bytes.
func ReleaseFreeMemory() uint64 { return uint64(C.granary_release_free_memory()) }

// A Heap holds memory outside Go's: it is counted, capped, and all given back by Close. Any goroutine
// may call its methods at any time but Close, after which nothing of it may be used.
type Heap struct{ heap *C.granary_heap }

// Figures are what a heap holds, in bytes but for Objects.
type Figures struct {
	Live, Objects uint64
	Held          uint64 // objects, the free space beside them, and what describes them
	Cap           uint64 // 0 for none
}

// NewHeap makes a heap whose objects may take capBytes, 0 for no cap.
func NewHeap(name string, capBytes uint64) (*Heap, error) {
	text := C.CString(name)
	defer C.free(unsafe.Pointer(text))
	h := C.granary_heap_create(text, C.size_t(capBytes))
	if h == nil {
		return nil, ErrNoMemory
	}
	return &Heap{h}, nil
}

// Alloc returns size bytes of any content. They must hold no pointers into Go's memory.
func (h *Heap) Alloc(size int) ([]byte, error) {
	if size <= 0 {
		return nil, fmt.Errorf("granary: cannot allocate %d bytes, ask for 1 or more", size)
	}
	p := C.granary_heap_malloc(h.heap, C.size_t(size))
	if p == nil {
		return nil, ErrNoMemory
	}
	return unsafe.Slice((*byte)(p), size), nil
}

// Free gives back what Alloc returned.
func (h *Heap) Free(b []byte) {
	C.granary_heap_free(h.heap, unsafe.Pointer(unsafe.SliceData(b)))
}

// Figures measures the heap.
func (h *Heap) Figures() Figures {
	var f C.struct_granary_heap_figures
	C.granary_heap_measure(h.heap, &f, C.size_t(unsafe.Sizeof(f)))
	return Figures{uint64(f.live), uint64(f.objects), uint64(f.held), uint64(f.cap)}
}

// Close gives all memory of the heap back, also what was not freed.
func (h *Heap) Close() {
	C.granary_heap_destroy(h.heap)
	h.heap = nil
}
