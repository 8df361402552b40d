// The requests of the containers of C++'s library as GCC's has them (libstdc++, 64 bits).
// docs/design/model.md derives the forms.

package model

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/granary-allocator/granary/tool/internal/model/cost"
)

// containerKinds are the containers that are known.
var containerKinds = []string{"vector", "list", "set", "map", "unordered_set", "unordered_map"}

// An containerElement is a type: a number of bytes, or a string of a length.
type containerElement struct {
	Text   string
	Size   uint64 // of the object itself
	Align  uint64
	Beside uint64 // what an element allocates itself
	String bool
}

const (
	pointer     = 8
	stringSize  = 32
	inlined     = 15 // letters that a string holds itself
	treeHeader  = 32 // colour, parent, left, right
	listHeader  = 16
	largestType = 1 << 20
)

// parseElement reads "8" or "string:20".
func parseElement(text string) (containerElement, error) {
	length, isString := strings.CutPrefix(text, "string:")
	n, err := strconv.ParseUint(length, 10, 64)
	if err != nil || n > largestType || !isString && n == 0 {
		return containerElement{}, fmt.Errorf("%q is no type: give its bytes, as in 8, or string:20 for a string of 20 letters", text)
	}
	if !isString {
		align := uint64(1)
		for align < pointer && n%(2*align) == 0 {
			align *= 2
		}
		return containerElement{Text: text, Size: n, Align: align}, nil
	}
	e := containerElement{Text: text, Size: stringSize, Align: pointer, String: true}
	if n > inlined {
		e.Beside = n + 1
	}
	return e, nil
}

// A containerSpec is a container whose elements are inserted one by one.
type containerSpec struct {
	Kind       string
	Count      uint64
	Key, Value containerElement // the value is of maps only
}

// pairs reports whether the container is a map.
func (s containerSpec) pairs() bool { return s.Kind == "map" || s.Kind == "unordered_map" }

func up(n, to uint64) uint64 { return (n + to - 1) / to * to }

// object is the size and alignment of the content of a node.
func (s containerSpec) object() (size, align uint64) {
	if !s.pairs() {
		return s.Key.Size, s.Key.Align
	}
	align = max(s.Key.Align, s.Value.Align)
	return up(up(s.Key.Size, s.Value.Align)+s.Value.Size, align), align
}

// node is the size of a node behind a header.
func (s containerSpec) node(header uint64) uint64 {
	size, align := s.object()
	return up(up(header, align)+size, pointer)
}

// Nodes are the requests for elements, Tables those for arrays, Strings those of the elements' own.
func (s containerSpec) Nodes() cost.Heap {
	h := cost.Heap{}
	switch s.Kind {
	case "list":
		h.Add(s.node(listHeader), float64(s.Count))
	case "set", "map":
		h.Add(s.node(treeHeader), float64(s.Count))
	case "unordered_set", "unordered_map":
		size := s.node(pointer)
		if s.Key.String { // the hash of a key that is slow to hash is kept
			size += pointer
		}
		h.Add(size, float64(s.Count))
	}
	return h
}

// Tables are the arrays.
func (s containerSpec) Tables() cost.Heap {
	h := cost.Heap{}
	if s.Count == 0 {
		return h
	}
	switch s.Kind {
	case "vector":
		h.Add(capacity(s.Count)*s.Key.Size, 1)
	case "unordered_set", "unordered_map":
		h.Add(pointer*bucketsOf(s.Count), 1)
	}
	return h
}

// Strings are the requests of the elements themselves.
func (s containerSpec) Strings() cost.Heap {
	h := cost.Heap{}
	if s.Key.Beside > 0 {
		h.Add(s.Key.Beside, float64(s.Count))
	}
	if s.pairs() && s.Value.Beside > 0 {
		h.Add(s.Value.Beside, float64(s.Count))
	}
	return h
}

// Peak is the request that existed in addition while the array last grew: the previous array.
func (s containerSpec) Peak() uint64 {
	switch {
	case s.Count < 2:
		return 0
	case s.Kind == "vector":
		return capacity(s.Count) / 2 * s.Key.Size
	case strings.HasPrefix(s.Kind, "unordered"):
		if at := slices.Index(primes, bucketsOf(s.Count)); at > 0 {
			return pointer * primes[at-1]
		}
	}
	return 0
}

// capacity doubles from one.
func capacity(count uint64) uint64 {
	size := uint64(1)
	for size < count {
		size *= 2
	}
	return size
}

// primes are the numbers of buckets that doubling leads to in libstdc++'s list of primes.
var primes = []uint64{13, 29, 59, 127, 257, 541, 1109, 2357, 5087, 10273, 20753, 42043, 85229, 172933, 351061, 712697, 1447153, 2938679, 5967347, 12117689,
	24607243, 49969847, 101473717, 206062531, 418451333, 849745187, 1725587117, 3504151727}

// bucketsOf is the number of buckets of a hash table with the given number of elements: at most one element
// for each bucket.
func bucketsOf(count uint64) uint64 {
	for _, p := range primes {
		if p >= count {
			return p
		}
	}
	return capacity(count)
}

// mostBuckets is the number of elements up to which the buckets are known.
var mostBuckets = primes[len(primes)-1]
