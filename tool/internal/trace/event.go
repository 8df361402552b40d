// Package trace records, shows, repeats and simulates traces. A trace is the allocation calls of a process, in one
// order over all its threads.
package trace

import (
	"fmt"
	"time"
)

// Kind is the kind of an event.
type Kind uint8

// The kinds. A realloc ends one object and begins another one.
const (
	Alloc Kind = iota
	Zeroed
	Free
	Realloc
)

var kindNames = [...]string{"alloc", "zeroed", "free", "realloc"}

// String returns the kind's name.
func (k Kind) String() string { return kindNames[k] }

// An Event is one call of the allocator.
type Event struct {
	Time   time.Duration // since the start of the recording
	Thread uint32        // in the order of their first events
	Kind   Kind
	Object uint64 // number of the object that begins; of the one that ends, for Free
	Size   uint64 // requested bytes of Object
	Align  uint64 // requested alignment of Object; 1 if the call named none
	Old    Object // the object that ends: for Free and Realloc
	Stack  uint32 // index of Object's stack in Header.Stacks, plus one; 0: unknown
	// Place is an index that no other live object has: of Object. A realloc keeps it.
	Place uint32
}

// An Object is a live object.
type Object struct {
	Number uint64 // in the order of allocation
	Size   uint64 // bytes
	Born   time.Duration
	Thread uint32
	Stack  uint32
	Place  uint32
	// Written is how many of its bytes were written, plus one; 0: unknown, as it is while the object is live.
	Written uint64
}

// Begins reports whether an object begins with the event.
func (e Event) Begins() bool { return e.Kind != Free }

// Ends reports whether an object ends with the event.
func (e Event) Ends() bool { return e.Kind == Free || e.Kind == Realloc }

// Header describes a trace.
type Header struct {
	Program   string        `json:"program"`
	Allocator string        `json:"allocator"` // the library that served the calls
	PID       uint64        `json:"pid"`
	Started   time.Time     `json:"started"`
	Length    time.Duration `json:"length_ns"`
	Sample    uint64        `json:"sample"`            // one object in so many was recorded
	Forked    bool          `json:"forked"`            // a child of fork, whose heap was its parent's
	Stopped   string        `json:"stopped"`           // why recording ended before the program; empty: it did not
	Lost      uint64        `json:"lost"`              // calls of signal handlers that interrupted the recorder
	Written   bool          `json:"written,omitempty"` // it has how much of large objects was written
	// Overwritten is for how long was recorded before the trace begins, which holds the last events alone.
	Overwritten time.Duration `json:"overwritten_ns,omitempty"`
	Size        int64         `json:"-"` // bytes of the file
	// Stacks are rows of indexes into Functions, from the innermost call on.
	Functions []string `json:"functions,omitempty"`
	Stacks    [][]int  `json:"stacks,omitempty"`
}

// Findings are counted while the events of a trace are read.
type Findings struct {
	UnknownFrees uint64   `json:"unknown_frees"` // frees of objects whose allocation is not in the trace
	MissingFrees uint64   `json:"missing_frees"` // objects whose address was allocated again without a free
	Damage       []string `json:"damage,omitempty"`
}

func (f *Findings) damage(format string, args ...any) {
	if len(f.Damage) < 10 { // more say nothing new
		f.Damage = append(f.Damage, fmt.Sprintf(format, args...))
	}
}
